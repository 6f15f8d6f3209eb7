//! Entries that wait for a batch. Pure: no threads, no clock of its own.

use crate::prefix_index::{Group, Nearest, NodeId, PrefixIndex, Ticket};
use crate::steps::step;
use crate::trace::Trace;
use crate::{BackendError, Output, Scheduling, Wanted};
use std::collections::BTreeMap;
use std::ops::Range;
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
    pub(crate) trace: Trace,
    pub(crate) reply: oneshot::Sender<Reply>,
}

pub(crate) type Reply = Result<Answer, BackendError>;

impl Entry {
    /// An entry that is enqueued now, and where its answer will arrive.
    pub(crate) fn new(input_ids: Vec<u32>, wanted: Wanted) -> (Self, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        (Self { input_ids, wanted, enqueued: Instant::now(), trace: Trace::default(), reply }, answer)
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
    /// Tokens that were computed for this sequence and for none before it in its batch.
    pub(crate) computed_tokens: usize,
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
    /// Pairs of a query and a key, in a layer of full attention, that compact attention did not compute; none if the pass
    /// failed.
    pub(crate) attention_work_saved: u64,
    pub(crate) planning: Duration,
    pub(crate) inference: Duration,
}

/// What a batch may hold. Whatever the limits, a batch holds one entry: what was accepted is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Rows to compute: N', or N where nothing is compacted.
    pub(crate) max_tokens: usize,
    /// N.
    pub(crate) max_ragged_tokens: usize,
    pub(crate) max_sequences: usize,
}

impl Budget {
    fn fits(&self, load: Load) -> bool {
        let Self { max_tokens, max_ragged_tokens, max_sequences } = *self;
        let within = load.tokens <= max_tokens && load.ragged_tokens <= max_ragged_tokens;
        load.sequences <= 1 || (within && load.sequences <= max_sequences)
    }
}

/// What a batch holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Load {
    tokens: usize,
    ragged_tokens: usize,
    sequences: usize,
}

impl Load {
    fn with(self, new_tokens: usize, len: usize) -> Self {
        Self {
            tokens: self.tokens + new_tokens,
            ragged_tokens: self.ragged_tokens + len,
            sequences: self.sequences + 1,
        }
    }
}

/// How the queue decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) budget: Budget,
    pub(crate) scheduling: Scheduling,
    /// A shared prefix counts once.
    pub(crate) compacts: bool,
}

/// So many entries and groups that do not fit are passed over, in the hope that a smaller one behind them does, until
/// the rest of a batch is left empty.
const MAX_PASSED_OVER: usize = 16;

/// A group of entries is not split over batches for less than this many times the tokens that it shares and that each
/// of the batches would compute.
const MIN_FILL_OF_SPLIT: usize = 16;

/// The waiting entries, and who of them goes together.
///
/// With [`Scheduling::Fifo`] entries leave in the order of their arrival; the first one that does not fit ends the
/// batch.
///
/// With [`Scheduling::Prefix`] a batch takes, as long as they fit,
///
/// 1. in the order of arrival: the oldest entry, which always leads, all that are overdue, and the others of the request
///    that leads, unless others are older;
/// 2. the entry that shares most with what is already chosen, again and again: first those that add no token, then
///    those with the longest prefix in common, the oldest among equals. But entries that share a prefix among
///    themselves which the batch does not have yet wait for a batch that can take all of them, unless no batch can or
///    the prefix is short beside the room that they would fill: each batch must compute the prefix again.
///
/// An entry is *overdue* when first in, first out would have taken it into an earlier batch. To know that, the queue
/// follows what first in, first out would take: with each batch it goes on where it was, over the entries that still
/// wait, until the next one would not fit. All that is overdue when a batch begins was passed in one such step, so it
/// fits a batch together, and since it is taken first, it is taken whole. Hence: batch for batch, **an entry waits at
/// most one batch longer than first in, first out would let it wait**, whoever else arrives.
#[derive(Debug)]
pub(crate) struct Queue {
    policy: Policy,
    waiting: BTreeMap<Ticket, Waiting>,
    index: PrefixIndex,
    next_ticket: Ticket,
    /// Of all waiting entries.
    tokens: usize,
    /// Of the batch that forms.
    load: Load,
    leading_request: Ticket,
    fifo: FifoCursor,
}

#[derive(Debug)]
struct Waiting {
    entry: Entry,
    node: NodeId,
    /// The ticket of its request's first entry.
    request: Ticket,
}

