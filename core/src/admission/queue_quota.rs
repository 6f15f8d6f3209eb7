//! Quotas of tokens and inputs that wait for a batch, which bound the memory of an engine's queue.
//!
//! A request enters while the queue is below both limits, or its account is below its fair parts of them. A large request is accepted
//! with its first chunk; later chunks wait in turn, and no new request of its account enters before them.

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

/// Tokens and inputs that wait or are about to wait.
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
    /// [`Error::Overloaded`] with the limit that is reached.
    pub(crate) fn grow(&self, tokens: usize, inputs: usize) -> Result<(), Error> {
        self.tokens.grow(tokens)?;
        self.inputs.grow(inputs)
    }

    /// As [`grow`](Self::grow), but waits in turn instead of failing.
    pub(crate) async fn grow_in_turn(&self, tokens: usize, inputs: usize) {
        self.tokens.grow_in_turn(tokens).await;
        self.inputs.grow_in_turn(inputs).await;
    }

    /// Takes more without regard to the limits.
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

    /// Releases tokens and inputs that no longer wait.
    pub(crate) fn shrink_to(&self, tokens: usize, inputs: usize) {
        self.tokens.shrink_to(tokens);
        self.inputs.shrink_to(inputs);
    }
}
