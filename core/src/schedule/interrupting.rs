//! State of interrupting batches; `take_interrupting.rs` chooses their entries.

use super::debts::Debts;
use super::forming::Forming;
use super::level::Level;
use crate::backend::BatchLimits;
use std::time::Duration;

/// Maximum estimated time of an urgent batch.
pub(super) const MAX_URGENT_TIME: Duration = Duration::from_millis(50);

/// Minimum time of a batch that an account with less virtual time may interrupt even with a request that is not urgent. Without this, an
/// account with few requests in flight would often lose its turn, since it sends its next request after the next batch has begun.
pub(super) const MAX_TURN: Duration = Duration::from_millis(100);

/// Maximum time of a batch of several accounts. In a longer one, an account with few requests in flight would wait for all others.
pub(super) const MAX_SHARED_TIME: Duration = Duration::from_millis(250);

/// Maximum debt of an account.
const MAX_DEBT: Duration = Duration::from_secs(1);

/// Limits of interrupting batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InterruptPolicy {
    /// Backends that each run a batch of level [`Bulk`](Level::Bulk).
    pub(crate) replicas: usize,
    pub(crate) due: BatchLimits,
    pub(crate) urgent: BatchLimits,
}

/// State of interrupting batches.
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

    /// Tokens and number of the entries in the forming batches.
    pub(super) fn held(&self) -> [usize; 2] {
        let loads = [&self.due.load, &self.urgent.load];
        [loads.map(|load| load.ragged_tokens).iter().sum(), loads.map(|load| load.sequences).iter().sum()]
    }

    pub(super) fn limits(&self, level: Level) -> BatchLimits {
        if level == Level::Urgent { self.policy.urgent } else { self.policy.due }
    }
}
