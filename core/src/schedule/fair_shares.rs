//! Fair order of the waiting entries: between accounts, and between the jobs of one.
//!
//! *Accounts* take turns: next is the one that has received the fewest tokens. One that comes back from a pause starts
//! level with the others and gets nothing for the time that it was away. The *jobs* of an account (requests, or chunks of
//! large ones) are in its [`SizeLanes`].

use super::entry::Ticket;
use super::size_lanes::{Rank, SizeLanes};
use super::work_counter::count_work;
use crate::{Account, Flow};
use std::collections::{BTreeSet, HashMap};

/// Place of an entry in the order of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) rank: Rank,
    pub(crate) ticket: Ticket,
}

/// The fair order, and what all have received.
#[derive(Debug)]
pub(crate) struct FairShares {
    /// Tokens of a job below which its size makes no difference.
    quantum: usize,
    accounts: HashMap<Account, AccountShares>,
    /// The accounts with waiting entries, by the tokens that they have received.
    turns: BTreeSet<(u64, Account)>,
    jobs: HashMap<Ticket, Job>,
    /// Fewest tokens that a waiting account had received when a batch left: where one starts that comes back.
    level: u64,
}

#[derive(Debug)]
struct AccountShares {
    /// Tokens, those of the forming batch included.
    received: u64,
    in_batch: u64,
    /// Tokens of its longest entry in the forming batch.
    longest: u64,
    lanes: SizeLanes,
}

