//! Fair order of the waiting entries: between accounts, and between the jobs of one.
//!
//! Each account has a *virtual time*: the tokens that it has been charged. The account with the least virtual time is next. After a
//! pause, an account starts at the system's virtual time, so it gets nothing for the time that it was away. The *jobs* of an account
//! (requests, or chunks of large ones) are in its [`SizeLanes`].
//!
//! An entry is charged its tokens when it takes its seat in a batch. Once the batch has run, the charges are corrected to its compute time,
//! converted to tokens at the [`Pace`] of the last seconds: an account pays for the small or slow batches that it causes.

use super::entry::Ticket;
use super::pace::Pace;
use super::size_lanes::{Progress, Rank, SizeLanes};
use super::work::WorkBySubModel;
use super::work_counter::count_work;
use crate::flow::{Account, Flow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Minimum ratio of an interrupted request's size to the size of the one that interrupts it. Requests of about the same size share
/// batches and prefixes.
const MIN_RATIO: usize = 4;

/// Place of an entry in the order of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) rank: Rank,
    pub(crate) ticket: Ticket,
}

/// Fair order, and the virtual times of the accounts.
#[derive(Debug)]
pub(crate) struct FairShares {
    /// Size of a job in tokens below which its size makes no difference.
    quantum: usize,
    accounts: HashMap<Account, AccountShares>,
    /// Accounts with waiting entries, by virtual time.
    turns: BTreeSet<(u64, Account)>,
    jobs: HashMap<Ticket, Job>,
    /// System virtual time: the least of an active account, without tokens in flight, when a batch was done. Accounts start here after a pause.
    level: u64,
    /// Tokens in forming or running batches, by account.
    in_flight: BTreeMap<Account, u64>,
    pace: Pace,
}

#[derive(Debug)]
struct AccountShares {
    /// Virtual time in tokens, including tokens in flight.
    received: u64,
    lanes: SizeLanes,
}

/// Entries that arrived together: a request, or a chunk of a large one.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) flow: Flow,
    pub(crate) rank: Rank,
    pub(crate) size: JobSize,
    /// Entries that are not done: they wait, or are in a batch that forms or runs.
    entries: usize,
    /// True while it counts in its lane. A chunk counts once the previous chunk is done.
    is_open: bool,
    /// The next chunk.
    next: Option<Ticket>,
}

/// Size of a job, without folding.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobSize {
    pub(crate) entries: usize,
    pub(crate) tokens: usize,
    /// Tokens of its longest entry.
    pub(crate) longest: usize,
    pub(crate) work: WorkBySubModel,
}

/// Waiting entries whose turn it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class<'a> {
    pub(crate) account: Account,
    pub(crate) rank: Rank,
    /// Not empty.
    pub(crate) entries: &'a BTreeSet<Ticket>,
}

/// An entry in a batch that forms or runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seat {
    pub(crate) ticket: Ticket,
    /// Its job, by the ticket of the first entry.
    pub(crate) job: Ticket,
    /// Job whose lane is charged the tokens.
    pub(crate) payer: Ticket,
    /// Tokens that it added to the batch.
    pub(crate) tokens: usize,
    /// Estimated time that it added to the batch, in any unit.
    pub(crate) estimate: f64,
    /// Virtual time that the payer's lane was charged for these tokens.
    progress: Progress,
}

/// Accounts with entries in a batch and the lanes charged for them, each with the tokens of its largest job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members(BTreeMap<(Account, u8), usize>);

impl Members {
    /// True if an account other than this one has entries.
    pub(crate) fn has_others(&self, account: Account) -> bool {
        self.0.keys().any(|member| member.0 != account)
    }
}

impl FairShares {
    pub(crate) fn new(quantum: usize) -> Self {
        let (accounts, turns, jobs) = (HashMap::new(), BTreeSet::new(), HashMap::new());
        Self {
            quantum: quantum.max(2),
            accounts,
            turns,
            jobs,
            level: 0,
            in_flight: BTreeMap::new(),
            pace: Pace::default(),
        }
    }

    /// Adds a job, identified by its first ticket. One that `follows` another of its request opens when that one is done: a request counts once.
    pub(crate) fn begin(&mut self, job: Ticket, flow: Flow, follows: Option<Ticket>, size: JobSize) {
        let before = follows.and_then(|before| self.jobs.get_mut(&before));
        let is_open = before.is_none();
        before.into_iter().for_each(|before| before.next = Some(job));
        let lanes = &mut self.account(flow.account).lanes;
        let weight = flow.priority.weight();
        let rank = lanes.rank(job, size.tokens, weight);
        if is_open {
            lanes.open(rank, weight);
        }
        self.jobs.insert(job, Job { flow, rank, entries: size.entries, size, is_open, next: None });
    }

