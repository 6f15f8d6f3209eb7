//! The licence in a model card.

use super::ModelFiles;

const CARD: &str = "README.md";

/// `license` in the front matter of `README.md`, the YAML between its first two lines of dashes; `None` if it is absent.
pub(crate) fn read(files: &ModelFiles) -> Option<String> {
    let card = files.read(CARD).ok().flatten()?;
    of_card(std::str::from_utf8(&card).ok()?)
}

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
