//! Queue of the entries that wait for a batch. Pure: no threads, no clock of its own.

use super::budget::{Budget, Load, Policy};
use super::entry::{Entry, Ticket};
use super::fair_shares::{Class, FairShares, Seat, Turn};
use super::part_costs::TimeBound;
use super::prefix_index::{Group, Nearest, PrefixIndex};
use super::prefix_tree::NodeId;
use super::work::Work;
use super::work_counter::count_work;
use crate::{Account, Adapter, Flow, Folding, Scheduling};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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
/// With [`Scheduling::Prefix`] a batch takes entries of the class whose turn it is by [`FairShares`], again and again, and of
/// the next one where nothing of it fits. Of a class it takes
///
/// 1. the first entry and, where there are several jobs, the others of its job, unless other jobs are older;
/// 2. the entry that shares most with the chosen ones, again and again: first those that add no token, then those with
///    the longest prefix in common, the oldest among equals. But entries that share a prefix which the batch does not
///    have yet wait for a batch that can take all of them, unless no batch can or the prefix is short beside the room
///    that they would fill: each batch must compute the prefix again.
///
/// When nothing more fits in turn, entries of any class ride along: those that add no token, and those that add no more
/// than the leading job has saved in this batch by sharing.
///
/// docs/architecture.md states how long a job waits at most.
#[derive(Debug)]
pub(crate) struct Queue {
    policy: Policy,
    /// Bound on the estimated time of a batch.
    time_bound: Option<TimeBound>,
    waiting: BTreeMap<Ticket, Waiting>,
    index: PrefixIndex,
    shares: FairShares,
    next_ticket: Ticket,
    /// Tokens of all waiting entries.
    tokens: usize,
    forming: Forming,
    /// Jobs that arrived since entries were last taken.
    newcomers: Vec<Ticket>,
}

/// The batch that forms.
#[derive(Debug, Default)]
struct Forming {
    load: Load,
    seats: Vec<Seat>,
    /// Accounts that have entries in it.
    accounts: BTreeSet<Account>,
    /// Job whose entries go in order.
    leading: Option<Ticket>,
    /// Tokens that sharing saved the leading job, less those of riders.
    saved: usize,
    /// An entry in it was cancelled, and another could have its room.
    has_vacancy: bool,
}

#[derive(Debug)]
struct Waiting {
    entry: Entry,
    node: NodeId,
    /// Its job, by the ticket of the first entry.
    job: Ticket,
}

/// Candidates that were passed over while entries are taken.
#[derive(Debug, Default)]
struct PassedOver {
    entries: Vec<Ticket>,
    groups: Vec<Group>,
}

impl PassedOver {
    fn len(&self) -> usize {
        self.entries.len() + self.groups.len()
    }
}

/// The next entry to join if it fits.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    ticket: Ticket,
    /// Entries that it had better join together with.
    group: Option<Group>,
    is_rider: bool,
}

impl Queue {
    pub(crate) fn new(policy: Policy) -> Self {
        Self {
            policy,
            time_bound: None,
            waiting: BTreeMap::new(),
            index: PrefixIndex::new(policy.folding.unwrap_or(Folding::Prefix)),
            shares: FairShares::new(policy.quantum),
            next_ticket: 0,
            tokens: 0,
            forming: Forming::default(),
            newcomers: Vec::new(),
        }
    }

    /// Adds the entries of a request, or of a chunk that `follows` the one with this first ticket, and returns their
    /// tickets.
    pub(crate) fn push(&mut self, entries: Vec<Entry>, flow: Flow, follows: Option<Ticket>) -> Range<Ticket> {
        let job = self.next_ticket;
        if entries.is_empty() {
            return job..job;
        }
        let size = [entries.len(), entries.iter().map(|entry| entry.tokens.len()).sum()];
        match self.policy.scheduling {
            Scheduling::Fifo => self.shares.begin_in_order(job, entries.len()),
            Scheduling::Prefix => self.shares.begin(job, flow, follows, size),
        }
        for mut entry in entries {
            entry.ticket = self.next_ticket;
            self.next_ticket += 1;
            self.add(entry, job);
        }
        self.newcomers.push(job);
        job..self.next_ticket
    }

    /// Entries that wait, the cancelled ones included until they are met or withdrawn.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Tokens of all waiting entries.
    #[cfg(test)]
    pub(crate) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Tokens and number of the entries that wait or are in the batch that forms.
    pub(crate) fn held(&self) -> [usize; 2] {
        let load = &self.forming.load;
        [self.tokens + load.ragged_tokens, self.len() + load.sequences]
    }

    /// Takes another bound on the time of a batch.
    pub(crate) fn set_time_bound(&mut self, bound: TimeBound) {
        self.time_bound = Some(bound);
    }

