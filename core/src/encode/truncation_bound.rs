//! Truncation bound: the part of a text that is encoded when only its first or last tokens are kept.
//!
//! Encoding takes time and, many times over, memory in proportion to the text, and a request may bring megabytes of text
//! to a model that reads a few thousand tokens. Since no token stands for more bytes than the vocabulary's longest, the
//! tokens that are kept lie in a part of known size.

use super::word_boundaries::WordBoundaries;
use crate::request::TruncationDirection;
use std::collections::HashMap;
use tokenizers::Tokenizer;

/// Bytes in addition to the kept tokens. A cut changes the tokens of the word that it goes through, and no word is this
/// long.
const MARGIN: usize = 1 << 16;

/// Maximum bytes of a text that is encoded whole because no part of it is known to give the same tokens.
const WHOLE: usize = 1 << 20;

/// Bound of the bytes that tokens stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TruncationBound {
    longest_token: usize,
    words: WordBoundaries,
}

impl TruncationBound {
    pub(crate) fn new(tokenizer: &Tokenizer, vocab: &HashMap<String, u32>) -> Self {
        // The vocabulary's spelling of a token is never shorter than what it stands for.
        let longest = vocab.keys().map(String::len).max();
        Self { longest_token: longest.unwrap_or(0).max(1), words: WordBoundaries::new(tokenizer) }
    }

    fn bytes(self, max_tokens: usize) -> usize {
        max_tokens.saturating_mul(self.longest_token).saturating_add(MARGIN)
    }

    /// Maximum bytes that are encoded of a text of this length. If normalisation leaves too little of the part, the whole text
    /// is encoded too.
    pub(crate) fn encoded_bytes(self, len: usize, max_tokens: usize) -> usize {
        len.min(self.bytes(max_tokens).saturating_add(MARGIN))
    }

    /// True if only a part of the text is encoded.
    pub(crate) fn exceeds(self, text: &str, max_tokens: usize) -> bool {
        text.len() > self.bytes(max_tokens)
    }

    /// Tokens that a text of this length has at least; 0 where nothing is known of them.
    pub(crate) fn least_tokens(self, text: &str) -> usize {
        let bytes = self.words.bytes_for_byte.map(|bytes| bytes.saturating_mul(self.longest_token));
        bytes.map_or(0, |bytes| text.len() / bytes)
    }

    /// The part that holds the first or the last `max_tokens` tokens; the text itself unless it exceeds them. A text that is
    /// cut on the left begins at a boundary between words, since what a tokenizer makes of a word depends on where the word
    /// begins.
    ///
    /// # Errors
    /// The text has no such boundary and is too long to be encoded whole; the rest of a sentence.
    pub(crate) fn part(self, text: &str, max_tokens: usize, direction: TruncationDirection) -> Result<&str, String> {
        if !self.exceeds(text, max_tokens) {
            return Ok(text);
        }
        match direction {
            TruncationDirection::Right => Ok(&text[..boundary_before(text, self.bytes(max_tokens))]),
            TruncationDirection::Left => {
                let start = text.len() - self.bytes(max_tokens);
                let start = if self.words.known { WordBoundaries::last_before(text, start) } else { 0 };
                let part = &text[start..];
                if part.len() <= self.bytes(max_tokens).saturating_add(MARGIN) { Ok(part) } else { whole(part) }
            }
        }
    }

    /// True if the part of a text with the kept tokens is at most this many bytes long.
    pub(crate) fn is_as_long(self, bytes: usize, max_tokens: usize) -> bool {
        bytes >= self.bytes(max_tokens)
    }

    /// The beginning or the end of a text with about this many bytes, if its tokens are the first or the last of the text.
    pub(crate) fn short_part(self, text: &str, bytes: usize, direction: TruncationDirection) -> Option<&str> {
        let boundary = |at| Some(WordBoundaries::last_before(text, at)).filter(|&at| self.words.known && at > 0);
        match direction {
            TruncationDirection::Right => boundary(bytes).map(|end| &text[..end]),
            TruncationDirection::Left => {
                let part = boundary(text.len().checked_sub(bytes)?).map(|start| &text[start..]);
                part.filter(|part| part.len() / 2 <= bytes)
            }
        }
    }

    /// Splits a text with its prompt in two: the beginning of the prompt, which has the same tokens before all texts,
    /// and the rest.
    pub(crate) fn split_prompt<'t>(self, prompt: &str, text: &'t str) -> Option<(&'t str, &'t str)> {
        if !self.words.known || !text.starts_with(prompt) {
            return None;
        }
        let end = WordBoundaries::last_before(prompt, prompt.len().checked_sub(1)?);
        text.split_at_checked(end).filter(|_| end > 0)
    }

    /// The beginning of a text whose end is kept: the prompt before the text may share a token with it.
    pub(crate) fn beginning<'t>(text: &'t str, part: &str) -> &'t str {
        let end = MARGIN.min(text.len() - part.len());
        match WordBoundaries::last_before(text, end) {
            0 => &text[..boundary_before(text, end)],
            boundary => &text[..boundary],
        }
    }
}

/// A text, to be encoded whole.
///
/// # Errors
/// It is too long; the rest of a sentence.
pub(crate) fn whole(text: &str) -> Result<&str, String> {
    if text.len() <= WHOLE {
        return Ok(text);
    }
    Err(format!("cannot be truncated: {} bytes in a row would have to be tokenized, the limit is {WHOLE}", text.len()))
}

/// The last boundary between characters at `at` or before it.
fn boundary_before(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&place| text.is_char_boundary(place)).unwrap_or(0)
}

#[cfg(test)]
#[path = "tests/truncation_bound.rs"]
mod tests;
