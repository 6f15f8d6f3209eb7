//! How much may wait for a batch, so that the queue's memory is bounded whatever arrives.
//!
//! A request enters while the queue holds less than its limits, whatever the request's own size: a large one has the
//! same chance as small ones, and what waits is never more than the limit and the part that came last. A request that
//! is done in parts has been accepted with its first; the others wait for room, and nobody new enters before them.

use crate::Error;
use crate::queue::Queue;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, futures::Notified};

/// Nothing new enters while the queue holds this much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    pub(crate) tokens: usize,
    pub(crate) inputs: usize,
}

impl QueueLimits {
    /// # Errors
    /// [`Error::Overloaded`] says which limit is met.
    pub(crate) fn check(self, queue: &Queue) -> Result<(), Error> {
        let full = |limit, what, flag| {
            Err(Error::Overloaded(format!("{limit} {what} or more wait already, which is the limit ({flag})")))
        };
        if queue.tokens() >= self.tokens {
            return full(self.tokens, "tokens", "--max-queued-tokens");
        }
        if queue.len() >= self.inputs {
            return full(self.inputs, "inputs", "--max-queued-inputs");
        }
        Ok(())
    }
}

/// Where later parts of accepted requests wait until the queue has room.
#[derive(Debug, Default)]
pub(crate) struct WaitingRoom {
    room: Notify,
    parts: AtomicUsize,
}

/// A part that waits. Dropped, it waits no more.
#[derive(Debug)]
pub(crate) struct WaitingPart<'a>(&'a WaitingRoom);

impl WaitingRoom {
    pub(crate) fn enter(&self) -> WaitingPart<'_> {
        self.parts.fetch_add(1, Ordering::SeqCst);
        WaitingPart(self)
    }

    /// # Errors
    /// [`Error::Overloaded`] while a part waits.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.parts.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(Error::Overloaded(
                "the rest of accepted requests waits for room in the queue (--max-queued-tokens, --max-queued-inputs)"
                    .to_owned(),
            )),
        }
    }

    /// Something has left the queue.
    pub(crate) fn wake(&self) {
        self.room.notify_waiters();
    }
}

impl<'a> WaitingPart<'a> {
    /// Ends when something leaves the queue after this was called, awaited or not.
    pub(crate) fn room(&self) -> Notified<'a> {
        self.0.room.notified()
    }
}

impl Drop for WaitingPart<'_> {
    fn drop(&mut self) {
        self.0.parts.fetch_sub(1, Ordering::SeqCst);
    }
}
