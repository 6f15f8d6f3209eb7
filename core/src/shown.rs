//! Untrusted text in messages and logs.

/// Maximum characters of a client's text in a message.
const MAX_SHOWN: usize = 200;
/// Maximum names that a message lists.
const MAX_NAMES: usize = 20;

/// Client's text for a message or a log line: an [`excerpt`] of 200 characters.
pub fn shown(text: &str) -> String {
    excerpt(text, MAX_SHOWN)
}

/// Text truncated to `limit` characters, with control characters and other invisible ones escaped, so that it cannot begin a line
/// of its own.
pub fn excerpt(text: &str, limit: usize) -> String {
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        match character {
            _ if index == limit => {
                shown.push_str("...");
                break;
            }
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
}

/// Untrusted names for a message: the first 20, each as [`shown`], and the number of the others.
pub fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MAX_NAMES);
    let mut listed: Vec<String> = names.take(MAX_NAMES).map(shown).collect();
    if let (Some(last), 1..) = (listed.last_mut(), more) {
        *last += &format!(" and {more} more");
    }
    if listed.is_empty() { "none".to_owned() } else { listed.join(", ") }
}

/// Message with the credentials of each URL (`http://user:password@host`) replaced by `***`.
pub fn without_credentials(message: &str) -> String {
    let mut shown = String::new();
    let mut rest = message;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let authority = after.split(|c: char| c.is_whitespace() || "/?#\"'`<>".contains(c)).next().unwrap_or_default();
        rest = match authority.rfind('@') {
            Some(at) => {
                shown.push_str("***");
                &after[at..]
            }
            None => after,
        };
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_send_is_cut_and_stays_on_its_line() {
        for (text, expected) in [
            ("plain 'text' \"with\" \\ é 漢字", "plain 'text' \"with\" \\ é 漢字"),
            ("a\nb\r\t\0\u{1b}[31m", "a\\nb\\r\\t\\0\\u{1b}[31m"),
            ("\u{7f}\u{85}\u{2028}\u{202e}\u{feff}\u{200b}", "\\u{7f}\\u{85}\\u{2028}\\u{202e}\\u{feff}\\u{200b}"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert_eq!(shown(&"é".repeat(200)), "é".repeat(200));
        assert_eq!(shown(&"é".repeat(31_000)), "é".repeat(200) + "...");
        assert!(shown(&"\u{10ffff}".repeat(1 << 20)).len() <= MAX_SHOWN * 10 + 3);
    }

    #[test]
    fn few_names_are_listed_and_each_is_cut() {
        let listed = |names: &[&str]| listed(names.iter().copied());
        assert_eq!(listed(&[]), "none");
        assert_eq!(listed(&["a", "b\n"]), "a, b\\n");
        assert_eq!(listed(&["a"; 20]), ["a"; 20].join(", "));
        assert_eq!(listed(&["a"; 256]), ["a"; 20].join(", ") + " and 236 more");
        let long = "\u{10ffff}".repeat(1 << 20);
        assert!(listed(&[long.as_str(); 30]).len() <= MAX_NAMES * (MAX_SHOWN * 10 + 5) + 12);
    }

    #[test]
    fn credentials_are_not_shown() {
        for (message, expected) in [
            ("from http://user:secret@hub:80/a@b: refused", "from http://***@hub:80/a@b: refused"),
            ("`https://token@hub` and ftp://u:p@ss@h/x", "`https://***@hub` and ftp://***@h/x"),
            ("http://hub/a@b, user@host, a://", "http://hub/a@b, user@host, a://"),
        ] {
            assert_eq!(without_credentials(message), expected);
        }
    }
}