    /// Adds a job whose entries wait in the order of arrival among all entries.
    pub(crate) fn begin_in_order(&mut self, job: Ticket, size: JobSize) {
        self.account(Account::default());
        let (flow, rank) = (Flow::default(), Rank::default());
        self.jobs.insert(job, Job { flow, rank, entries: size.entries, size, is_open: false, next: None });
    }

    pub(crate) fn job(&self, job: Ticket) -> &Job {
        &self.jobs[&job]
    }

    /// Adds an entry of a job that begins to wait.
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

    /// Removes an entry that no longer waits.
    pub(crate) fn remove(&mut self, ticket: Ticket, job: Ticket) {
        count_work();
        let &Job { flow: Flow { account, .. }, rank, .. } = self.job(job);
        let Some(shares) = self.accounts.get_mut(&account) else { return };
        shares.lanes.remove(rank, ticket);
        if shares.lanes.is_empty() {
            self.turns.remove(&(shares.received, account));
        }
    }

    /// Waiting entries in the order of their turns, as far as that does not depend on the choices made: the first class of each
    /// lane of each account.
    pub(crate) fn classes(&self) -> impl Iterator<Item = Class<'_>> {
        self.turns.iter().flat_map(|&(_, account)| {
            let classes = self.accounts[&account].lanes.classes();
            classes.map(move |(rank, entries)| Class { account, rank, entries })
        })
    }

    /// Seats an entry of `job`, which no longer waits, in a forming batch. The lane of `payer` is charged the `tokens` that it adds.
    pub(crate) fn seat(&mut self, ticket: Ticket, [job, payer]: [Ticket; 2], tokens: usize, estimate: f64) -> Seat {
        let account = self.job(job).flow.account;
        self.edit_received(account, |received| *received += tokens as u64);
        *self.in_flight.entry(account).or_default() += tokens as u64;
        let &Job { flow, rank, .. } = self.job(payer);
        let progress = self.account(flow.account).lanes.charge(rank.lane, tokens);
        Seat { ticket, job, payer, tokens, estimate, progress }
    }

    /// Adds a seat to the members of a batch.
    pub(crate) fn join(&self, members: &mut Members, seat: &Seat) {
        let (job, payer) = (self.job(seat.job), self.job(seat.payer));
        let largest = members.0.entry((job.flow.account, payer.rank.lane)).or_default();
        *largest = (*largest).max(payer.size.tokens);
    }

    /// True if a job would come before entries of a batch.
    pub(crate) fn precedes(&self, job: Ticket, members: &Members) -> bool {
        count_work();
        members.0.keys().any(|member| self.precedes_member(job, member))
    }

    /// True if a job would come before entries of a batch whose jobs are at least [`MIN_RATIO`] times as large or, in a `long` batch,
    /// before entries of another account whose virtual time is ahead by at least the job's tokens.
    pub(crate) fn interrupts(&self, job: Ticket, members: &Members, long: bool) -> bool {
        count_work();
        let Job { flow, rank, size, .. } = self.job(job);
        let served = self.received(flow.account).saturating_add(size.tokens as u64);
        let is_ahead = |account: Account| long && account != flow.account && self.received(account) >= served;
        let is_larger = |lane: u8, tokens: usize| lane > rank.lane && tokens >= MIN_RATIO * size.tokens;
        members.0.iter().any(|(member, &tokens)| {
            is_ahead(member.0) || (is_larger(member.1, tokens) && self.precedes_member(job, member))
        })
    }

    /// Virtual time of an account, including tokens in flight.
    fn received(&self, account: Account) -> u64 {
        self.accounts.get(&account).map_or(0, |shares| shares.received)
    }

    fn precedes_member(&self, job: Ticket, &(account, lane): &(Account, u8)) -> bool {
        let Job { flow, rank, .. } = self.job(job);
        if flow.account == account {
            self.accounts.get(&account).is_some_and(|shares| shares.lanes.precedes(*rank, lane))
        } else {
            self.received(flow.account) < self.received(account)
        }
    }

    /// Refunds the charges of a forming batch that is given up. The caller adds its entries again.
    pub(crate) fn cancel_batch(&mut self, seats: &[Seat]) {
        for seat in seats {
            let account = self.job(seat.job).flow.account;
            self.edit_received(account, |received| *received = received.saturating_sub(seat.tokens as u64));
            self.land(account, seat.tokens as u64);
            let &Job { flow, rank, .. } = self.job(seat.payer);
            self.account(flow.account).lanes.refund(rank.lane, seat.progress);
        }
    }

    /// Closes a batch that has left. Room for which others had no use is free: an account's virtual time is reduced until it is at most
    /// its longest entry ahead of them. The `reserved` accounts and lanes, which were not seated, did have use for the room.
    pub(crate) fn close_batch(&mut self, seats: &[Seat], reserved: &BTreeSet<(Account, u8)>) {
        let reserved_of = |account: Account| reserved.range((account, 0)..=(account, u8::MAX)).map(|&(_, lane)| lane);
        let mut waiting = self.turns.iter().filter(|&&(_, account)| reserved_of(account).next().is_none());
        // `None` if no account waits: then the next one to arrive starts at the others' virtual time.
        let level = waiting.next().map(|&(received, _)| self.level.max(received));
        let mut longest: HashMap<Account, u64> = HashMap::new();
        let mut lanes: HashMap<Account, BTreeSet<u8>> = HashMap::new();
        for seat in seats.iter().filter(|seat| seat.tokens > 0) {
            let of_account = longest.entry(self.job(seat.job).flow.account).or_default();
            *of_account = (*of_account).max(seat.tokens as u64);
            let &Job { flow, rank, .. } = self.job(seat.payer);
            lanes.entry(flow.account).or_default().insert(rank.lane);
        }
        for (account, longest) in longest {
            let mut lowered = 0;
            self.edit_received(account, |received| {
                lowered = level.map_or(0, |level| received.saturating_sub(level + longest));
                *received -= lowered;
            });
            self.land(account, lowered);
        }
        for (account, lanes) in lanes {
            self.account(account).lanes.close_batch(lanes, reserved_of(account).collect());
        }
    }

    /// Finishes a batch, with its compute time if it ran.
    pub(crate) fn finish_batch(&mut self, seats: &[Seat], time: Option<Duration>) {
        if let Some(time) = time {
            self.correct(seats, time);
        }
        for seat in seats {
            let account = self.job(seat.job).flow.account;
            self.land(account, seat.tokens as u64);
            let &Job { flow, rank, .. } = self.job(seat.payer);
            self.account(flow.account).lanes.land(rank.lane, seat.progress);
        }
        self.raise_level();
        for seat in seats {
            self.finish_entry(seat.job);
        }
    }

    /// Subtracts an account's tokens that are no longer in flight.
    fn land(&mut self, account: Account, tokens: u64) {
        if let Some(in_flight) = self.in_flight.get_mut(&account) {
            *in_flight = in_flight.saturating_sub(tokens);
            if *in_flight == 0 {
                self.in_flight.remove(&account);
            }
        }
    }

    /// Raises the system's virtual time to the least of the accounts that wait or are in a batch.
    fn raise_level(&mut self) {
        let waits_alone = |&&(_, account): &&(u64, Account)| !self.in_flight.contains_key(&account);
        let waiting = self.turns.iter().find(waits_alone).map(|&(received, _)| received);
        let received = |account: &Account| self.accounts.get(account).map_or(0, |shares| shares.received);
        let in_flight = self.in_flight.iter().map(|(account, tokens)| received(account).saturating_sub(*tokens));
        self.level = self.level.max(waiting.into_iter().chain(in_flight).min().unwrap_or(0));
    }

    /// Corrects the charges for a batch to its compute time.
    fn correct(&mut self, seats: &[Seat], time: Duration) {
        let charged: usize = seats.iter().map(|seat| seat.tokens).sum();
        let estimated: f64 = seats.iter().map(|seat| seat.estimate).sum();
        let due = self.pace.observe(charged, time);
        for seat in seats {
            let part = if estimated > 0.0 { seat.estimate / estimated } else { 1.0 / seats.len() as f64 };
            let tokens = (part * due).round() as i64 - seat.tokens as i64;
            if tokens == 0 {
                continue;
            }
            let account = self.job(seat.job).flow.account;
            self.edit_received(account, |received| *received = received.saturating_add_signed(tokens));
            let &Job { flow, rank, .. } = self.job(seat.payer);
            self.account(flow.account).lanes.correct(rank.lane, tokens);
        }
    }

    /// Removes an entry of a job that is done or cancelled.
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
            // Virtual times compare active accounts only.
            *self = Self { pace: self.pace, ..Self::new(self.quantum) };
        }
    }

    fn account(&mut self, account: Account) -> &mut AccountShares {
        let new = || AccountShares { received: 0, lanes: SizeLanes::new(self.quantum) };
        self.accounts.entry(account).or_insert_with(new)
    }

    fn edit_received(&mut self, account: Account, edit: impl FnOnce(&mut u64)) {
        count_work();
        let Some(shares) = self.accounts.get_mut(&account) else { return };
        let waits = self.turns.remove(&(shares.received, account));
        edit(&mut shares.received);
        if waits {
            self.turns.insert((shares.received, account));
        }
    }
}

#[cfg(test)]
#[path = "tests/fair_shares.rs"]
mod tests;
