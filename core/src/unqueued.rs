//! How much may be tokenized or decoded for its own sake. No forward pass follows, so the queue's limits, which bound
//! everything else, never see it.
//!
//! A token that is shown takes a few hundred bytes of memory while it is. Bytes of text, one more for each text, and ids are
//! what is counted. A byte is one token at most unless normalisation makes a text longer, so what a request's tokens may be
//! after normalisation has the same limit.

use crate::Error;
use crate::gate::{Gate, Share};
use std::sync::Arc;

/// Bytes of text, ids, or tokens that are shown, in one request.
pub(crate) const MAX_OF_A_REQUEST: usize = 1 << 20;

/// While so many are being worked on, nothing new enters.
const MAX_AT_ONCE: usize = 4 * MAX_OF_A_REQUEST;

/// What is under way.
#[derive(Debug)]
pub(crate) struct Unqueued(Arc<Gate>);

impl Default for Unqueued {
    fn default() -> Self {
        Self(Gate::new(MAX_AT_ONCE, "bytes of text or token ids are being tokenized or decoded"))
    }
}

impl Unqueued {
    /// `unit` says what the amount counts.
    ///
    /// # Errors
    /// [`Error::Validation`] for more than one request may bring, [`Error::Overloaded`] while others do too much.
    pub(crate) fn enter(&self, field: &'static str, amount: usize, unit: &str) -> Result<Share, Error> {
        if amount > MAX_OF_A_REQUEST {
            let problem = format!("has {amount} {unit}, the limit is {MAX_OF_A_REQUEST} in a request");
            return Err(Error::Validation { field, problem });
        }
        let mut share = self.0.share();
        share.grow(amount)?;
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_enters_while_others_are_below_the_limit() {
        let work = Unqueued::default();
        let mut parts: Vec<_> = (0..4).map(|_| work.enter("ids", MAX_OF_A_REQUEST - 1, "ids").unwrap()).collect();
        parts.push(work.enter("inputs", MAX_OF_A_REQUEST, "bytes").unwrap());
        let error = work.enter("ids", 0, "ids").unwrap_err();
        assert!(matches!(&error, Error::Overloaded(text) if text.contains("4194304")), "{error}");
        parts.pop();
        drop(work.enter("ids", 1, "ids").unwrap());
        drop(parts);
        assert_eq!(work.0.held(), 0);
    }

    #[test]
    fn more_than_the_limit_never_enters() {
        let error = Unqueued::default().enter("inputs", MAX_OF_A_REQUEST + 1, "bytes of text").unwrap_err();
        let text = "`inputs` has 1048577 bytes of text, the limit is 1048576 in a request";
        assert!(matches!(&error, Error::Validation { .. }) && error.to_string() == text, "{error}");
    }
}
