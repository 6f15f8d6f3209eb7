//! Queue of the entries that wait for a batch. Pure: no threads and no clock.

use super::budget::{Load, Policy};
use super::entry::{Entry, Ticket};
use super::fair_shares::{Class, FairShares, Seat, Turn};
use super::forming::{BatchId, Candidate, Forming, PassedOver, Running};
use super::held::Held;
use super::interrupting::{InterruptPolicy, Interrupting};
use super::level::Level;
use super::prefix_index::{Nearest, PrefixIndex};
use super::prefix_tree::NodeId;
use super::sub_model_costs::TimeBound;
use super::work_counter::count_work;
use crate::backend::Folding;
use crate::config::Scheduling;
use crate::flow::{Account, Flow};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

/// Waiting entries and their order.
///
/// With [`Scheduling::Fifo`] entries leave in the order of their arrival; the first one that does not fit ends the
/// batch.
///
/// With [`Scheduling::Prefix`] a batch repeatedly takes entries of the class whose turn it is by [`FairShares`], or of the
/// next class if nothing of that one fits. From a class it takes
///
/// 1. the first entry and, if there are several jobs, the others of its job, unless other jobs are older;
/// 2. then, repeatedly, the entry that shares most with the chosen ones: first entries that add no token, then those with
///    the longest common prefix, the oldest among equals. But entries that share a prefix which the batch does not have
///    yet wait for a batch that can take all of them, unless no batch can, or the prefix is short compared with the room
///    that they would fill: each batch must compute the prefix again.
///
/// When nothing more fits in turn, entries of any class ride along: those that add no token, and those that add no more
/// than the leading job has saved in this batch by sharing.
///
/// Jobs of very different sizes share a batch only if it is short for the smallest of them. Jobs that may interrupt running batches
/// are left to [`take_interrupting`](Self::take_interrupting).
///
/// docs/architecture.md describes the order in full.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(super) policy: Policy,
    /// Estimates of the time of a batch, and the bound on it.
    pub(super) costs: TimeBound,
    pub(super) waiting: BTreeMap<Ticket, Waiting>,
    index: PrefixIndex,
    pub(super) shares: FairShares,
    next_ticket: Ticket,
    /// Tokens of all waiting entries.
    tokens: usize,
    /// Entries that wait or are in forming batches.
    held: Held,
    pub(super) forming: Forming,
    /// Accounts and lanes of jobs that may interrupt running batches and so do not join the forming one.
    pub(super) reserved: BTreeSet<(Account, u8)>,
    /// `None` if batches are not interrupted.
    pub(super) interrupting: Option<Interrupting>,
    pub(super) running: BTreeMap<BatchId, Running>,
    last_batch: BatchId,
    /// Jobs that arrived since entries were last taken.
    newcomers: Vec<Ticket>,
}

/// An entry in the queue, with its places in the prefix index and in the shares.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) entry: Entry,
    node: NodeId,
    /// Its job, by the ticket of the first entry.
    pub(super) job: Ticket,
}

