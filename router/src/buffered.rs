//! How many bytes of request bodies are held at once, over all requests: whatever arrives, memory is bounded.

use prefold_core::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of all requests.
#[derive(Debug)]
pub(crate) struct Buffered {
    limit: usize,
    held: AtomicUsize,
}

/// The bytes of one request; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    of: Arc<Buffered>,
    bytes: AtomicUsize,
}

impl Buffered {
    /// None are held yet.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: AtomicUsize::new(0) })
    }

    /// For one request.
    pub(crate) fn hold(self: &Arc<Self>) -> Held {
        Held { of: Arc::clone(self), bytes: AtomicUsize::new(0) }
    }
}

impl Held {
    /// Holds so many more bytes.
    ///
    /// # Errors
    /// [`Error::Overloaded`]: others hold too many.
    pub(crate) fn grow(&self, bytes: usize) -> Result<(), Error> {
        let Buffered { limit, held } = &*self.of;
        let grown = |held: usize| held.checked_add(bytes).filter(|sum| sum <= limit);
        match held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown) {
            Ok(_) => {
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(_) => Err(Error::Overloaded(format!(
                "{limit} bytes of request bodies at once is the limit (--max-buffered-bytes)"
            ))),
        }
    }

    /// Gives all back.
    pub(crate) fn release(&self) {
        self.of.held.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_bounded_and_comes_back() {
        let all = Buffered::new(10);
        let (one, other) = (all.hold(), all.hold());
        one.grow(6).unwrap();
        let error = other.grow(5).unwrap_err();
        assert!(matches!(&error, Error::Overloaded(text) if text.contains("10 bytes")), "{error}");
        other.grow(4).unwrap();
        assert!(one.grow(1).is_err() && other.grow(usize::MAX).is_err());
        drop(one);
        other.grow(6).unwrap();
        other.release();
        assert_eq!(all.held.load(Ordering::Relaxed), 0);
        drop(other);
        assert_eq!(all.held.load(Ordering::Relaxed), 0);
    }
}
