//! Queue of the entries that wait for a batch. Pure: no threads, no clock of its own.

use super::budget::{Budget, Load, Policy};
use super::entry::{Entry, Ticket};
use super::fairness::FifoCursor;
use super::prefix_index::{Group, Nearest, PrefixIndex};
use super::prefix_tree::NodeId;
use super::work_counter::count_work;
use crate::{Folding, Scheduling};
use std::collections::BTreeMap;
use std::ops::Range;

/// Entries and groups that do not fit and are passed over, in the hope that a smaller one behind them does, before the
/// rest of a batch is left empty.
const MAX_PASSED_OVER: usize = 16;

/// Least ratio of the room that a split group would fill to the prefix that it shares: each of its batches computes the
/// prefix again.
const MIN_FILL_OF_SPLIT: usize = 16;

/// The waiting entries and their order.
///
/// With [`Scheduling::Fifo`] entries leave in the order of their arrival; the first one that does not fit ends the
/// batch.
///
/// With [`Scheduling::Prefix`] a batch takes, as long as they fit,
///
/// 1. in the order of arrival: the oldest entry, which always leads, all that are overdue, and the others of the request
///    that leads, unless others are older;
/// 2. the entry that shares most with the chosen ones, again and again: first those that add no token, then those with
///    the longest prefix in common, the oldest among equals. But entries that share a prefix which the batch does not
///    have yet wait for a batch that can take all of them, unless no batch can or the prefix is short beside the room
///    that they would fill: each batch must compute the prefix again.
///
/// An entry is *overdue* when first in, first out would have taken it into an earlier batch ([`FifoCursor`] simulates
/// that). All that is overdue when a batch begins fits a batch together, and since it is taken first, it is taken whole.
/// Hence: batch for batch, **an entry waits at most one batch longer than under first in, first out**, whatever else
/// arrives.
#[derive(Debug)]
pub(crate) struct Queue {
    policy: Policy,
    waiting: BTreeMap<Ticket, Waiting>,
    index: PrefixIndex,
    next_ticket: Ticket,
    /// Tokens of all waiting entries.
    tokens: usize,
    /// Contents of the batch that forms.
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

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            waiting: BTreeMap::new(),
            index: PrefixIndex::new(policy.folding.unwrap_or(Folding::Prefix)),
            next_ticket: 0,
            tokens: 0,
            load: Load::default(),
            leading_request: Ticket::MAX,
            fifo: FifoCursor::default(),
        }
    }

    /// Adds the entries of one request and returns their tickets.
    pub(crate) fn push(&mut self, entries: impl IntoIterator<Item = Entry>) -> Range<Ticket> {
        let request = self.next_ticket;
        for entry in entries {
            let node = self.index.insert(self.next_ticket, &entry.tokens, entry.wanted);
            self.tokens += entry.tokens.len();
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
        if self.policy.scheduling == Scheduling::Prefix {
            let waiting = self.waiting.range(self.fifo.next()..);
            let waiting = waiting.map(|(&ticket, Waiting { entry, node, .. })| (ticket, entry, *node));
            self.fifo.advance(waiting, &mut self.index, &self.policy);
        }
        let mut taken = Vec::new();
        let mut passed_over = Vec::new();
        let mut groups = Vec::new();
        while let Some(Nearest { ticket, group }) = self.choose(&passed_over) {
            count_work();
            let Waiting { entry, node, .. } = &self.waiting[&ticket];
            let (node, len) = (*node, entry.tokens.len());
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
        self.fifo.close_batch();
    }

    /// Drops the entries with these tickets that still wait.
    pub(crate) fn withdraw(&mut self, tickets: Range<Ticket>) {
        while let Some((&ticket, _)) = self.waiting.range(tickets.clone()).next() {
            self.remove(ticket);
        }
    }

    /// The next entry to join if it fits: the one place that decides which entries go together.
    fn choose(&self, passed_over: &[Ticket]) -> Option<Nearest> {
        let (&oldest, waiting) =
            self.waiting.iter().inspect(|_| count_work()).find(|(ticket, _)| !passed_over.contains(ticket))?;
        let in_order = self.policy.scheduling == Scheduling::Fifo
            || self.load.sequences == 0
            || self.fifo.is_overdue(oldest)
            || waiting.request == self.leading_request;
        if in_order { Some(Nearest { ticket: oldest, group: None }) } else { self.index.nearest() }
    }

    /// True for a group that had better wait for a batch with room for all of it.
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
        if self.policy.folding.is_some() { self.index.new_tokens(node) } else { len }
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
        self.tokens -= entry.tokens.len();
        Some(entry)
    }
}

#[cfg(test)]
#[path = "tests/queue.rs"]
mod tests;
#[cfg(test)]
#[path = "tests/queue_work.rs"]
mod work_tests;