/// What first in, first out would do.
#[derive(Debug, Default)]
struct FifoCursor {
    /// It would have taken all before this into the batch that forms, or earlier.
    next: Ticket,
    /// It would have taken all before this into earlier batches.
    overdue: Ticket,
    /// What it would have taken into the batch that forms.
    load: Load,
    /// The mark of that in the index.
    mark: u64,
}

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            waiting: BTreeMap::new(),
            index: PrefixIndex::default(),
            next_ticket: 0,
            tokens: 0,
            load: Load::default(),
            leading_request: Ticket::MAX,
            fifo: FifoCursor { mark: 1, ..FifoCursor::default() },
        }
    }

    /// Adds the entries of one request and returns their tickets.
    pub(crate) fn push(&mut self, entries: impl IntoIterator<Item = Entry>) -> Range<Ticket> {
        let request = self.next_ticket;
        for entry in entries {
            let node = self.index.insert(self.next_ticket, &entry.input_ids);
            self.tokens += entry.input_ids.len();
            self.waiting.insert(self.next_ticket, Waiting { entry, node, request });
            self.next_ticket += 1;
        }
        request..self.next_ticket
    }

    /// Entries that wait, the cancelled ones included until they are met or withdrawn.
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

    /// Removes the entries that begin a batch, or join the one that forms. Cancelled entries are dropped.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        self.advance_fifo();
        let mut taken = Vec::new();
        let mut passed_over = Vec::new();
        let mut groups = Vec::new();
        while let Some(Nearest { ticket, group }) = self.choose(&passed_over) {
            step();
            let Waiting { entry, node, .. } = &self.waiting[&ticket];
            let (node, len) = (*node, entry.input_ids.len());
            let load = self.load.with(self.new_tokens(node, len), len);
            let split = group.filter(|group| self.is_better_whole(group));
            if entry.is_cancelled() {
                self.remove(ticket);
            } else if split.is_none() && self.policy.budget.fits(load) {
                taken.extend(self.join(ticket, load));
            } else if !self.may_pass_over(passed_over.len() + groups.len()) {
                break;
            } else if let Some(group) = split {
                self.index.hide_group(group);
                groups.push(group);
            } else {
                self.index.hide(ticket, node);
                passed_over.push(ticket);
            }
        }
        groups.into_iter().for_each(|group| self.index.show_group(group));
        for ticket in passed_over {
            self.index.show(ticket, self.waiting[&ticket].node);
        }
        taken
    }

    /// The batch that formed has left, or is lost; the next [`take`](Self::take) begins another.
    pub(crate) fn close_batch(&mut self) {
        self.index.uncover();
        self.load = Load::default();
        let FifoCursor { next, mark, .. } = self.fifo;
        self.fifo = FifoCursor { next, overdue: next, load: Load::default(), mark: mark + 1 };
    }

    /// Drops the entries with these tickets that still wait.
    pub(crate) fn withdraw(&mut self, tickets: Range<Ticket>) {
        while let Some((&ticket, _)) = self.waiting.range(tickets.clone()).next() {
            self.remove(ticket);
        }
    }

    /// The next entry to join if it fits; the one place that decides who goes together.
    fn choose(&self, passed_over: &[Ticket]) -> Option<Nearest> {
        let (&oldest, waiting) =
            self.waiting.iter().inspect(|_| step()).find(|(ticket, _)| !passed_over.contains(ticket))?;
        let in_order = self.policy.scheduling == Scheduling::Fifo
            || self.load.sequences == 0
            || oldest < self.fifo.overdue
            || waiting.request == self.leading_request;
        if in_order { Some(Nearest { ticket: oldest, group: None }) } else { self.index.nearest() }
    }

    /// Whether a group had better wait for a batch that has room for all of it.
    fn is_better_whole(&self, group: &Group) -> bool {
        let Budget { max_tokens, max_ragged_tokens, max_sequences } = self.policy.budget;
        let room = max_tokens.saturating_sub(self.load.tokens);
        let fits_a_batch = group.depth + group.tokens <= max_tokens
            && group.ragged_tokens <= max_ragged_tokens
            && group.entries <= max_sequences;
        group.tokens > room && fits_a_batch && group.head * MIN_FILL_OF_SPLIT > room
    }

    fn may_pass_over(&self, passed_over: usize) -> bool {
        self.policy.scheduling == Scheduling::Prefix
            && self.load.sequences < self.policy.budget.max_sequences
            && passed_over < MAX_PASSED_OVER
    }

    fn new_tokens(&self, node: NodeId, len: usize) -> usize {
        if self.policy.compacts { self.index.new_tokens(node) } else { len }
    }

    fn join(&mut self, ticket: Ticket, load: Load) -> Option<Entry> {
        let Waiting { node, request, .. } = self.waiting[&ticket];
        if self.load.sequences == 0 {
            self.leading_request = request;
        }
        self.load = load;
        self.index.cover(node);
        self.remove(ticket)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Entry> {
        let Waiting { entry, node, .. } = self.waiting.remove(&ticket)?;
        self.index.remove(ticket, node);
        self.tokens -= entry.input_ids.len();
        Some(entry)
    }

    fn advance_fifo(&mut self) {
        if self.policy.scheduling == Scheduling::Fifo {
            return;
        }
        let Self { policy, waiting, index, fifo, .. } = self;
        for (&ticket, Waiting { entry, node, .. }) in waiting.range(fifo.next..) {
            step();
            if !entry.is_cancelled() {
                let len = entry.input_ids.len();
                let new_tokens = if policy.compacts { index.unmarked_tokens(*node, fifo.mark) } else { len };
                let load = fifo.load.with(new_tokens, len);
                if !policy.budget.fits(load) {
                    return;
                }
                index.mark(*node, fifo.mark);
                fifo.load = load;
            }
            fifo.next = ticket + 1;
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "queue_work_tests.rs"]
mod work_tests;
