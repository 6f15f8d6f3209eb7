//! Fair order of the waiting entries: between accounts, and between the jobs of one.
//!
//! *Accounts* take turns: next is the one that has received the fewest tokens. One that comes back from a pause starts
//! level with the others and gets nothing for the time that it was away.
//!
//! The *jobs* of an account (requests, or chunks of large ones) go in the order in which they would end if all were
//! computed at once in equal shares ([`FairClock`]). One after another they all end no later than that, the small ones
//! much sooner, and the entries of a request stay together, which shares their prefixes. Small jobs that arrive at about
//! the same time have the same rank, a *class*: among them the queue is free to choose.

use super::entry::Ticket;
use super::fair_clock::{FairClock, VirtualTime};
use super::work_counter::count_work;
use crate::{Account, Flow};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Order of a job in its account: the end that it is due by.
pub(crate) type Rank = VirtualTime;

/// Place of an entry in the order of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) rank: Rank,
    pub(crate) ticket: Ticket,
}

/// The fair order, and what all have received.
#[derive(Debug)]
pub(crate) struct FairShares {
    /// Tokens of a job below which its size makes no difference. Jobs of half of this at most have the same rank if they
    /// arrive while each job gets less than that half.
    quantum: usize,
    accounts: HashMap<Account, AccountShares>,
    /// The accounts with waiting entries, by the tokens that they have received.
    turns: BTreeSet<(u64, Account)>,
    jobs: HashMap<Ticket, Job>,
    /// Fewest tokens that a waiting account had received when a batch left: where one starts that comes back.
    level: u64,
}

#[derive(Debug, Default)]
struct AccountShares {
    /// Tokens, those of the forming batch included.
    received: u64,
    in_batch: u64,
    clock: FairClock,
    /// Waiting entries by rank.
    classes: BTreeMap<Rank, BTreeSet<Ticket>>,
}

/// Entries that arrived together: a request, or a chunk of a large one.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) flow: Flow,
    pub(crate) rank: Rank,
    start: VirtualTime,
    end: VirtualTime,
    /// Entries that wait or are in the forming batch.
    entries: usize,
    /// Tokens computed for it.
    received: usize,
}

/// Waiting entries whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class<'a> {
    pub(crate) account: Account,
    pub(crate) rank: Rank,
    /// Not empty.
    pub(crate) entries: &'a BTreeSet<Ticket>,
}

/// An entry in the forming batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat {
    pub(crate) ticket: Ticket,
    /// Its job, by the ticket of the first entry.
    pub(crate) job: Ticket,
    /// Job whose size the tokens are counted in.
    pub(crate) payer: Ticket,
    /// Tokens that it added to the batch.
    pub(crate) tokens: usize,
}

impl FairShares {
    pub(crate) fn new(quantum: usize) -> Self {
        let (accounts, turns, jobs) = (HashMap::new(), BTreeSet::new(), HashMap::new());
        Self { quantum: quantum.max(2), accounts, turns, jobs, level: 0 }
    }

    /// A job of `entries` entries, `tokens` in all, known by the ticket of the first. One that `follows` another of the
    /// same request starts where that one ends.
    pub(crate) fn begin(&mut self, job: Ticket, flow: Flow, follows: Option<Ticket>, [entries, tokens]: [usize; 2]) {
        let before = follows.and_then(|job| self.jobs.get(&job)).map(|job| job.end);
        let clock = &mut self.accounts.entry(flow.account).or_default().clock;
        let weight = flow.priority.weight();
        let start = clock.now().max(before.unwrap_or_default());
        let end = start.saturating_add(weight.length(tokens));
        clock.start(job, end, weight);
        let quantum = weight.length(self.quantum);
        let rank = if end - start > quantum / 2 {
            start.saturating_add(quantum).max(end)
        } else {
            (start + quantum) / (quantum / 2) * (quantum / 2)
        };
        self.jobs.insert(job, Job { flow, rank, start, end, entries, received: 0 });
    }

    /// A job whose entries wait in the order of arrival among all.
    pub(crate) fn begin_in_order(&mut self, job: Ticket, entries: usize) {
        self.accounts.entry(Account::default()).or_default();
        let flow = Flow::default();
        self.jobs.insert(job, Job { flow, rank: 0, start: 0, end: 0, entries, received: 0 });
    }

