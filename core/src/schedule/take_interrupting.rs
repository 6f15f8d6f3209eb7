//! Choice of the waiting entries for batches that interrupt others.
//!
//! A request may interrupt the running batches while no backend is free, if
//!
//! 1. it is shorter: each of these batches takes at least as long as an urgent batch may, and has a request that is several times as large.
//!    Instead, the virtual time of another account in the batch may be ahead by at least the size of the request; for a request that
//!    is not urgent, the batch must then take at least [`MAX_TURN`];
//! 2. its turn comes before that request's in the fair order;
//! 3. its account's debt is below the limit ([`Debts`]).
//!
//! A request that fails only the third condition waits until the interrupted batches have computed for long enough. It does not join the
//! batch that forms meanwhile, because it would have to wait for all of it.

use super::budget::Budget;
use super::entry::{Entry, Ticket};
use super::forming::Running;
use super::interrupting::{MAX_TURN, MAX_URGENT_TIME};
use super::level::Level;
use super::queue::Queue;
use super::work_counter::count_work;
use crate::backend::{BatchLimits, Folding};
use crate::flow::Account;
use std::collections::BTreeSet;
use std::time::Duration;

impl Queue {
    /// Removes the entries that begin an interrupting batch of a level or join the forming one. Cancelled entries are dropped.
    pub(crate) fn take_interrupting(&mut self, level: Level) -> Vec<Entry> {
        let mut taken: Vec<Entry> = Vec::new();
        while let Some(ticket) = self.next_interrupting(level) {
            count_work();
            if self.waiting[&ticket].entry.is_cancelled() {
                self.cancel(ticket);
                continue;
            }
            match self.seat_interrupting(ticket, level, taken.last()) {
                Some(entry) => taken.push(entry),
                None => break,
            }
        }
        taken
    }

    /// Time that the running batches must compute before a waiting request may interrupt one; `None` if no request waits for that.
    pub(crate) fn blocked_for(&self) -> Option<Duration> {
        let entries = Level::INTERRUPTING.into_iter().flat_map(|level| self.interrupting_entries(level));
        entries.map(|(_, wait)| wait).filter(|wait| !wait.is_zero()).min()
    }

    /// Adds compute time of an interruptible batch, which pays back debts.
    pub(crate) fn repay(&mut self, time: Duration) {
        self.interrupting.iter_mut().for_each(|interrupting| interrupting.debts.repay(time));
    }

    /// Accounts and lanes whose next request may interrupt the running batches, now or once its account's debt is paid back.
    pub(super) fn reserved(&self) -> BTreeSet<(Account, u8)> {
        if !self.is_interruptible() {
            return BTreeSet::new();
        }
        let classes = self.shares.classes();
        let is_reserved = |ticket: &Ticket| {
            let job = self.waiting[ticket].job;
            self.level_of(job).is_some_and(|level| self.interrupts(job, level))
        };
        let reserved = classes.filter(|class| class.entries.first().is_some_and(is_reserved));
        reserved.map(|class| (class.account, class.rank.lane)).collect()
    }

    /// True while every backend runs a batch.
    fn is_interruptible(&self) -> bool {
        let replicas = self.interrupting.as_ref().map(|interrupting| interrupting.policy.replicas);
        replicas.is_some_and(|replicas| self.running.values().filter(|batch| !batch.interrupts).count() >= replicas)
    }

    /// The first entry in the fair order that may now interrupt the running batches in a batch of this level.
    fn next_interrupting(&self, level: Level) -> Option<Ticket> {
        self.interrupting_entries(level).find_map(|(ticket, wait)| wait.is_zero().then_some(ticket))
    }

    /// The first entries of the classes, in the fair order, that may interrupt the running batches in a batch of this level, each with the
    /// time that its account has to wait.
    fn interrupting_entries(&self, level: Level) -> impl Iterator<Item = (Ticket, Duration)> {
        let interrupting = self.interrupting.as_ref().filter(|_| self.is_interruptible());
        interrupting.into_iter().flat_map(move |interrupting| {
            self.shares.classes().filter_map(move |class| {
                count_work();
                let ticket = *class.entries.first()?;
                let job = self.waiting[&ticket].job;
                let may = self.level_of(job) == Some(level) && self.interrupts(job, level);
                may.then(|| (ticket, interrupting.debts.wait(class.account)))
            })
        })
    }

    /// Level at which a job interrupts others; `None` if it has an entry that is too long.
    fn level_of(&self, job: Ticket) -> Option<Level> {
        let interrupting = self.interrupting.as_ref()?;
        let size = &self.shares.job(job).size;
        let is_short = self.costs.time(&size.work) <= MAX_URGENT_TIME.as_nanos() as f64;
        if is_short && size.tokens <= interrupting.policy.urgent.max_tokens {
            return Some(Level::Urgent);
        }
        (size.longest <= interrupting.policy.due.max_tokens).then_some(Level::Due)
    }

    /// True if a job may interrupt every running batch of a lower level and there is at least one.
    fn interrupts(&self, job: Ticket, level: Level) -> bool {
        let mut lower = self.running.values().filter(|batch| batch.level < level).peekable();
        let takes = |batch: &Running, time: Duration| batch.estimate >= time.as_nanos() as f64;
        let turn = if level == Level::Urgent { MAX_URGENT_TIME } else { MAX_TURN };
        let may = |batch: &Running| {
            takes(batch, MAX_URGENT_TIME) && self.shares.interrupts(job, &batch.members, takes(batch, turn))
        };
        lower.peek().is_some() && lower.all(may)
    }

    /// Seats an entry after `last` in the forming batch of a level; `None` if it does not fit.
    fn seat_interrupting(&mut self, ticket: Ticket, level: Level, last: Option<&Entry>) -> Option<Entry> {
        let entry = &self.waiting[&ticket].entry;
        let (len, sub_model) = (entry.tokens.len(), self.sub_model(entry.tokens.task()));
        // Only the prefix shared with the last entry counts: the texts of a request follow each other.
        let shared = match (self.policy.folding, last) {
            (Some(Folding::Prefix), Some(last)) => entry.tokens.as_slice().common_prefix_len(&last.tokens.as_slice()),
            (Some(Folding::Whole), Some(last)) if last.tokens == entry.tokens && last.wanted == entry.wanted => len,
            _ => 0,
        };
        let attention = self.policy.attention;
        let interrupting = self.interrupting.as_mut()?;
        let BatchLimits { max_tokens, max_ragged_tokens } = interrupting.limits(level);
        let budget = Budget { max_tokens, max_ragged_tokens, ..self.policy.budget };
        let load = interrupting.forming(level)?.load.with(sub_model, len - shared, len, attention);
        let time = self.costs.time(&load.work);
        let is_in_time = match level {
            Level::Urgent => time <= MAX_URGENT_TIME.as_nanos() as f64,
            _ => self.costs.allows(&load.work, sub_model, attention.saved(shared)),
        };
        if !budget.fits(&load) || !(load.sequences <= 1 || is_in_time) {
            return None;
        }
        let estimate = time - self.costs.time(&interrupting.forming(level)?.load.work);
        let waiting = self.remove(ticket)?;
        let seat = self.shares.seat(ticket, [waiting.job; 2], len - shared, estimate);
        self.interrupting.as_mut()?.forming(level)?.add(seat, load, &self.shares);
        Some(waiting.entry)
    }
}

#[cfg(test)]
#[path = "tests/take_interrupting.rs"]
mod tests;
