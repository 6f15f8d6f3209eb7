//! Quotas of what waits for a batch, which bound the queue's memory.
//!
//! A request enters while the queue holds less than both limits, or its account less than its fair parts of them. A request that is
//! done in chunks is accepted with its first; the later ones wait in turn, and no new request of its account enters before them.

use super::quota::{Quota, Share};
use crate::error::{Error, Resource};
use crate::flow::Account;
use std::sync::Arc;

/// Limits of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    pub(crate) tokens: usize,
    pub(crate) inputs: usize,
}

/// Quotas of waiting tokens and inputs.
#[derive(Debug)]
pub(crate) struct QueueQuota {
    pub(crate) limits: QueueLimits,
    tokens: Arc<Quota>,
    inputs: Arc<Quota>,
}

/// Tokens and inputs that wait, or are about to.
#[derive(Debug)]
pub(crate) struct QueueShare {
    tokens: Share,
    inputs: Share,
}

impl QueueQuota {
    pub(crate) fn new(limits: QueueLimits) -> Self {
        let tokens = Quota::new(limits.tokens, Resource::QueuedTokens);
        let inputs = Quota::new(limits.inputs, Resource::QueuedInputs);
        Self { limits, tokens, inputs }
    }

    /// The quotas of inputs and of tokens.
    pub(crate) fn quotas(&self) -> [&Arc<Quota>; 2] {
        [&self.inputs, &self.tokens]
    }

    pub(crate) fn share_of(&self, account: Account) -> QueueShare {
        QueueShare { tokens: self.tokens.share_of(account), inputs: self.inputs.share_of(account) }
    }
}

impl QueueShare {
    /// # Errors
    /// [`Error::Overloaded`] names the limit that is reached.
    pub(crate) fn grow(&self, tokens: usize, inputs: usize) -> Result<(), Error> {
        self.tokens.grow(tokens)?;
        self.inputs.grow(inputs)
    }

    /// Waits its turn where [`grow`](Self::grow) would fail.
    pub(crate) async fn grow_in_turn(&self, tokens: usize, inputs: usize) {
        self.tokens.grow_in_turn(tokens).await;
        self.inputs.grow_in_turn(inputs).await;
    }

    /// Takes more however much waits.
    pub(crate) fn force(&self, tokens: usize, inputs: usize) {
        self.tokens.force(tokens);
        self.inputs.force(inputs);
    }

    /// Takes over what another share holds.
    pub(crate) fn absorb(&self, other: &Self) {
        self.tokens.absorb(&other.tokens);
        self.inputs.absorb(&other.inputs);
    }

    /// Tokens and inputs held.
    #[cfg(test)]
    pub(crate) fn held(&self) -> [usize; 2] {
        [self.tokens.held(), self.inputs.held()]
    }

    /// Gives back what no longer waits.
    pub(crate) fn shrink_to(&self, tokens: usize, inputs: usize) {
        self.tokens.shrink_to(tokens);
        self.inputs.shrink_to(inputs);
    }
}
