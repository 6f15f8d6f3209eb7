//! Byte positions of a text's characters.

/// Distance in characters of the stored positions.
const STRIDE: usize = 64;

/// Byte position of each [`STRIDE`]th character of a text, so that a piece is found without scanning the text before it.
#[derive(Debug)]
pub(super) struct CharIndex {
    bytes: Vec<usize>,
}

impl CharIndex {
    pub(super) fn of(text: &str) -> Self {
        Self { bytes: text.char_indices().step_by(STRIDE).map(|(byte, _)| byte).collect() }
    }

    /// Characters from `start` to `end` of the indexed text; fewer at its end.
    pub(super) fn between<'t>(&self, text: &'t str, start: usize, end: usize) -> &'t str {
        text.get(self.byte(text, start)..self.byte(text, end.max(start))).unwrap_or("")
    }

    fn byte(&self, text: &str, character: usize) -> usize {
        let Some(&known) = self.bytes.get(character / STRIDE) else { return text.len() };
        let rest = text.get(known..).unwrap_or("");
        rest.char_indices().nth(character % STRIDE).map_or(text.len(), |(byte, _)| known + byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_those_of_the_characters() {
        for text in ["", "a", &"\u{e9}a\u{1f980}".repeat(70)] {
            let (index, count) = (CharIndex::of(text), text.chars().count());
            for start in 0..count + 3 {
                for end in [start, start + 1, start + 63, start + 64, count, count + 9, start.saturating_sub(2)] {
                    let expected: String = text.chars().skip(start).take(end.saturating_sub(start)).collect();
                    assert_eq!(index.between(text, start, end), expected, "{start} to {end} of {count}");
                }
            }
        }
    }
}
