//! Untrusted text in messages and logs.

/// Maximum characters of a client's text in a message.
const MAX_SHOWN: usize = 200;

/// Client's text for a message or a log line: truncated to 200 characters, with control characters and other invisible ones
/// escaped, so that it cannot begin a line of its own.
pub fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (index, character) in text.chars().enumerate() {
        match character {
            _ if index == MAX_SHOWN => {
                shown.push_str("...");
                break;
            }
            '"' | '\'' | '\\' => shown.push(character),
            _ => shown.extend(character.escape_debug()),
        }
    }
    shown
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
