//! Limits of a batch, and the policy that fills it.

use crate::{Folding, Scheduling};

/// Limits of a batch. Whatever they are, a batch holds one entry: what was accepted is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Rows to compute: N', or N where nothing is compacted.
    pub(crate) max_tokens: usize,
    /// N.
    pub(crate) max_ragged_tokens: usize,
    pub(crate) max_sequences: usize,
}

impl Budget {
    pub(crate) fn fits(&self, load: Load) -> bool {
        let Self { max_tokens, max_ragged_tokens, max_sequences } = *self;
        let within = load.tokens <= max_tokens && load.ragged_tokens <= max_ragged_tokens;
        load.sequences <= 1 || (within && load.sequences <= max_sequences)
    }
}

/// Contents of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub(crate) tokens: usize,
    pub(crate) ragged_tokens: usize,
    pub(crate) sequences: usize,
}

impl Load {
    /// With one more sequence of `len` tokens, `new_tokens` of which the batch does not have yet.
    pub(crate) fn with(self, new_tokens: usize, len: usize) -> Self {
        Self {
            tokens: self.tokens + new_tokens,
            ragged_tokens: self.ragged_tokens + len,
            sequences: self.sequences + 1,
        }
    }
}

/// Policy of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) budget: Budget,
    pub(crate) scheduling: Scheduling,
    /// Tokens that count once; `None` where each entry counts in full.
    pub(crate) folding: Option<Folding>,
}
