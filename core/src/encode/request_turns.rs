//! Turns of one account's requests at the tokenization workers.
//!
//! Requests share their account's time equally, regardless of their size (weighted fair queueing). The account's virtual time
//! advances by the bytes encoded, divided by the number of requests with work. An item is due at the virtual time at which an
//! equal share would finish it, and the item that is due first is next. A short item of a new request is due at once, so a
//! small request waits only for running items and not for the waiting items of a large one.

use crate::flow::Account;
use std::collections::BTreeMap;

/// Maximum bytes of a short item.
pub(super) const SHORT: u64 = 64 << 10;

/// Place in the order: due virtual time, new requests first, then the order of arrival.
type Due = (u64, bool, u64);

/// Requests of an account with items that wait: the next item of each.
#[derive(Debug)]
pub(super) struct RequestTurns<T> {
    waiting: BTreeMap<Due, Turn<T>>,
    clock: u64,
    arrivals: u64,
}

/// An item that waits or runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Turn<T> {
    pub(super) request: T,
    pub(super) account: Account,
    pub(super) cost: u64,
    /// Virtual time of the account at which an equal share would finish it.
    end: u64,
}

impl<T> Turn<T> {
    /// The same for another item.
    #[cfg(test)]
    pub(super) fn with_request(&self, request: T) -> Self {
        Self { request, ..*self }
    }

    pub(super) fn is_short(&self) -> bool {
        self.cost <= SHORT
    }
}

impl<T: Clone> RequestTurns<T> {
    pub(super) fn new() -> Self {
        Self { waiting: BTreeMap::new(), clock: 0, arrivals: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a new request, whose first item has `cost` bytes.
    pub(super) fn push(&mut self, account: Account, request: T, cost: u64) {
        let end = self.clock.saturating_add(cost.max(1));
        let due = if cost <= SHORT { self.clock } else { end };
        self.wait(due, false, Turn { request, account, cost, end });
    }

    /// Adds the next item of a request that has begun.
    pub(super) fn push_next(&mut self, turn: &Turn<T>, cost: u64) {
        let end = turn.end.saturating_add(cost.max(1));
        self.wait(end, true, Turn { request: turn.request.clone(), account: turn.account, cost, end });
    }

    fn wait(&mut self, due: u64, begun: bool, turn: Turn<T>) {
        self.arrivals += 1;
        self.waiting.insert((due, begun, self.arrivals), turn);
    }

    /// The next item.
    pub(super) fn first(&self) -> Option<&Turn<T>> {
        self.waiting.first_key_value().map(|(_, turn)| turn)
    }

    /// Takes the next item, or the next short one.
    pub(super) fn take(&mut self, only_short: bool) -> Option<Turn<T>> {
        let key = *self.waiting.iter().find(|(_, turn)| !only_short || turn.is_short())?.0;
        let turn = self.waiting.remove(&key)?;
        let requests = self.waiting.len() as u64 + 1;
        self.clock = self.clock.saturating_add(turn.cost.max(1).div_ceil(requests));
        Some(turn)
    }
}
