//! Fair queue of the tokenization workers: which request's next item is worked on.
//!
//! Every request has the same right to the workers, whatever it brings. A virtual clock (weighted fair queueing) runs on with the bytes
//! that are worked on, divided by the requests that have work. An item is due when the clock would show its end if its
//! request had its share and no more, and the item that is due first is next. A short item of a new request is due at
//! once, so a small request waits for the items that run and not for those of a large one.

use std::collections::BTreeMap;

/// Bytes of an item at most that is short.
const SHORT: u64 = 64 << 10;

/// Place in the order: when an item is due, new requests first, then in the order of arrival.
type Due = (u64, bool, u64);

/// Requests with items that wait: the next item of each.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    waiting: BTreeMap<Due, Turn<T>>,
    clock: u64,
    arrivals: u64,
    /// Items that may run at once.
    workers: usize,
    running: usize,
    running_long: usize,
}

/// An item that waits or runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn<T> {
    pub(super) request: T,
    cost: u64,
    /// Time on the clock at its end.
    end: u64,
}

impl<T: Clone> FairQueue<T> {
    pub(super) fn new(workers: usize) -> Self {
        Self { waiting: BTreeMap::new(), clock: 0, arrivals: 0, workers, running: 0, running_long: 0 }
    }

    /// Adds a new request, whose first item has `cost` bytes.
    pub(super) fn push(&mut self, request: T, cost: u64) {
        let end = self.clock.saturating_add(cost.max(1));
        let due = if cost <= SHORT { self.clock } else { end };
        self.wait(due, false, Turn { request, cost, end });
    }

    fn wait(&mut self, due: u64, begun: bool, turn: Turn<T>) {
        self.arrivals += 1;
        self.waiting.insert((due, begun, self.arrivals), turn);
    }

    /// The item to run next, if one may run now. One more than `workers` runs where all others are long: it is short, and
    /// does not wait for them.
    pub(super) fn take(&mut self) -> Option<Turn<T>> {
        let only_short = self.running >= self.workers;
        if only_short && (self.running > self.workers || self.running_long < self.workers) {
            return None;
        }
        let fits = |cost: u64| !only_short || cost <= SHORT;
        let key = *self.waiting.iter().find(|(_, turn)| fits(turn.cost))?.0;
        let turn = self.waiting.remove(&key)?;
        self.running += 1;
        self.running_long += usize::from(turn.cost > SHORT);
        let requests = self.waiting.len() as u64 + 1;
        self.clock = self.clock.saturating_add(turn.cost.max(1).div_ceil(requests));
        Some(turn)
    }

    /// Adds the next item of a request whose turn has begun; it may run at the same time.
    pub(super) fn push_next(&mut self, turn: &Turn<T>, cost: u64) {
        let end = turn.end.saturating_add(cost.max(1));
        self.wait(end, true, Turn { request: turn.request.clone(), cost, end });
    }

    /// An item is done.
    pub(super) fn done(&mut self, turn: &Turn<T>) {
        self.running -= 1;
        self.running_long -= usize::from(turn.cost > SHORT);
    }
}

#[cfg(test)]
#[path = "tests/fair_queue.rs"]
mod tests;