/// Entries that arrived together: a request, or a chunk of a large one.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) flow: Flow,
    pub(crate) rank: Rank,
    /// Entries that wait or are in the forming batch.
    entries: usize,
    /// It counts in its lane. A chunk counts once the chunk before it is done.
    is_open: bool,
    /// Chunk after it.
    next: Option<Ticket>,
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
    /// same request takes its place: a request counts once.
    pub(crate) fn begin(&mut self, job: Ticket, flow: Flow, follows: Option<Ticket>, [entries, tokens]: [usize; 2]) {
        let before = follows.and_then(|before| self.jobs.get_mut(&before));
        let is_open = before.is_none();
        before.into_iter().for_each(|before| before.next = Some(job));
        let lanes = &mut self.account(flow.account).lanes;
        let weight = flow.priority.weight();
        let rank = lanes.rank(job, tokens, weight);
        if is_open {
            lanes.open(rank, weight);
        }
        self.jobs.insert(job, Job { flow, rank, entries, is_open, next: None });
    }

    /// A job whose entries wait in the order of arrival among all.
    pub(crate) fn begin_in_order(&mut self, job: Ticket, entries: usize) {
        self.account(Account::default());
        let (flow, rank) = (Flow::default(), Rank::default());
        self.jobs.insert(job, Job { flow, rank, entries, is_open: false, next: None });
    }

    pub(crate) fn job(&self, job: Ticket) -> &Job {
        &self.jobs[&job]
    }

    /// An entry of a job begins to wait.
    pub(crate) fn add(&mut self, ticket: Ticket, job: Ticket) {
        count_work();
        let &Job { flow: Flow { account, .. }, rank, .. } = self.job(job);
        let level = self.level;
        let Some(shares) = self.accounts.get_mut(&account) else { return };
        if shares.lanes.is_empty() {
            shares.received = shares.received.max(level);
            self.turns.insert((shares.received, account));
        }
        shares.lanes.add(rank, ticket);
    }

    /// An entry no longer waits.
    pub(crate) fn remove(&mut self, ticket: Ticket, job: Ticket) {
        count_work();
        let &Job { flow: Flow { account, .. }, rank, .. } = self.job(job);
        let Some(shares) = self.accounts.get_mut(&account) else { return };
        shares.lanes.remove(rank, ticket);
        if shares.lanes.is_empty() {
            self.turns.remove(&(shares.received, account));
        }
    }

    /// The waiting entries in the order of their turns, as far as it does not depend on what is chosen: of each account the
    /// first class of each lane.
    pub(crate) fn classes(&self) -> impl Iterator<Item = Class<'_>> {
        self.turns.iter().flat_map(|&(_, account)| {
            let classes = self.accounts[&account].lanes.classes();
            classes.map(move |(rank, entries)| Class { account, rank, entries })
        })
    }

    /// An entry of a job, which no longer waits, takes its seat in the forming batch.
    pub(crate) fn charge(&mut self, seat: &Seat) {
        let account = self.job(seat.job).flow.account;
        self.edit_received(account, |shares| {
            shares.received += seat.tokens as u64;
            shares.in_batch += seat.tokens as u64;
            shares.longest = shares.longest.max(seat.tokens as u64);
        });
        let &Job { flow, rank, .. } = self.job(seat.payer);
        self.account(flow.account).lanes.charge(rank, seat.tokens);
    }

    /// True if a job would come before entries of an account in the forming batch.
    pub(crate) fn precedes(&self, job: Ticket, account: Account) -> bool {
        count_work();
        let Job { flow, rank, .. } = self.job(job);
        let received = |account| self.accounts[&account].received;
        match flow.account == account {
            true => self.accounts[&account].lanes.precedes(*rank),
            false => received(flow.account) < received(account),
        }
    }

    /// The forming batch is given up; the entries in it wait again once they are added.
    pub(crate) fn cancel_batch(&mut self, seats: &[Seat]) {
        for seat in seats {
            let [account, payer] = self.accounts_of(seat);
            self.edit_received(account, |shares| {
                shares.received -= std::mem::take(&mut shares.in_batch);
                shares.longest = 0;
            });
            self.account(payer).lanes.cancel_batch();
        }
    }

    /// The forming batch has left. What an account had of room that others had no use for it does not pay for later: it is ahead
    /// of them by its longest entry at most.
    pub(crate) fn close_batch(&mut self, seats: &[Seat]) {
        self.level = self.turns.first().map_or(self.level, |&(received, _)| self.level.max(received));
        for seat in seats {
            let [account, payer] = self.accounts_of(seat);
            let level = self.level;
            self.edit_received(account, |shares| {
                let longest = std::mem::take(&mut shares.longest);
                if std::mem::take(&mut shares.in_batch) > 0 {
                    shares.received = shares.received.min(level + longest);
                }
            });
            self.account(payer).lanes.close_batch();
        }
        for seat in seats {
            self.finish_entry(seat.job);
        }
    }

    /// The accounts of the job that a seat is of, and of its payer.
    fn accounts_of(&self, seat: &Seat) -> [Account; 2] {
        [seat.job, seat.payer].map(|job| self.job(job).flow.account)
    }

    /// An entry of a job is computed or cancelled.
    pub(crate) fn finish_entry(&mut self, job: Ticket) {
        count_work();
        let Some(Job { entries, .. }) = self.jobs.get_mut(&job) else { return };
        *entries -= 1;
        if *entries == 0
            && let Some(Job { flow, rank, is_open, next, .. }) = self.jobs.remove(&job)
        {
            let lanes = &mut self.account(flow.account).lanes;
            if is_open {
                lanes.close(rank, flow.priority.weight());
            }
            if let Some(next) = next.and_then(|next| self.jobs.get_mut(&next)) {
                next.is_open = true;
                let Job { flow, rank, .. } = *next;
                self.account(flow.account).lanes.open(rank, flow.priority.weight());
            }
        }
        if self.jobs.is_empty() {
            // What was received counts between those that wait.
            *self = Self::new(self.quantum);
        }
    }

    fn account(&mut self, account: Account) -> &mut AccountShares {
        let new = || AccountShares { received: 0, in_batch: 0, longest: 0, lanes: SizeLanes::new(self.quantum) };
        self.accounts.entry(account).or_insert_with(new)
    }

    fn edit_received(&mut self, account: Account, edit: impl FnOnce(&mut AccountShares)) {
        count_work();
        let Some(shares) = self.accounts.get_mut(&account) else { return };
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
