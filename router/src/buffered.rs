//! How many bytes of request bodies and of answers are held at once, over all requests: whatever arrives, and however
//! slowly answers are taken, memory is bounded. Bodies are refused beyond the limit; an answer, for which the work is done
//! already, is only counted.

use axum::body::{Body, Bytes, to_bytes};
use axum::response::Response;
use futures::stream;
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

    /// The same answer, whose bytes are held until the connection has written them or is closed. All of it is in memory
    /// already.
    pub(crate) async fn hold_answer(self: &Arc<Self>, answer: Response) -> Response {
        let (head, body) = answer.into_parts();
        let body = match to_bytes(body, usize::MAX).await {
            Ok(bytes) => {
                let held = self.hold();
                held.add(bytes.len());
                Body::from(Bytes::from_owner(HeldBytes { bytes, _held: held }))
            }
            Err(error) => Body::from_stream(stream::iter([Err::<Bytes, _>(error)])),
        };
        Response::from_parts(head, body)
    }
}

/// Bytes that are held as long as anybody refers to them.
struct HeldBytes {
    bytes: Bytes,
    _held: Held,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
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
                "{limit} bytes of request bodies and answers at once is the limit (--max-buffered-bytes)"
            ))),
        }
    }

    /// Holds so many more bytes, whatever others hold.
    fn add(&self, bytes: usize) {
        self.of.held.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
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

    #[tokio::test]
    async fn answers_count_until_they_are_dropped_and_are_never_refused() {
        let all = Buffered::new(10);
        let answer = all.hold_answer(Response::new(Body::from("more than ten bytes"))).await;
        assert!(all.hold().grow(1).is_err());
        let bytes = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert_eq!(bytes, "more than ten bytes");
        let part = bytes.slice(..3);
        drop(bytes);
        assert!(all.hold().grow(1).is_err(), "a part of it is still there");
        drop(part);
        all.hold().grow(10).unwrap();
    }
}
