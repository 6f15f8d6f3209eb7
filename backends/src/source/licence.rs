//! The licence in a model card.

/// The file of a model card.
pub(super) const CARD: &str = "README.md";

/// The licence in a model card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Licence {
    /// Its name.
    Named(String),
    /// The model card names none.
    NotNamed,
    /// No model card was read.
    Unread,
}

impl Licence {
    /// The name, if the model card was read and has one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::NotNamed | Self::Unread => None,
        }
    }

    /// The licence in the bytes of a model card.
    pub(super) fn of_bytes(card: &[u8]) -> Self {
        match std::str::from_utf8(card) {
            Ok(card) => of_card(card).map_or(Self::NotNamed, Self::Named),
            Err(_) => Self::Unread,
        }
    }
}

/// `license` in the front matter, the YAML between the first two lines of dashes; `None` if it is absent.
fn of_card(card: &str) -> Option<String> {
    let mut lines = card.lines();
    if lines.next()?.trim_end() != "---" {
        return None;
    }
    let field = |key: &str, line: &str| {
        let value = line.strip_prefix(key)?.trim().trim_matches(['"', '\'']);
        (!value.is_empty()).then(|| value.to_owned())
    };
    let front: Vec<&str> = lines.take_while(|line| line.trim_end() != "---").collect();
    // A publisher's own licence is `other`, and `license_name` has its name.
    let find = |key: &str| front.iter().find_map(|line| field(key, line));
    find("license:").map(|licence| match find("license_name:") {
        Some(name) if licence == "other" => name,
        _ => licence,
    })
}

#[cfg(test)]
mod tests {
    use super::of_card;

    #[test]
    fn the_licence_is_in_the_front_matter() {
        assert_eq!(of_card("---\ntags:\n- a\nlicense: apache-2.0\n---\n# A\n").as_deref(), Some("apache-2.0"));
        assert_eq!(of_card("---\nlicense: 'mit'\n---\n").as_deref(), Some("mit"));
        assert_eq!(of_card("---\nlicense: other\nlicense_name: gemma\n---\n").as_deref(), Some("gemma"));
        assert_eq!(of_card("# A\nlicense: mit\n"), None);
        assert_eq!(of_card("---\na: b\n---\nlicense: mit\n"), None);
        assert_eq!(of_card(""), None);
    }
}
