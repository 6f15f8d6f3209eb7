//! How much of a text is worth encoding when only so many tokens of it are kept.
//!
//! Encoding takes time and, many times over, memory in proportion to the text, and a request may bring megabytes of text
//! to a model that reads a few thousand tokens. Since no token stands for more bytes than the vocabulary's longest, the
//! tokens that are kept lie in a part of known size.

use crate::TruncationDirection;
use tokenizers::Tokenizer;

/// Bytes beyond those of the tokens that are kept. What is cut off there changes the tokens of the word that the cut goes
/// through, and words of this length are none.
const MARGIN: usize = 1 << 16;

/// The bytes that tokens may stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextBound {
    longest_token: usize,
}

impl TextBound {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Self {
        // The vocabulary's spelling of a token is never shorter than what it stands for.
        let longest = tokenizer.get_vocab(true).into_keys().map(|token| token.len()).max();
        Self { longest_token: longest.unwrap_or(0).max(1) }
    }

    fn bytes(self, max_tokens: usize) -> usize {
        max_tokens.saturating_mul(self.longest_token).saturating_add(MARGIN)
    }

    /// Whether a text has more tokens than that, whatever they are.
    pub(crate) fn exceeds(self, text: &str, max_tokens: usize) -> bool {
        text.len() > self.bytes(max_tokens)
    }

    /// The part in which the first or the last `max_tokens` tokens are; the text itself unless it exceeds them.
    pub(crate) fn part(self, text: &str, max_tokens: usize, direction: TruncationDirection) -> &str {
        if !self.exceeds(text, max_tokens) {
            return text;
        }
        match direction {
            TruncationDirection::Right => &text[..boundary_before(text, self.bytes(max_tokens))],
            TruncationDirection::Left => &text[boundary_after(text, text.len() - self.bytes(max_tokens))..],
        }
    }

    /// The beginning of a text that is kept where its end is the part: what is before the text may share a token with it.
    pub(crate) fn beginning(text: &str) -> &str {
        &text[..boundary_before(text, MARGIN)]
    }
}

/// The last place between characters that is at `at` or before it.
fn boundary_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&place| text.is_char_boundary(place)).unwrap_or(0)
}

/// The first place between characters that is at `at` or after it.
fn boundary_after(text: &str, at: usize) -> usize {
    (at..text.len()).find(|&place| text.is_char_boundary(place)).unwrap_or(text.len())
}
