//! Entries of the queue and their answers.

use crate::error::BackendError;
use crate::outputs::{Output, Outputs};
use crate::plan::tokens::Tokens;
use crate::trace::Trace;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Number of an entry in the order of arrival.
pub(crate) type Ticket = u64;

/// One sequence on its way to the backend.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Assigned by the queue.
    pub(crate) ticket: Ticket,
    /// Not empty, every id below the vocabulary's size, no longer than a batch.
    pub(crate) tokens: Tokens,
    pub(crate) wanted: Outputs,
    pub(crate) enqueued: Instant,
    pub(crate) trace: Trace,
    pub(crate) reply: oneshot::Sender<Reply>,
}

pub(crate) type Reply = Result<Answer, BackendError>;

impl Entry {
    /// An entry that is enqueued now, and the receiver of its answer.
    pub(crate) fn new(tokens: impl Into<Tokens>, wanted: Outputs, trace: Trace) -> (Self, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        (Self { ticket: 0, tokens: tokens.into(), wanted, enqueued: Instant::now(), trace, reply }, answer)
    }

    /// The client has left.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }

    pub(crate) fn answer(self, reply: Reply) {
        // The client may disconnect at any moment; then nothing receives the reply.
        drop(self.reply.send(reply));
    }
}

/// Result of an entry.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Output,
    /// Time from arrival until the backend took the batch, without planning.
    pub(crate) queue: Duration,
    /// Time at which the backend took the batch.
    pub(crate) taken: Instant,
    pub(crate) batch: Arc<BatchReport>,
}

/// Cost of a batch, shared by its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchReport {
    /// Number of the batch, for logs.
    pub(crate) id: u64,
    /// N.
    pub(crate) total_tokens: usize,
    /// N', or N when the batch was not compacted.
    pub(crate) unique_tokens: usize,
    /// Query-key pairs in a layer of full attention that compact attention skipped; 0 if the pass failed.
    pub(crate) attention_work_saved: u64,
    pub(crate) planning: Duration,
    pub(crate) inference: Duration,
}
