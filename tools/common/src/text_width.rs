//! Width of a chart's texts, estimated, since the font is the viewer's.

/// Maximum characters of a shortened text.
const MOST_CHARACTERS: usize = 200;

/// Width in units of the font size, at least DejaVu Sans's, which is wider than most fonts.
fn of(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '/' | ' ' | '(' | ')' | '[' | ']' | '-' | '!' => {
            0.42
        }
        'f' | 'r' | 't' => 0.43,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 1.01,
        'a'..='z' | '0'..='9' => 0.64,
        ' '..='~' => 0.84,
        _ => 1.1,
    }
}

/// Width in units of the font size.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().map(of).sum()
}

/// The text, or as much of its beginning and end as fits the width.
pub(crate) fn shorten(text: &str, most: f64) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= MOST_CHARACTERS && width(text) <= most {
        return text.to_owned();
    }
    let kept = |count: usize| {
        let (begin, end) = (&characters[..count.div_ceil(2)], &characters[characters.len() - count / 2..]);
        begin.iter().chain(&['…']).chain(end).collect::<String>()
    };
    let longest = (characters.len() - 1).min(MOST_CHARACTERS);
    (0..=longest).rev().map(kept).find(|text| width(text) <= most).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_keeps_its_begin_and_its_end() {
        assert_eq!(shorten("short, p50", 10.0), "short, p50");
        let long = "http://a-rather-long-name.example.com:3000/v1/embeddings, p50";
        let short = shorten(long, 20.0);
        assert!(width(&short) <= 20.0 && width(&short) > 18.0, "{short}");
        assert!(short.starts_with("http://a") && short.contains('…') && short.ends_with(", p50"), "{short}");
        assert!(width(&shorten(&"W".repeat(100_000), 1e9)) < 300.0);
        assert_eq!((shorten("abc", 0.0), shorten("", 0.0)), (String::new(), String::new()));
    }
}