    /// Removes the entries that begin a batch, or join the one that forms. Cancelled entries are dropped.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        let mut taken = Vec::new();
        let mut passed_over = PassedOver::default();
        while let Some(candidate) = self.in_turn(&passed_over)
            && self.try_to_seat(candidate, &mut taken, &mut passed_over)
        {}
        while let Some(candidate) = self.rider()
            && self.try_to_seat(candidate, &mut taken, &mut passed_over)
        {}
        passed_over.groups.into_iter().for_each(|group| self.index.show_group(group));
        for ticket in passed_over.entries {
            self.index.show(self.turn(ticket), self.waiting[&ticket].node);
        }
        taken
    }

    /// True if the batch that forms had better be formed again: a job that arrived would come before others in it and
    /// found no room, or an entry in it was cancelled while others wait.
    pub(crate) fn is_outdated(&mut self) -> bool {
        let newcomers = std::mem::take(&mut self.newcomers);
        let is_displaced = |job: &Ticket| {
            let waits = self.waiting.range(job..).next().is_some_and(|(_, waiting)| waiting.job == *job);
            waits && self.forming.accounts.iter().any(|&account| self.shares.precedes(*job, account))
        };
        let vacancy = std::mem::take(&mut self.forming.has_vacancy) && !self.is_empty();
        vacancy || newcomers.iter().any(is_displaced)
    }

    /// The batch that formed is given up, and its entries wait again where they did.
    pub(crate) fn give_back(&mut self, entries: Vec<Entry>) {
        let forming = self.end_forming();
        self.shares.cancel_batch(&forming.seats);
        let mut entries: HashMap<Ticket, Entry> = entries.into_iter().map(|entry| (entry.ticket, entry)).collect();
        for Seat { ticket, job, .. } in forming.seats {
            match entries.remove(&ticket).filter(|entry| !entry.is_cancelled()) {
                Some(entry) => self.add(entry, job),
                None => self.shares.finish_entry(job),
            }
        }
    }

    /// The batch that formed has left, or is lost; the next [`take`](Self::take) begins another.
    pub(crate) fn close_batch(&mut self) {
        let forming = self.end_forming();
        self.shares.close_batch(&forming.seats);
    }

    /// Drops the entries with these tickets that still wait.
    pub(crate) fn withdraw(&mut self, tickets: Range<Ticket>) {
        while let Some((&ticket, _)) = self.waiting.range(tickets.clone()).next() {
            self.cancel(ticket);
        }
        self.forming.has_vacancy |= self.forming.seats.iter().any(|seat| tickets.contains(&seat.ticket));
    }

    /// The next entry in the fair order. Where nothing fits of those whose turn it is, others come before them in this batch, and
    /// they begin the next one.
    fn in_turn(&self, passed_over: &PassedOver) -> Option<Candidate> {
        self.shares.classes().find_map(|class| self.next_of(&class, passed_over))
    }

    /// The next entry of a class.
    fn next_of(&self, class: &Class<'_>, passed_over: &PassedOver) -> Option<Candidate> {
        let first =
            class.entries.iter().inspect(|_| count_work()).find(|ticket| !passed_over.entries.contains(ticket))?;
        let job = self.waiting[first].job;
        let leads = Candidate { ticket: *first, group: None, is_rider: false };
        let is_leading = self.forming.leading == Some(job) && !self.is_alone(job, class);
        if self.forming.load.sequences == 0 || is_leading || !self.is_prefix_aware() {
            return Some(leads);
        }
        match self.index.nearest(|turn| self.is_of(turn, class)) {
            Some(Nearest { ticket, group }) => Some(Candidate { ticket, group, is_rider: false }),
            None => passed_over.groups.is_empty().then_some(leads),
        }
    }

    /// The next entry that may ride along.
    fn rider(&self) -> Option<Candidate> {
        if self.forming.load.sequences == 0 || !self.is_prefix_aware() {
            return None;
        }
        let Nearest { ticket, .. } = self.index.nearest(|_| true)?;
        let tokens = self.index.new_tokens(self.waiting[&ticket].node);
        (tokens <= self.forming.saved).then_some(Candidate { ticket, group: None, is_rider: true })
    }

    /// Seats a candidate if it fits, drops it if it was cancelled, or passes it over. False if the search is over.
    fn try_to_seat(&mut self, candidate: Candidate, taken: &mut Vec<Entry>, passed_over: &mut PassedOver) -> bool {
        count_work();
        let Candidate { ticket, group, .. } = candidate;
        let Waiting { entry, node, .. } = &self.waiting[&ticket];
        let (node, len, part) = (*node, entry.tokens.len(), self.part(entry.tokens.adapter()));
        let tokens = if self.policy.folding.is_some() { self.index.new_tokens(node) } else { len };
        let load = self.forming.load.with(part, tokens, len, self.policy.attention);
        let shared = self.policy.attention.saved(len - tokens);
        let split = group.filter(|group| self.is_better_whole(group, part));
        if entry.is_cancelled() {
            self.cancel(ticket);
        } else if split.is_none() && self.fits(&load, part, shared) {
            self.index.cover(node);
            taken.extend(self.seat(candidate, tokens, load));
        } else if !self.may_pass_over(passed_over.len()) {
            return false;
        } else if let Some(group) = split {
            self.index.hide_group(group);
            passed_over.groups.push(group);
        } else {
            self.index.hide(self.turn(ticket), node);
            passed_over.entries.push(ticket);
        }
        true
    }

    fn is_prefix_aware(&self) -> bool {
        self.policy.scheduling == Scheduling::Prefix && self.policy.folding.is_some()
    }

    fn turn(&self, ticket: Ticket) -> Turn {
        Turn { rank: self.shares.job(self.waiting[&ticket].job).rank, ticket }
    }

    fn is_of(&self, turn: Turn, class: &Class<'_>) -> bool {
        let account = || self.shares.job(self.waiting[&turn.ticket].job).flow.account;
        turn.rank == class.rank && account() == class.account
    }

    /// True if the class is of one job.
    fn is_alone(&self, job: Ticket, class: &Class<'_>) -> bool {
        class.entries.last().is_some_and(|last| self.waiting[last].job == job)
    }

    /// Index of the part of the model that takes texts with this adapter; only bounds on time tell parts apart.
    fn part(&self, adapter: Adapter) -> usize {
        self.time_bound.as_ref().map_or(0, |bound| bound.parts.part(adapter))
    }

    /// True if a batch may have this load, whose last sequence is for `part` and shares `shared` with the others.
    fn fits(&self, load: &Load, part: usize, shared: Work) -> bool {
        let is_in_time = || self.time_bound.as_ref().is_none_or(|bound| bound.allows(&load.work, part, shared));
        self.policy.budget.fits(load) && (load.sequences <= 1 || is_in_time())
    }

    /// Rows for `part` that fit beside a load, together with `shared`, which it has already.
    fn room(&self, load: &Load, part: usize, shared: Work) -> usize {
        let in_time = self.time_bound.as_ref().map_or(usize::MAX, |bound| bound.room(&load.work, part, shared));
        self.policy.budget.room(load).min(in_time)
    }

    /// True for a group of texts for `part` that had better wait for a batch with room for all of it.
    fn is_better_whole(&self, group: &Group, part: usize) -> bool {
        let Policy { budget: Budget { max_ragged_tokens, max_sequences, .. }, attention, .. } = self.policy;
        let room = self.room(&self.forming.load, part, attention.saved(group.depth));
        let whole = self.room(&Load::default(), part, Work::default());
        let fits_a_batch = group.depth + group.tokens <= whole
            && group.ragged_tokens <= max_ragged_tokens
            && group.entries <= max_sequences;
        // A group with others in it than those whose turn it is does not wait for them.
        let is_due = self.shares.classes().next().is_some_and(|class| group.entries <= class.entries.len());
        group.tokens > room && fits_a_batch && is_due && group.head * MIN_FILL_OF_SPLIT > room
    }

    fn may_pass_over(&self, passed_over: usize) -> bool {
        self.policy.scheduling == Scheduling::Prefix
            && self.forming.load.sequences < self.policy.budget.max_sequences
            && passed_over < MAX_PASSED_OVER
    }

    /// Seats an entry of the class whose turn it is, or a rider, in the batch that forms.
    fn seat(&mut self, Candidate { ticket, is_rider, .. }: Candidate, tokens: usize, load: Load) -> Option<Entry> {
        let Waiting { entry, job, .. } = self.remove(ticket)?;
        let forming = &mut self.forming;
        let leading = *forming.leading.get_or_insert(job);
        forming.load = load;
        if is_rider {
            forming.saved -= tokens;
        } else if leading == job {
            forming.saved += entry.tokens.len() - tokens;
        }
        let seat = Seat { ticket, job, payer: if is_rider { leading } else { job }, tokens };
        forming.seats.push(seat);
        forming.accounts.insert(self.shares.job(job).flow.account);
        self.shares.charge(&seat);
        Some(entry)
    }

    fn add(&mut self, entry: Entry, job: Ticket) {
        let turn = Turn { rank: self.shares.job(job).rank, ticket: entry.ticket };
        let node = self.index.insert(turn, &entry.tokens, entry.wanted);
        self.tokens += entry.tokens.len();
        self.shares.add(entry.ticket, job);
        self.waiting.insert(entry.ticket, Waiting { entry, node, job });
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let turn = self.turn(ticket);
        let waiting = self.waiting.remove(&ticket)?;
        self.index.remove(turn, waiting.node);
        self.tokens -= waiting.entry.tokens.len();
        self.shares.remove(ticket, waiting.job);
        Some(waiting)
    }

    fn cancel(&mut self, ticket: Ticket) {
        if let Some(Waiting { job, .. }) = self.remove(ticket) {
            self.shares.finish_entry(job);
        }
    }

    fn end_forming(&mut self) -> Forming {
        self.index.uncover();
        std::mem::take(&mut self.forming)
    }
}

#[cfg(test)]
#[path = "tests/queue.rs"]
mod tests;
#[cfg(test)]
#[path = "tests/queue_work.rs"]
mod work_tests;
