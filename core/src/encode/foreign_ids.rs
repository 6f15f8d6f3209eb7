//! Token ids that look like another tokenizer's.
//!
//! A client may send the ids of a tokenizer of its own, such as OpenAI's. They are in the model's vocabulary, so the model would
//! compute a vector of a text that nobody wrote.

use super::encoder::Encoder;
use crate::error::Error;
use crate::request::{ForeignIds, Place};

/// Maximum tokens of an input that are decoded and encoded again.
const COMPARED: usize = 64;

/// Maximum bytes that these tokens may become.
const COMPARED_BYTES: usize = 1 << 14;

/// Fraction of the tokens that may differ, one in this many: where a text was cut, its last word may have other tokens.
const ONE_DIFFERS_IN: usize = 8;

impl Encoder {
    /// True if ids look like another tokenizer's.
    ///
    /// # Errors
    /// [`Error::ForeignIds`] if such ids are refused.
    pub(super) fn check_origin(&self, ids: &[u32], place: Place) -> Result<bool, Error> {
        let policy = self.limits.token_ids;
        let problem = if policy == ForeignIds::Accept { None } else { self.foreign(ids) };
        match (policy, problem) {
            (ForeignIds::Refuse, Some(problem)) => Err(place.foreign(problem)),
            (_, problem) => Ok(problem.is_some()),
        }
    }

    /// The difference from ids of this tokenizer; `None` if there is none.
    fn foreign(&self, ids: &[u32]) -> Option<&'static str> {
        let around = self.around.get_or_init(|| match self.tokenizer.encode_fast("", true) {
            Ok(nothing) => nothing.get_ids().to_vec(),
            Err(_) => Vec::new(),
        });
        if !around.is_empty() && !ids.iter().any(|id| around.contains(id)) {
            return Some("has token ids without the special tokens that the model's tokenizer adds");
        }
        let is_text = |id: &u32| !self.special_ids.contains(id) && !around.contains(id);
        let ids: Vec<u32> = ids.iter().copied().filter(is_text).take(COMPARED).collect();
        if self.most_decoded(&ids) > COMPARED_BYTES {
            return None;
        }
        let text = self.tokenizer.decode(&ids, false).ok()?;
        self.growth.check_text(&self.tokenizer, &text).ok()?;
        let again = self.tokenizer.encode_fast(text, false).ok()?;
        let again: Vec<u32> = again.get_ids().iter().copied().filter(is_text).collect();
        (differing(&ids, &again) > ids.len() / ONE_DIFFERS_IN)
            .then_some("has token ids that the model's tokenizer does not give for the text that they mean")
    }
}

impl Place {
    /// An error about token ids of another tokenizer.
    pub(super) fn foreign(self, problem: impl std::fmt::Display) -> Error {
        Error::ForeignIds { field: self.field, problem: self.problem(problem) }
    }
}

/// Tokens between the beginning and the end that two sequences have in common.
fn differing(a: &[u32], b: &[u32]) -> usize {
    let common = |pairs: &mut dyn Iterator<Item = (&u32, &u32)>| pairs.take_while(|(a, b)| a == b).count();
    let prefix = common(&mut a.iter().zip(b));
    let suffix = common(&mut a[prefix..].iter().rev().zip(b[prefix..].iter().rev()));
    a.len().max(b.len()) - prefix - suffix
}

#[cfg(test)]
#[path = "tests/foreign_ids.rs"]
mod tests;
