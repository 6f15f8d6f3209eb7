//! Entries that wait for a batch. Pure: no threads, no clock of its own.

use crate::{BackendError, Output, Wanted};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// One sequence on its way to the backend.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Not empty, every id below the vocabulary's size, no longer than a batch.
    pub(crate) input_ids: Vec<u32>,
    pub(crate) wanted: Wanted,
    pub(crate) enqueued: Instant,
    pub(crate) reply: oneshot::Sender<Reply>,
}

pub(crate) type Reply = Result<Answer, BackendError>;

impl Entry {
    /// An entry that is enqueued now, and where its answer will arrive.
    pub(crate) fn new(input_ids: Vec<u32>, wanted: Wanted) -> (Self, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        (Self { input_ids, wanted, enqueued: Instant::now(), reply }, answer)
    }

    /// Nobody waits for the answer any more.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.reply.is_closed()
    }

    pub(crate) fn answer(self, reply: Reply) {
        // The client may leave at any moment; then there is nobody to tell.
        drop(self.reply.send(reply));
    }
}

/// What came of an entry.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) output: Output,
    /// From arrival until the backend took the batch, less planning.
    pub(crate) queue: Duration,
    pub(crate) batch: Arc<BatchReport>,
}

/// What a batch cost; shared by its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchReport {
    /// Tells the batches of one request apart.
    pub(crate) id: u64,
    /// N.
    pub(crate) total_tokens: usize,
    /// N', or N when the batch was not compacted.
    pub(crate) unique_tokens: usize,
    pub(crate) planning: Duration,
    pub(crate) inference: Duration,
}

/// What a batch may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) max_tokens: usize,
    pub(crate) max_sequences: usize,
}

impl Budget {
    /// What is left of it beside `sequences` sequences of `tokens` tokens in total.
    pub(crate) fn room(self, tokens: usize, sequences: usize) -> Room {
        Room {
            tokens: self.max_tokens.saturating_sub(tokens),
            sequences: self.max_sequences.saturating_sub(sequences),
            empty: sequences == 0,
        }
    }
}

/// What a forming batch can still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    tokens: usize,
    sequences: usize,
    empty: bool,
}

impl Room {
    /// The first entry of a batch always fits: whatever was accepted is computed.
    fn fits(&self, tokens: usize) -> bool {
        self.empty || (self.sequences > 0 && tokens <= self.tokens)
    }

    fn fill(&mut self, tokens: usize) {
        self.tokens = self.tokens.saturating_sub(tokens);
        self.sequences = self.sequences.saturating_sub(1);
        self.empty = false;
    }
}

/// First in, first out, within the room of a batch.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: VecDeque<Entry>,
    tokens: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, entry: Entry) {
        self.tokens += entry.input_ids.len();
        self.waiting.push_back(entry);
    }

    /// Entries that wait, the cancelled ones included until they are met or swept.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Tokens of all waiting entries.
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Removes the entries that join a batch with this much room. Cancelled entries are dropped.
    pub(crate) fn take(&mut self, mut room: Room) -> Vec<Entry> {
        let mut taken = Vec::new();
        while let Some(entry) = self.choose(&room) {
            room.fill(entry.input_ids.len());
            taken.push(entry);
        }
        taken
    }

    /// The next entry to join; the one place that decides who goes together. The oldest always leads, so
    /// nobody starves, and nobody overtakes it: what does not fit waits for the next batch.
    fn choose(&mut self, room: &Room) -> Option<Entry> {
        while self.waiting.front()?.is_cancelled() {
            self.pop();
        }
        if room.fits(self.waiting.front()?.input_ids.len()) { self.pop() } else { None }
    }

    fn pop(&mut self) -> Option<Entry> {
        let entry = self.waiting.pop_front()?;
        self.tokens -= entry.input_ids.len();
        Some(entry)
    }

    /// Drops every cancelled entry, wherever it stands.
    pub(crate) fn sweep(&mut self) {
        self.waiting.retain(|entry| !entry.is_cancelled());
        self.tokens = self.waiting.iter().map(|entry| entry.input_ids.len()).sum();
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
