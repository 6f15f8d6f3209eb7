//! Clock of equal sharing: when each job would end if all were computed at once, each with its share.
//!
//! The clock counts the service of a job of the usual weight under generalised processor sharing (Parekh and Gallager,
//! 1993). It knows the jobs that would be unfinished then, whether or not the real queue has finished them. Serving jobs
//! in the order of their ends on this clock finishes each no later than sharing would (the fair sojourn protocol,
//! Friedman and Henderson, 2003).

use super::entry::Ticket;
use super::work_counter::count_work;
use crate::flow::Weight;
use std::collections::BTreeMap;

/// Time on the clock, in parts of a token.
pub(crate) type VirtualTime = u64;

/// Virtual time of a token at [`Weight`] 1.
const UNIT: u64 = 1 << 18;

impl Weight {
    /// Time on the clock until `tokens` are served.
    pub(crate) fn length(self, tokens: usize) -> VirtualTime {
        (tokens as u64).saturating_mul(UNIT / u64::from(self.0.max(1)))
    }
}

/// The clock, and the jobs that would be unfinished under equal sharing.
#[derive(Debug, Default)]
pub(crate) struct FairClock {
    now: VirtualTime,
    unfinished: BTreeMap<(VirtualTime, Ticket), Weight>,
    /// Sum over the unfinished jobs.
    weights: u64,
}

impl FairClock {
    pub(crate) fn now(&self) -> VirtualTime {
        self.now
    }

    /// Adds a job, known by the ticket of its first entry.
    pub(crate) fn start(&mut self, job: Ticket, end: VirtualTime, weight: Weight) {
        if end > self.now {
            self.unfinished.insert((end, job), weight);
            self.weights += u64::from(weight.0);
        }
    }

    /// A job turned out to be another in size.
    pub(crate) fn set_end(&mut self, job: Ticket, old: VirtualTime, new: VirtualTime) {
        if let Some(weight) = self.remove((old, job)) {
            self.start(job, new, weight);
        }
    }

    /// `tokens` were computed: all unfinished jobs advance, each by its share.
    pub(crate) fn advance(&mut self, tokens: usize) {
        let mut service = tokens as u128 * u128::from(UNIT);
        while let Some((&(end, job), _)) = self.unfinished.first_key_value() {
            count_work();
            let until_end = u128::from(end - self.now) * u128::from(self.weights);
            if until_end > service {
                self.now += (service / u128::from(self.weights)) as u64;
                return;
            }
            service -= until_end;
            self.now = end;
            self.remove((end, job));
        }
    }

    fn remove(&mut self, key: (VirtualTime, Ticket)) -> Option<Weight> {
        let weight = self.unfinished.remove(&key)?;
        self.weights -= u64::from(weight.0);
        Some(weight)
    }
}

#[cfg(test)]
#[path = "tests/fair_clock.rs"]
mod tests;
