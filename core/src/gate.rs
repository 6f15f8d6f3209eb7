//! How much of something all requests together may have under way.
//!
//! A request takes more while the others have less than the limit, whatever its own size: large ones have the same chance as
//! small ones, and what is under way is never more than the limit and one request.

use crate::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What all requests have under way.
#[derive(Debug)]
pub(crate) struct Gate {
    limit: usize,
    /// What is counted and what is done to it, for messages.
    what: &'static str,
    held: AtomicUsize,
}

/// What one request has under way; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Gate>,
    amount: usize,
}

impl Gate {
    /// Nothing is under way yet. `what` follows the limit in a message.
    pub(crate) fn new(limit: usize, what: &'static str) -> Arc<Self> {
        Arc::new(Self { limit, what, held: AtomicUsize::new(0) })
    }

    /// For one request, which has nothing under way yet.
    pub(crate) fn share(self: &Arc<Self>) -> Share {
        Share { of: Arc::clone(self), amount: 0 }
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

impl Share {
    pub(crate) fn amount(&self) -> usize {
        self.amount
    }

    /// Takes so much more.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while others have too much.
    pub(crate) fn grow(&mut self, amount: usize) -> Result<(), Error> {
        let Gate { limit, what, held } = &*self.of;
        let own = self.amount;
        let grown = |held: usize| if held - own < *limit { held.checked_add(amount) } else { None };
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => {
                self.amount += amount;
                Ok(())
            }
            Err(_) => Err(Error::Overloaded(format!("{limit} {what}, which is the limit"))),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_grows_while_the_others_are_below_the_limit() {
        let gate = Gate::new(10, "apples are being eaten");
        let (mut one, mut other, mut third) = (gate.share(), gate.share(), gate.share());
        one.grow(25).unwrap();
        one.grow(5).unwrap();
        let error = other.grow(0).unwrap_err();
        assert!(
            matches!(&error, Error::Overloaded(text) if text == "10 apples are being eaten, which is the limit"),
            "{error}"
        );
        drop(one);
        other.grow(9).unwrap();
        third.grow(9).unwrap();
        assert!(gate.share().grow(1).is_err(), "two of 9 each are beyond the limit");
        other.grow(1).unwrap();
        assert!(third.grow(1).is_err(), "the other has all of it");
        assert!(other.grow(usize::MAX).is_err());
        assert_eq!((other.amount(), third.amount(), gate.held()), (10, 9, 19));
        drop((other, third));
        assert_eq!(gate.held(), 0);
    }
}
