//! Limits of a batch, and the policy that fills it.

use super::cost_model::{TimeBound, Work};
use crate::{Folding, Scheduling};

/// Limits of a batch. Whatever they are, a batch holds one entry: what was accepted is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Budget {
    /// Rows to compute: N', or N where nothing is compacted.
    pub(crate) max_tokens: usize,
    /// N.
    pub(crate) max_ragged_tokens: usize,
    pub(crate) max_sequences: usize,
    /// Estimated time of the forward pass.
    pub(crate) time: Option<TimeBound>,
}

impl Budget {
    /// True if a batch may have this load, of which its last sequence shares `shared` with the others.
    pub(crate) fn fits(&self, load: Load, shared: Work) -> bool {
        let Self { max_tokens, max_ragged_tokens, max_sequences, time } = *self;
        let within = load.tokens <= max_tokens && load.ragged_tokens <= max_ragged_tokens;
        let in_time = time.is_none_or(|bound| bound.allows(load.work(), shared));
        load.sequences <= 1 || (within && in_time && load.sequences <= max_sequences)
    }

    /// Rows that fit beside a load, by the bounds on rows and on time, together with `shared`, which it has already.
    pub(crate) fn room(&self, load: Load, shared: Work) -> usize {
        let in_time = self.time.map_or(usize::MAX, |bound| bound.room(load.work(), shared));
        self.max_tokens.saturating_sub(load.tokens).min(in_time)
    }
}

/// Contents of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    pub(crate) tokens: usize,
    pub(crate) ragged_tokens: usize,
    pub(crate) sequences: usize,
    /// Pairs of a query and a key, in a layer of full attention.
    pub(crate) pairs: u64,
}

impl Load {
    /// With one more sequence of `len` tokens, `new_tokens` of which the batch does not have yet.
    pub(crate) fn with(self, new_tokens: usize, len: usize, attention: AttentionRows) -> Self {
        let queries = match attention {
            AttentionRows::Compact => new_tokens,
            AttentionRows::Ragged => len,
        };
        // The last `queries` tokens of the sequence, each with all before it.
        let pairs = (len as u64 * (len as u64 + 1) - (len - queries) as u64 * (len - queries + 1) as u64) / 2;
        Self {
            tokens: self.tokens + new_tokens,
            ragged_tokens: self.ragged_tokens + len,
            sequences: self.sequences + 1,
            pairs: self.pairs + pairs,
        }
    }

    fn work(self) -> Work {
        Work { rows: self.tokens, pairs: self.pairs }
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
    /// Work that a sequence leaves out which shares its first `tokens` with others of its batch.
    pub(crate) fn saved(self, tokens: usize) -> Work {
        let pairs = match self {
            Self::Compact => tokens as u64 * (tokens as u64 + 1) / 2,
            Self::Ragged => 0,
        };
        Work { rows: tokens, pairs }
    }
}

/// Policy of the queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Policy {
    pub(crate) budget: Budget,
    pub(crate) scheduling: Scheduling,
    /// Tokens that count once; `None` where each entry counts in full.
    pub(crate) folding: Option<Folding>,
    pub(crate) attention: AttentionRows,
    /// Tokens of a request below which its size makes no difference to its turn.
    pub(crate) quantum: usize,
}
