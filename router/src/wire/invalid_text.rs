//! Texts of a body that are not Unicode: half of a surrogate pair, as JavaScript's `slice` leaves it of an emoji, or bytes that are
//! not UTF-8.

use super::parsed_size::text_len;
use std::ops::Range;

/// Maximum ratio of a rewritten body's size to the size of the body: a byte that is not UTF-8 becomes three.
pub(super) const GROWTH: usize = 3;

/// The number that replaces a text; no field for texts accepts it.
const NUMBER: &[u8] = b"-0.5";

/// A body whose texts are Unicode.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) body: Vec<u8>,
    /// Texts that were rewritten; names of fields do not count.
    pub(super) texts: usize,
}

/// True if all texts of a body are Unicode.
pub(super) fn are_unicode(body: &[u8]) -> bool {
    literals(body).all(|text| is_unicode(&body[text]))
}

/// Replaces what is not Unicode in the texts of a body by U+FFFD.
pub(super) fn replace(body: &[u8]) -> Rewritten {
    rewrite(body, false)
}

/// Replaces each text that is not Unicode by a number, so that the parser fails at the first that it reads.
pub(super) fn as_numbers(body: &[u8]) -> Vec<u8> {
    rewrite(body, true).body
}

fn rewrite(body: &[u8], to_numbers: bool) -> Rewritten {
    let mut rewritten = Rewritten { body: Vec::with_capacity(body.len()), texts: 0 };
    let mut copied = 0;
    for Range { start, end } in literals(body) {
        let text = &body[start..end];
        if is_unicode(text) {
            continue;
        }
        let after = body.get(end + 1..).unwrap_or_default();
        let is_name = after.trim_ascii_start().starts_with(b":");
        rewritten.texts += usize::from(!is_name);
        let out = &mut rewritten.body;
        if to_numbers && !is_name {
            out.extend_from_slice(&body[copied..start - 1]);
            out.extend_from_slice(NUMBER);
            copied = body.len().min(end + 1);
        } else {
            out.extend_from_slice(&body[copied..start]);
            out.extend(made_unicode(text));
            copied = end;
        }
    }
    rewritten.body.extend_from_slice(&body[copied..]);
    rewritten
}

/// Places of the string literals of a body, without their quotes.
fn literals(body: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + body.get(at..)?.iter().position(|&byte| byte == b'"')? + 1;
        let end = start + text_len(&body[start..]);
        at = end + 1;
        Some(start..end)
    })
}

fn is_unicode(literal: &[u8]) -> bool {
    std::str::from_utf8(literal).is_ok() && next_half(literal, 0).is_none()
}

/// The literal with U+FFFD in place of what is not Unicode.
fn made_unicode(literal: &[u8]) -> Vec<u8> {
    let mut text = String::from_utf8_lossy(literal).into_owned().into_bytes();
    let mut from = 0;
    while let Some(at) = next_half(&text, from) {
        text[at + 2..at + 6].copy_from_slice(b"fffd");
        from = at + 6;
    }
    text
}

/// Place of the first escape from `at` on that is half of a surrogate pair without the other half.
fn next_half(literal: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += literal.get(at..)?.iter().position(|&byte| byte == b'\\')?;
        at += match escaped(literal, at) {
            Some(0xD800..=0xDBFF) if matches!(escaped(literal, at + 6), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => return Some(at),
            // The byte after a backslash begins no other escape.
            _ => 2,
        };
    }
}

/// The code unit of an escape `\uXXXX` that begins at `at`.
fn escaped(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(body: &[u8]) -> (String, usize) {
        let Rewritten { body, texts } = replace(body);
        (String::from_utf8_lossy(&body).into_owned(), texts)
    }

    #[test]
    fn what_is_unicode_stays() {
        for body in
            [&b""[..], b"{}", br#"{"a":"\ud83d\ude00 \\ud83d \u0041 \" \n"}"#, "\"\u{1f600}\"".as_bytes(), b"\"\\u12"]
        {
            assert!(are_unicode(body), "{body:?}");
        }
    }

    #[test]
    fn halves_and_bytes_are_replaced_in_texts_only() {
        for (body, expected, texts) in [
            (&br#"{"a":"x \ud83d"}"#[..], r#"{"a":"x \ufffd"}"#, 1),
            (
                br#"["\udc00\ud83d","\uD83D\u0041","\ud83d\ud83d\ude00"]"#,
                r#"["\ufffd\ufffd","\ufffd\u0041","\ufffd\ud83d\ude00"]"#,
                3,
            ),
            (br#"{"\ud83d" : "\\\ud83d"}"#, r#"{"\ufffd" : "\\\ufffd"}"#, 1),
            (b"[\"a\xff\xf0\x9f\x98b\"]", "[\"a\u{fffd}\u{fffd}b\"]", 1),
            (br#"["\ud83d"#, r#"["\ufffd"#, 1),
        ] {
            assert!(!are_unicode(body), "{body:?}");
            assert_eq!(replaced(body), (expected.to_owned(), texts), "{body:?}");
        }
        assert!(are_unicode(b"{\xff}"), "it has no text");
    }

    #[test]
    fn a_number_takes_the_place_of_a_text_but_not_of_a_name() {
        for (body, expected) in [
            (&br#"{"a":["b","\ud83d"],"c":"\ud83d"}"#[..], &br#"{"a":["b",-0.5],"c":-0.5}"#[..]),
            (br#"{"\ud83d" : "d"}"#, br#"{"\ufffd" : "d"}"#),
            (br#"["\ud83d"#, br#"[-0.5"#),
        ] {
            assert_eq!(as_numbers(body), expected);
        }
    }

    #[test]
    fn the_size_is_bounded() {
        let body = [&b"\""[..], &[0xff; 1000], b"\""].concat();
        assert!(replace(&body).body.len() <= GROWTH * body.len());
    }
}
