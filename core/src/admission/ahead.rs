//! Tokens that a request encodes ahead of the queue, where the queue's limits do not count them yet.
//!
//! Their number is limited to one chunk, and their bytes count in the request's share before they are made: first the maximum
//! that its texts may have, afterwards the actual number.

use super::chunk::chunk_limits;
use super::queue_quota::QueueLimits;
use super::quota::Share;
use crate::error::Error;
use std::sync::Arc;

/// Bytes of an encoded token: its id and its type.
const TOKEN_BYTES: usize = 8;

/// Divisor of a chunk's tokens: with less room than this fraction, another round of encoding is not worth it.
const LEAST_ROOM: usize = 4;

/// Encoded tokens of one request that are not in the queue.
#[derive(Debug)]
pub(crate) struct Ahead {
    share: Arc<Share>,
    /// Maximum tokens at once; the last input may exceed it.
    limit: usize,
    /// Bytes in the share.
    held: usize,
}

impl Ahead {
    /// Reserves room for the tokens of a request that may have `most` of them.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while the other requests hold the share's limit.
    pub(crate) fn admit(share: Arc<Share>, queue: QueueLimits, most: usize) -> Result<Self, Error> {
        let [limit, _] = chunk_limits(queue);
        let held = most.min(limit).saturating_mul(TOKEN_BYTES);
        share.grow(held)?;
        Ok(Self { share, limit, held })
    }

    /// Number of inputs to encode next, which may have `most` tokens each, while `encoded` tokens wait to be submitted: at least
    /// one if none wait, none once a chunk is almost full.
    pub(crate) fn next_inputs(&self, encoded: usize, most: impl IntoIterator<Item = usize>) -> usize {
        let room = self.limit.saturating_sub(encoded);
        if encoded > 0 && room <= self.limit / LEAST_ROOM {
            return 0;
        }
        let mut tokens = 0usize;
        let fits = |most: &usize| {
            tokens = tokens.saturating_add(*most);
            tokens <= room
        };
        most.into_iter().take_while(fits).count().max(usize::from(encoded == 0))
    }

    /// Counts tokens that exceed the expected number.
    pub(crate) fn count(&mut self, encoded: usize) {
        let bytes = encoded.saturating_mul(TOKEN_BYTES);
        if let Some(more) = bytes.checked_sub(self.held) {
            self.share.force(more);
            self.held = bytes;
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.share.shrink_to(self.share.held().saturating_sub(self.held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::quota::Quota;
    use crate::error::Resource;

    const QUEUE: QueueLimits = QueueLimits { tokens: 400, inputs: 10 };

    #[test]
    fn a_request_encodes_a_chunk_ahead_at_most() {
        let share = Arc::new(Quota::new(10_000, Resource::BufferedBytes).share());
        let ahead = Ahead::admit(Arc::clone(&share), QUEUE, 1_000_000).unwrap();
        assert_eq!(share.held(), 100 * TOKEN_BYTES);
        assert_eq!(ahead.next_inputs(0, [40, 40, 40, 40]), 2);
        assert_eq!(ahead.next_inputs(20, [40, 40, 40, 40]), 2);
        assert_eq!(ahead.next_inputs(20, [90]), 0, "it waits for the next chunk");
        assert_eq!(ahead.next_inputs(75, [1]), 0, "as good as full");
        assert_eq!(ahead.next_inputs(0, [500, 1]), 1, "an input of any size");
        drop(ahead);
        assert_eq!(share.held(), 0);
    }

    #[test]
    fn tokens_count_in_the_share_before_and_after_they_are_made() {
        let quota = Quota::new(100 * TOKEN_BYTES, Resource::BufferedBytes);
        let share = Arc::new(quota.share());
        share.grow(1).unwrap();
        let mut ahead = Ahead::admit(Arc::clone(&share), QUEUE, 50).unwrap();
        assert_eq!(share.held(), 1 + 50 * TOKEN_BYTES);
        ahead.count(20);
        assert_eq!(share.held(), 1 + 50 * TOKEN_BYTES);
        ahead.count(150);
        assert_eq!(share.held(), 1 + 150 * TOKEN_BYTES);
        let other = Arc::new(quota.share());
        let error = Ahead::admit(Arc::clone(&other), QUEUE, 1).unwrap_err();
        assert!(matches!(error, Error::Overloaded { resource: Resource::BufferedBytes, .. }), "{error}");
        drop(ahead);
        assert_eq!((share.held(), quota.held()), (1, 1));
        drop(Ahead::admit(other, QUEUE, 1).unwrap());
    }
}
