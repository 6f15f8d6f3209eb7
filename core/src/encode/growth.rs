//! Growth of texts while they are tokenized or decoded: the size that a request's text may reach is limited, whatever the
//! model's files do with it.

use crate::tokenizer_limits::{of_decoder, of_normalizer};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use tokenizers::{NormalizedString, Normalizer, Tokenizer};

/// Maximum ratio of a text's length after normalisation to its length before.
const MAX_GROWTH: u64 = 8;

/// Bytes that a normalised text may always have.
const ALWAYS: u64 = 1 << 20;

/// Bytes of the parts in which a text is normalised to measure its length.
const PART: usize = 1 << 10;

/// Maximum bytes of text that one request decodes.
pub(crate) const MAX_DECODED: u64 = 32 << 20;

/// Maximum bytes that a tokenizer makes of one byte.
#[derive(Debug)]
pub(super) struct Growth {
    normalizer: u64,
    decoder: u64,
    /// Bytes of each token.
    token_bytes: Vec<u32>,
}

impl Growth {
    /// # Errors
    /// The tokenizer expands texts more than allowed; the rest of a sentence.
    pub(super) fn new(tokenizer: &Tokenizer, vocab: &HashMap<String, u32>, vocab_size: usize) -> Result<Self, String> {
        let mut token_bytes = vec![0; vocab_size];
        for (token, &id) in vocab {
            if let Some(bytes) = token_bytes.get_mut(id as usize) {
                *bytes = u32::try_from(token.len()).unwrap_or(u32::MAX);
            }
        }
        Ok(Self {
            normalizer: tokenizer.get_normalizer().map_or(Ok(1), of_normalizer)?,
            decoder: tokenizer.get_decoder().map_or(Ok(1), of_decoder)?,
            token_bytes,
        })
    }

    /// Checks that a text does not become too long. Most texts cannot; the others are normalised part by part.
    ///
    /// # Errors
    /// The rest of a sentence about the text.
    pub(super) fn check_text(&self, tokenizer: &Tokenizer, text: &str) -> Result<(), String> {
        let length = text.len() as u64;
        let limit = length.saturating_mul(MAX_GROWTH).max(ALWAYS);
        let Some(normalizer) = tokenizer.get_normalizer().filter(|_| length.saturating_mul(self.normalizer) > limit)
        else {
            return Ok(());
        };
        let (mut rest, mut bytes) = (text, 0);
        while !rest.is_empty() {
            let end = (PART.min(rest.len())..=rest.len()).find(|&end| rest.is_char_boundary(end)).unwrap_or(rest.len());
            let (part, behind) = rest.split_at(end);
            let mut part = NormalizedString::from(part);
            normalizer.normalize(&mut part).map_err(|error| error.to_string())?;
            bytes += part.get().len() as u64;
            if bytes > limit {
                return Err(format!(
                    "has {length} bytes, which normalisation expands to more than {limit}; the limit is {MAX_GROWTH} times \
                     the length, or {ALWAYS}"
                ));
            }
            rest = behind;
        }
        Ok(())
    }

    /// Bytes of the text that ids may become.
    pub(super) fn most_decoded(&self, ids: &[u32]) -> u64 {
        let bytes = ids.iter().filter_map(|&id| self.token_bytes.get(id as usize)).map(|&bytes| u64::from(bytes));
        bytes.sum::<u64>().saturating_mul(self.decoder)
    }

    /// Counts the bytes of text that ids may become.
    ///
    /// # Errors
    /// They are more than a request may decode; the rest of a sentence.
    pub(super) fn count_decoded(&self, ids: &[u32], decoded: &AtomicU64) -> Result<(), String> {
        let bytes = self.most_decoded(ids);
        if decoded.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= MAX_DECODED {
            return Ok(());
        }
        Err(format!("may become more than {MAX_DECODED} bytes of text, the limit of a request"))
    }
}

#[cfg(test)]
#[path = "tests/growth.rs"]
mod tests;
