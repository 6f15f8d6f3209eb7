//! A batch of sequences of different lengths without padding.

use crate::radix::causal_pairs;
use thiserror::Error;

/// B sequences one after another: N tokens, and where each sequence begins.
///
/// `cu_seqlens[b]..cu_seqlens[b + 1]` are the rows of sequence `b`. No sequence is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaggedBatch {
    input_ids: Vec<u32>,
    position_ids: Vec<u32>,
    cu_seqlens: Vec<u32>,
}

/// Why a sequence cannot join a batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RaggedBatchError {
    /// A sequence needs at least one token.
    #[error("a sequence has no tokens")]
    EmptySequence,
    /// Each token needs a position.
    #[error("{input_ids} token ids but {position_ids} positions")]
    Positions {
        /// Token ids given.
        input_ids: usize,
        /// Positions given.
        position_ids: usize,
    },
    /// Row indices are 32 bits wide.
    #[error("a batch holds at most {} tokens", u32::MAX)]
    TooManyTokens,
}

impl Default for RaggedBatch {
    fn default() -> Self {
        Self::with_capacity(0, 0)
    }
}

impl RaggedBatch {
    /// An empty batch with room for `tokens` tokens in `sequences` sequences.
    pub fn with_capacity(tokens: usize, sequences: usize) -> Self {
        let mut cu_seqlens = Vec::with_capacity(sequences + 1);
        cu_seqlens.push(0);
        Self { input_ids: Vec::with_capacity(tokens), position_ids: Vec::with_capacity(tokens), cu_seqlens }
    }

    /// A batch of whole sequences, each at positions 0, 1, 2, ...
    ///
    /// # Errors
    /// See [`push`](Self::push).
    pub fn from_sequences<S: AsRef<[u32]>>(sequences: &[S]) -> Result<Self, RaggedBatchError> {
        let tokens = sequences.iter().map(|s| s.as_ref().len()).sum();
        let mut batch = Self::with_capacity(tokens, sequences.len());
        for sequence in sequences {
            batch.push(sequence.as_ref())?;
        }
        Ok(batch)
    }

    /// Appends a sequence at positions 0, 1, 2, ...
    ///
    /// # Errors
    /// [`RaggedBatchError::EmptySequence`], [`RaggedBatchError::TooManyTokens`]; the batch stays as it was.
    pub fn push(&mut self, input_ids: &[u32]) -> Result<(), RaggedBatchError> {
        let end = self.end_after(input_ids.len())?;
        self.input_ids.extend_from_slice(input_ids);
        self.position_ids.extend(0..end - self.cu_seqlens[self.cu_seqlens.len() - 1]);
        self.cu_seqlens.push(end);
        Ok(())
    }

    /// Appends a sequence at the given positions.
    ///
    /// # Errors
    /// As [`push`](Self::push), and [`RaggedBatchError::Positions`] if the lengths differ.
    pub fn push_with_positions(&mut self, input_ids: &[u32], position_ids: &[u32]) -> Result<(), RaggedBatchError> {
        if input_ids.len() != position_ids.len() {
            return Err(RaggedBatchError::Positions { input_ids: input_ids.len(), position_ids: position_ids.len() });
        }
        let end = self.end_after(input_ids.len())?;
        self.input_ids.extend_from_slice(input_ids);
        self.position_ids.extend_from_slice(position_ids);
        self.cu_seqlens.push(end);
        Ok(())
    }

    fn end_after(&self, additional: usize) -> Result<u32, RaggedBatchError> {
        if additional == 0 {
            return Err(RaggedBatchError::EmptySequence);
        }
        u32::try_from(self.input_ids.len() + additional).map_err(|_| RaggedBatchError::TooManyTokens)
    }

    /// Forgets all sequences and keeps the memory.
    pub fn clear(&mut self) {
        self.input_ids.clear();
        self.position_ids.clear();
        self.cu_seqlens.truncate(1);
    }

    /// `[total_tokens]`
    pub fn input_ids(&self) -> &[u32] {
        &self.input_ids
    }

    /// `[total_tokens]`
    pub fn position_ids(&self) -> &[u32] {
        &self.position_ids
    }

    /// `[num_sequences + 1]`, from 0 to `total_tokens`.
    pub fn cu_seqlens(&self) -> &[u32] {
        &self.cu_seqlens
    }

    /// B.
    pub fn num_sequences(&self) -> usize {
        self.cu_seqlens.len() - 1
    }

    /// N.
    pub fn total_tokens(&self) -> usize {
        self.input_ids.len()
    }

    /// Pairs of a query and a key in one causal attention over all sequences, each on its own.
    pub fn attention_work(&self) -> u64 {
        self.cu_seqlens.windows(2).map(|ends| causal_pairs(0, (ends[1] - ends[0]).into())).sum()
    }

    /// Rows of sequence `b`.
    ///
    /// # Panics
    /// If `b` is not below [`num_sequences`](Self::num_sequences).
    pub fn rows(&self, b: usize) -> std::ops::Range<usize> {
        self.cu_seqlens[b] as usize..self.cu_seqlens[b + 1] as usize
    }
}
