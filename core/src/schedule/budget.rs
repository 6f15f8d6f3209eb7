//! Limits of a batch, and the policy that fills it.

use super::work::{Work, WorkBySubModel};
use crate::backend::Folding;
use crate::config::Scheduling;

/// Limits on the size of a batch. A single entry always fits, since every accepted entry must be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Rows to compute: N', or N without compaction.
    pub(crate) max_tokens: usize,
    /// N.
    pub(crate) max_ragged_tokens: usize,
    pub(crate) max_sequences: usize,
}

impl Budget {
    /// True if a batch may have this load.
    pub(crate) fn fits(self, load: &Load) -> bool {
        let Self { max_tokens, max_ragged_tokens, max_sequences } = self;
        let within = load.tokens <= max_tokens && load.ragged_tokens <= max_ragged_tokens;
        load.sequences <= 1 || (within && load.sequences <= max_sequences)
    }

    /// Rows that still fit with a load.
    pub(crate) fn room(self, load: &Load) -> usize {
        self.max_tokens.saturating_sub(load.tokens)
    }
}

/// Contents of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub(crate) tokens: usize,
    pub(crate) ragged_tokens: usize,
    pub(crate) sequences: usize,
    pub(crate) work: WorkBySubModel,
}

impl Load {
    /// Load with one more sequence of `len` tokens for a sub-model, `new_tokens` of which the batch does not have yet.
    pub(crate) fn with(&self, sub_model: usize, new_tokens: usize, len: usize, attention: AttentionRows) -> Self {
        let queries = match attention {
            AttentionRows::Compact => new_tokens,
            AttentionRows::Ragged => len,
        };
        // The last `queries` tokens of the sequence, each with all before it.
        let pairs = (len as u64 * (len as u64 + 1) - (len - queries) as u64 * (len - queries + 1) as u64) / 2;
        let mut work = self.work.clone();
        work.add(sub_model, Work { rows: new_tokens, pairs });
        Self {
            tokens: self.tokens + new_tokens,
            ragged_tokens: self.ragged_tokens + len,
            sequences: self.sequences + 1,
            work,
        }
    }
}

/// Rows that attention runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttentionRows {
    /// Each distinct prefix once.
    Compact,
    /// All of each sequence.
    Ragged,
}

impl AttentionRows {
    /// Work saved by a sequence that shares its first `tokens` with others of its batch.
    pub(crate) fn saved(self, tokens: usize) -> Work {
        let pairs = match self {
            Self::Compact => tokens as u64 * (tokens as u64 + 1) / 2,
            Self::Ragged => 0,
        };
        Work { rows: tokens, pairs }
    }
}

/// Policy of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) budget: Budget,
    pub(crate) scheduling: Scheduling,
    /// Tokens that count once; `None` if each entry counts in full.
    pub(crate) folding: Option<Folding>,
    pub(crate) attention: AttentionRows,
    /// Size of a request in tokens below which its size makes no difference to its turn.
    pub(crate) quantum: usize,
}