    pub(crate) fn job(&self, job: Ticket) -> &Job {
        &self.jobs[&job]
    }

    /// An entry of a job begins to wait.
    pub(crate) fn add(&mut self, ticket: Ticket, job: Ticket) {
        count_work();
        let &Job { flow: Flow { account, .. }, rank, .. } = self.job(job);
        let level = self.level;
        let shares = self.accounts.entry(account).or_default();
        if shares.classes.is_empty() {
            shares.received = shares.received.max(level);
            self.turns.insert((shares.received, account));
        }
        shares.classes.entry(rank).or_default().insert(ticket);
    }

    /// An entry no longer waits.
    pub(crate) fn remove(&mut self, ticket: Ticket, job: Ticket) {
        count_work();
        let &Job { flow: Flow { account, .. }, rank, .. } = self.job(job);
        let Some(shares) = self.accounts.get_mut(&account) else { return };
        if let Some(class) = shares.classes.get_mut(&rank) {
            class.remove(&ticket);
            if class.is_empty() {
                shares.classes.remove(&rank);
            }
        }
        if shares.classes.is_empty() {
            self.turns.remove(&(shares.received, account));
        }
    }

    /// The entries whose turn it is.
    pub(crate) fn first(&self) -> Option<Class<'_>> {
        let &(_, account) = self.turns.first()?;
        let (&rank, entries) = self.accounts[&account].classes.first_key_value()?;
        Some(Class { account, rank, entries })
    }

    /// An entry of a job, which no longer waits, takes its seat in the forming batch.
    pub(crate) fn charge(&mut self, seat: &Seat) {
        let account = self.job(seat.job).flow.account;
        self.edit_received(account, |shares| {
            shares.received += seat.tokens as u64;
            shares.in_batch += seat.tokens as u64;
        });
    }

    /// True if a job would come before entries of an account, the last of which has this rank, in the forming batch.
    pub(crate) fn precedes(&self, job: Ticket, account: Account, last: Rank) -> bool {
        count_work();
        let Job { flow, rank, .. } = self.job(job);
        let received = |account| self.accounts[&account].received;
        match flow.account == account {
            true => *rank < last,
            false => received(flow.account) < received(account),
        }
    }

    /// The forming batch is given up; the entries in it wait again once they are added.
    pub(crate) fn cancel_batch(&mut self, seats: &[Seat]) {
        for seat in seats {
            let account = self.job(seat.job).flow.account;
            self.edit_received(account, |shares| shares.received -= std::mem::take(&mut shares.in_batch));
        }
    }

    /// The forming batch has left.
    pub(crate) fn close_batch(&mut self, seats: &[Seat]) {
        self.level = self.turns.first().map_or(self.level, |&(received, _)| self.level.max(received));
        for seat in seats {
            let account = self.job(seat.job).flow.account;
            self.accounts.entry(account).or_default().in_batch = 0;
            let payer = self.job(seat.payer).flow.account;
            self.accounts.entry(payer).or_default().clock.advance(seat.tokens);
            self.jobs.entry(seat.payer).and_modify(|job| job.received += seat.tokens);
        }
        for seat in seats {
            self.finish_entry(seat.job);
        }
    }

    /// An entry of a job is computed or cancelled.
    pub(crate) fn finish_entry(&mut self, job: Ticket) {
        count_work();
        let Some(Job { entries, .. }) = self.jobs.get_mut(&job) else { return };
        *entries -= 1;
        if *entries == 0
            && let Some(Job { flow, start, end, received, .. }) = self.jobs.remove(&job)
        {
            let real_end = start.saturating_add(flow.priority.weight().length(received));
            let shares = self.accounts.entry(flow.account).or_default();
            shares.clock.set_end(job, end, real_end);
        }
        if self.jobs.is_empty() {
            // What was received counts between those that wait.
            *self = Self::new(self.quantum);
        }
    }

    fn edit_received(&mut self, account: Account, edit: impl FnOnce(&mut AccountShares)) {
        count_work();
        let shares = self.accounts.entry(account).or_default();
        let waits = self.turns.remove(&(shares.received, account));
        edit(shares);
        if waits {
            self.turns.insert((shares.received, account));
        }
    }
}

#[cfg(test)]
#[path = "tests/fair_shares.rs"]
mod tests;
