//! How much may be tokenized or decoded for its own sake. No forward pass follows, so the queue's limits, which bound
//! everything else, never see it.
//!
//! A byte of text is one token at most, and a token that is shown takes a few hundred bytes of memory while it is: bytes of
//! text and ids are what is counted. As at the queue, a request enters while less than the limit is under way, whatever its
//! own size, so that large ones have the same chance as small ones.

use crate::Error;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of text, or ids, in one request.
pub(crate) const MAX_OF_A_REQUEST: usize = 1 << 20;

/// While so many are being worked on, nothing new enters.
const MAX_AT_ONCE: usize = 4 * MAX_OF_A_REQUEST;

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct Unqueued(AtomicUsize);

/// One request's part; given back when dropped.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    of: &'a Unqueued,
    amount: usize,
}

impl Unqueued {
    /// `unit` says what the amount counts.
    ///
    /// # Errors
    /// [`Error::Validation`] for more than one request may bring, [`Error::Overloaded`] while others do too much.
    pub(crate) fn enter(&self, field: &'static str, amount: usize, unit: &str) -> Result<Part<'_>, Error> {
        if amount > MAX_OF_A_REQUEST {
            let problem = format!("has {amount} {unit}, the limit is {MAX_OF_A_REQUEST} in a request");
            return Err(Error::Validation { field, problem });
        }
        let grown = |others: usize| (others < MAX_AT_ONCE).then_some(others + amount);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => Ok(Part { of: self, amount }),
            Err(_) => Err(Error::Overloaded(format!(
                "{MAX_AT_ONCE} bytes of text or token ids are being tokenized or decoded, which is the limit"
            ))),
        }
    }
}

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.amount, Ordering::Relaxed);
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
        assert_eq!(work.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn more_than_the_limit_never_enters() {
        let error = Unqueued::default().enter("inputs", MAX_OF_A_REQUEST + 1, "bytes of text").unwrap_err();
        let text = "`inputs` has 1048577 bytes of text, the limit is 1048576 in a request";
        assert!(matches!(&error, Error::Validation { .. }) && error.to_string() == text, "{error}");
    }
}
