//! State of the batches that interrupt others; `take_interrupting.rs` says which entries go into them.

use super::debts::Debts;
use super::forming::Forming;
use super::level::Level;
use crate::backend::BatchLimits;
use std::time::Duration;

/// Estimated time of an urgent batch at most.
pub(super) const MAX_URGENT_TIME: Duration = Duration::from_millis(50);

/// Time of a batch from which on an account that is behind others need not wait for its end, even with a request that is not urgent. It would
/// lose its turn again and again: one with few requests in flight sends the next when the next batch has begun.
pub(super) const MAX_TURN: Duration = Duration::from_millis(100);

/// Time of a batch of several accounts at most: whoever has few requests in flight would wait for those of all others.
pub(super) const MAX_SHARED_TIME: Duration = Duration::from_millis(250);

/// Time at yield points that an account may borrow.
const MAX_DEBT: Duration = Duration::from_secs(1);

/// Limits of batches that interrupt others, and of how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterruptPolicy {
    /// Backends that each run a batch of level [`Bulk`](Level::Bulk).
    pub(crate) replicas: usize,
    pub(crate) due: BatchLimits,
    pub(crate) urgent: BatchLimits,
}

/// State of batches that interrupt others.
#[derive(Debug)]
pub(super) struct Interrupting {
    pub(super) policy: InterruptPolicy,
    due: Forming,
    urgent: Forming,
    pub(super) debts: Debts,
}

impl Interrupting {
    pub(super) fn new(policy: InterruptPolicy) -> Self {
        Self { policy, due: Forming::default(), urgent: Forming::default(), debts: Debts::new(MAX_DEBT) }
    }

    pub(super) fn forming(&mut self, level: Level) -> Option<&mut Forming> {
        match level {
            Level::Bulk => None,
            Level::Due => Some(&mut self.due),
            Level::Urgent => Some(&mut self.urgent),
        }
    }

    /// Tokens and number of the entries in the batches that form.
    pub(super) fn held(&self) -> [usize; 2] {
        let loads = [&self.due.load, &self.urgent.load];
        [loads.map(|load| load.ragged_tokens).iter().sum(), loads.map(|load| load.sequences).iter().sum()]
    }

    pub(super) fn limits(&self, level: Level) -> BatchLimits {
        if level == Level::Urgent { self.policy.urgent } else { self.policy.due }
    }
}