impl Queue {
    /// An empty queue, whose batches interrupt others within the limits of `interrupting`.
    pub(crate) fn new(policy: Policy, interrupting: Option<InterruptPolicy>) -> Self {
        // In the order of arrival no entry overtakes another.
        let interrupting = interrupting.filter(|_| policy.scheduling == Scheduling::Prefix);
        Self {
            policy,
            costs: TimeBound::default(),
            waiting: BTreeMap::new(),
            index: PrefixIndex::new(policy.folding.unwrap_or(Folding::Prefix)),
            shares: FairShares::new(policy.quantum),
            next_ticket: 0,
            tokens: 0,
            held: Held::default(),
            forming: Forming::default(),
            reserved: BTreeSet::new(),
            interrupting: interrupting.map(Interrupting::new),
            running: BTreeMap::new(),
            last_batch: 0,
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
        let size = self.size(&entries);
        match self.policy.scheduling {
            Scheduling::Fifo => self.shares.begin_in_order(job, size),
            Scheduling::Prefix => self.shares.begin(job, flow, follows, size),
        }
        for mut entry in entries {
            entry.ticket = self.next_ticket;
            self.next_ticket += 1;
            self.held.add(entry.ticket, flow.account, entry.tokens.len());
            self.add(entry, job);
        }
        self.newcomers.push(job);
        job..self.next_ticket
    }

    /// Number of waiting entries, including cancelled ones that have not been found or withdrawn yet.
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

    /// Tokens and number of the entries that wait or are in forming batches.
    pub(crate) fn held(&self) -> [usize; 2] {
        let load = &self.forming.load;
        let [tokens, entries] = self.interrupting.as_ref().map_or([0; 2], Interrupting::held);
        [self.tokens + load.ragged_tokens + tokens, self.len() + load.sequences + entries]
    }

    /// The same for one account.
    pub(crate) fn held_of(&self, account: Account) -> [usize; 2] {
        self.held.of(account)
    }

    /// Replaces the estimates of the time of a batch, and the bound on it.
    pub(crate) fn set_costs(&mut self, costs: TimeBound) {
        self.costs = costs;
    }

    /// Removes the entries that begin a batch or join the forming one. Cancelled entries are dropped.
    pub(crate) fn take(&mut self) -> Vec<Entry> {
        self.reserved = self.reserved();
        self.forming.reserved.extend(&self.reserved);
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

    /// True if the forming batch should be formed again: a new job found no room although it comes before others in the batch,
    /// or an entry in the batch was cancelled while others wait.
    pub(crate) fn is_outdated(&mut self) -> bool {
        let newcomers = std::mem::take(&mut self.newcomers);
        let vacancy = std::mem::take(&mut self.forming.has_vacancy) && !self.is_empty();
        let is_displaced = |job: &Ticket| {
            let waits = self.waiting.range(job..).next().is_some_and(|(_, waiting)| waiting.job == *job);
            waits && !self.is_reserved(*job) && self.shares.precedes(*job, &self.forming.members)
        };
        vacancy || newcomers.iter().any(is_displaced)
    }

    /// Gives up the forming batch; its entries wait again in their old places.
    pub(crate) fn give_back(&mut self, entries: Vec<Entry>) {
        let forming = self.end_forming();
        self.shares.cancel_batch(&forming.seats);
        let mut entries: HashMap<Ticket, Entry> = entries.into_iter().map(|entry| (entry.ticket, entry)).collect();
        for Seat { ticket, job, .. } in forming.seats {
            match entries.remove(&ticket).filter(|entry| !entry.is_cancelled()) {
                Some(entry) => self.add(entry, job),
                None => {
                    self.held.remove(ticket);
                    self.shares.finish_entry(job);
                }
            }
        }
    }

    /// Closes the forming batch of a level, which now runs until it is [finished](Self::finish_batch). The next entries begin
    /// another. `interrupts`: it runs at a yield point.
    pub(crate) fn close_batch(&mut self, level: Level, interrupts: bool) -> BatchId {
        let interrupting = self.interrupting.as_mut().and_then(|interrupting| interrupting.forming(level));
        let forming = match interrupting {
            Some(forming) => std::mem::take(forming),
            None => self.end_forming(),
        };
        let Forming { seats, members, load, reserved, .. } = forming;
        let estimate = self.costs.time(&load.work);
        if level == Level::Bulk {
            // The room of an interrupting batch is never free: others had use for its time.
            self.shares.close_batch(&seats, &reserved);
        }
        seats.iter().for_each(|seat| self.held.remove(seat.ticket));
        self.last_batch += 1;
        self.running.insert(self.last_batch, Running { level, interrupts, estimate, seats, members });
        self.last_batch
    }

    /// Closes and finishes the forming batch, without a measured time.
    #[cfg(test)]
    pub(crate) fn complete_batch(&mut self) {
        let batch = self.close_batch(Level::Bulk, false);
        self.finish_batch(batch, None);
    }

    /// Finishes a batch that ran for this compute time, or was lost.
    pub(crate) fn finish_batch(&mut self, batch: BatchId, time: Option<Duration>) {
        let Some(Running { interrupts, seats, .. }) = self.running.remove(&batch) else { return };
        if let (true, Some(time), Some(interrupting)) = (interrupts, time, &mut self.interrupting) {
            for seat in &seats {
                let account = self.shares.job(seat.job).flow.account;
                interrupting.debts.borrow(account, time / seats.len().max(1) as u32);
            }
        }
        self.shares.finish_batch(&seats, time);
    }

    /// Drops waiting entries with these tickets.
    pub(crate) fn withdraw(&mut self, tickets: Range<Ticket>) {
        while let Some((&ticket, _)) = self.waiting.range(tickets.clone()).next() {
            self.cancel(ticket);
        }
        self.forming.has_vacancy |= self.forming.seats.iter().any(|seat| tickets.contains(&seat.ticket));
    }

    /// The next entry in the fair order. If nothing of the class whose turn it is fits, later classes fill this batch, and that class
    /// begins the next one.
    fn in_turn(&self, passed_over: &PassedOver) -> Option<Candidate> {
        let is_free = |class: &Class<'_>| {
            !self.reserved.contains(&(class.account, class.rank.lane)) && self.may_mix(class.account, class.rank.lane)
        };
        self.shares.classes().filter(is_free).find_map(|class| self.next_of(&class, passed_over))
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
        let is_free = |turn: Turn| {
            let job = self.waiting[&turn.ticket].job;
            self.may_mix(self.shares.job(job).flow.account, turn.rank.lane) && !self.is_reserved(job)
        };
        let Nearest { ticket, .. } = self.index.nearest(is_free)?;
        let tokens = self.index.new_tokens(self.waiting[&ticket].node);
        (tokens <= self.forming.saved).then_some(Candidate { ticket, group: None, is_rider: true })
    }

    /// Seats a candidate if it fits, drops it if it was cancelled, and otherwise passes it over. Returns false at the end of the search.
    fn try_to_seat(&mut self, candidate: Candidate, taken: &mut Vec<Entry>, passed_over: &mut PassedOver) -> bool {
        count_work();
        let Candidate { ticket, group, .. } = candidate;
        let Waiting { entry, node, job } = &self.waiting[&ticket];
        let (node, len, sub_model) = (*node, entry.tokens.len(), self.sub_model(entry.tokens.task()));
        let tokens = if self.policy.folding.is_some() { self.index.new_tokens(node) } else { len };
        let load = self.forming.load.with(sub_model, tokens, len, self.policy.attention);
        let shared = self.policy.attention.saved(len - tokens);
        let split = group.filter(|group| self.is_better_whole(group, sub_model));
        if entry.is_cancelled() {
            self.cancel(ticket);
        } else if split.is_none() && self.fits(&load, (sub_model, self.shares.job(*job)), shared) {
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

    /// True if the class contains only this job.
    fn is_alone(&self, job: Ticket, class: &Class<'_>) -> bool {
        class.entries.last().is_some_and(|last| self.waiting[last].job == job)
    }

    /// Seats an entry of the class whose turn it is, or a rider, in the forming batch.
    fn seat(&mut self, Candidate { ticket, is_rider, .. }: Candidate, tokens: usize, load: Load) -> Option<Entry> {
        let Waiting { entry, job, .. } = self.remove(ticket)?;
        let forming = &mut self.forming;
        let leading = *forming.leading.get_or_insert(job);
        if is_rider {
            forming.saved -= tokens;
        } else if leading == job {
            forming.saved += entry.tokens.len() - tokens;
        }
        let estimate = self.costs.time(&load.work) - self.costs.time(&forming.load.work);
        let payer = if is_rider { leading } else { job };
        let seat = self.shares.seat(ticket, [job, payer], tokens, estimate);
        forming.add(seat, load, &self.shares);
        Some(entry)
    }

    fn add(&mut self, entry: Entry, job: Ticket) {
        let turn = Turn { rank: self.shares.job(job).rank, ticket: entry.ticket };
        let node = self.index.insert(turn, &entry.tokens, entry.wanted);
        self.tokens += entry.tokens.len();
        self.shares.add(entry.ticket, job);
        self.waiting.insert(entry.ticket, Waiting { entry, node, job });
    }

    /// Takes an entry out of the queue; its job goes on. `None` if it does not wait.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Waiting> {
        let turn = self.turn(ticket);
        let waiting = self.waiting.remove(&ticket)?;
        self.index.remove(turn, waiting.node);
        self.tokens -= waiting.entry.tokens.len();
        self.shares.remove(ticket, waiting.job);
        Some(waiting)
    }

    /// Removes an entry that nobody waits for any more, and its part of the job.
    pub(super) fn cancel(&mut self, ticket: Ticket) {
        if let Some(Waiting { job, .. }) = self.remove(ticket) {
            self.held.remove(ticket);
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
