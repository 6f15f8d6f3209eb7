//! Fair queue of the tokenization workers: order of the accounts' items.
//!
//! Accounts share the workers equally, regardless of their number of requests: the account with the least virtual time is
//! next (start-time fair queueing), with the request whose turn it is ([`RequestTurns`]). The virtual time of an account
//! counts the bytes encoded for it. After a pause it starts at the system's virtual time and goes before accounts at the
//! same time, so a short item of an account with little work waits only for the running items.

use super::request_turns::{RequestTurns, Turn};
use crate::flow::Account;
use std::collections::{BTreeSet, HashMap};

/// Maximum bytes of long items that are encoded at once, except that one item may have any size: encoding takes some hundred
/// bytes of memory per byte.
const MAX_AT_WORK: u64 = 4 << 20;

/// Maximum lead of an account in virtual time for its short items to run ahead of its turn, while the account whose
/// turn it is has a long item that cannot run: twice the bytes encoded at once, so that queries wait only if their
/// account takes more than its share.
const MAX_AHEAD: u64 = 2 * MAX_AT_WORK;

/// Place of an account in the order: its virtual time, false first for accounts after a pause, then the order of arrival.
type Place = (u64, bool, u64, Account);

/// Accounts with items that wait.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    accounts: HashMap<Account, Line<T>>,
    /// Accounts with items that wait.
    order: BTreeSet<Place>,
    /// Accounts without waiting items whose virtual time is ahead of the system's.
    ahead: BTreeSet<(u64, Account)>,
    /// System virtual time: the virtual time of the account whose turn it is.
    clock: u64,
    arrivals: u64,
    /// Number of items that may run at once.
    workers: usize,
    running: usize,
    running_long: usize,
    /// Bytes of the running long items.
    long_bytes: u64,
}

/// Items of one account.
#[derive(Debug)]
struct Line<T> {
    requests: RequestTurns<T>,
    /// Virtual time of the account, in bytes. A pause advances it to the system's.
    served: u64,
    /// Place in the order while items wait.
    place: Option<Place>,
    running: usize,
}

impl<T: Clone> FairQueue<T> {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            accounts: HashMap::new(),
            order: BTreeSet::new(),
            ahead: BTreeSet::new(),
            clock: 0,
            arrivals: 0,
            workers,
            running: 0,
            running_long: 0,
            long_bytes: 0,
        }
    }

    /// Adds a new request of an account, whose first item has `cost` bytes.
    pub(super) fn push(&mut self, account: Account, request: T, cost: u64) {
        self.line(account, false).requests.push(account, request, cost);
    }

    /// Adds the next item of a request whose current item is still running; both may run at the same time.
    pub(super) fn push_next(&mut self, turn: &Turn<T>, cost: u64) {
        self.line(turn.account, true).requests.push_next(turn, cost);
    }

    /// The items of an account, which has a place in the order from now on.
    fn line(&mut self, account: Account, begun: bool) -> &mut Line<T> {
        let Self { accounts, order, ahead, clock, arrivals, .. } = self;
        let line = accounts.entry(account).or_insert_with(|| Line {
            requests: RequestTurns::new(),
            served: *clock,
            place: None,
            running: 0,
        });
        if line.place.is_none() {
            ahead.remove(&(line.served, account));
            line.served = line.served.max(*clock);
            *arrivals += 1;
            let place = (line.served, begun, *arrivals, account);
            order.insert(place);
            line.place = Some(place);
        }
        line
    }

    /// The item to run next, if one may run now. If all running items are long, a short one may run in addition to `workers`,
    /// so that it does not wait for them.
    pub(super) fn take(&mut self) -> Option<Turn<T>> {
        let all_run = self.running >= self.workers;
        if all_run && (self.running > self.workers || self.running_long < self.workers) {
            return None;
        }
        let &(least, .., first) = self.order.first()?;
        let only_short = all_run || !self.fits(self.accounts.get(&first)?.requests.first()?);
        let in_reach = self.order.iter().take_while(|(served, ..)| *served <= least.saturating_add(MAX_AHEAD));
        let accounts = &mut self.accounts;
        let (turn, place) = in_reach
            .take(if only_short { usize::MAX } else { 1 })
            .find_map(|place| Some((accounts.get_mut(&place.3)?.requests.take(only_short)?, *place)))?;
        self.clock = self.clock.max(least);
        self.order.remove(&place);
        self.running += 1;
        if !turn.is_short() {
            self.running_long += 1;
            self.long_bytes = self.long_bytes.saturating_add(turn.cost);
        }
        let line = self.accounts.get_mut(&turn.account)?;
        line.running += 1;
        line.served = line.served.saturating_add(turn.cost.max(1));
        line.place = None;
        if line.requests.is_empty() {
            self.ahead.insert((line.served, turn.account));
        } else {
            self.line(turn.account, true);
        }
        Some(turn)
    }

    /// True if the item may run in addition to the running ones.
    fn fits(&self, turn: &Turn<T>) -> bool {
        turn.is_short() || self.long_bytes == 0 || self.long_bytes.saturating_add(turn.cost) <= MAX_AT_WORK
    }

    /// Removes a finished item.
    pub(super) fn done(&mut self, turn: &Turn<T>) {
        self.running -= 1;
        if !turn.is_short() {
            self.running_long -= 1;
            self.long_bytes = self.long_bytes.saturating_sub(turn.cost);
        }
        if let Some(line) = self.accounts.get_mut(&turn.account) {
            line.running -= 1;
        }
        self.forget();
    }

    /// Forgets accounts without work whose virtual time is not ahead of the system's.
    fn forget(&mut self) {
        let Self { accounts, ahead, clock, running, order, .. } = self;
        let until = if *running == 0 && order.is_empty() { u64::MAX } else { *clock };
        let at_work = |account| accounts.get(account).is_some_and(|line: &Line<T>| line.running > 0);
        let over = ahead.range(..=(until, Account(u32::MAX))).filter(|(_, account)| !at_work(account));
        for place in over.copied().collect::<Vec<_>>() {
            ahead.remove(&place);
            accounts.remove(&place.1);
        }
    }
}

#[cfg(test)]
#[path = "tests/fair_queue.rs"]
mod tests;
