//! A batch of sequences of different lengths without padding.

use super::tokens::{TaskId, TokenRows, TokenSlice};
use thiserror::Error;

/// B sequences one after another: N tokens, and where each sequence begins.
///
/// `cu_seqlens[b]..cu_seqlens[b + 1]` are the rows of sequence `b`. No sequence is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RaggedBatch {
    rows: TokenRows,
    cu_seqlens: Vec<u32>,
    /// `[num_sequences]`
    tasks: Vec<TaskId>,
}

/// Fault of a sequence that cannot join a batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RaggedBatchError {
    /// A sequence needs at least one token.
    #[error("a sequence has no tokens")]
    EmptySequence,
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
        Self { rows: TokenRows::with_capacity(tokens), cu_seqlens, tasks: Vec::with_capacity(sequences) }
    }

    /// A batch of whole sequences, each of type 0 at positions 0, 1, 2, ...
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

    /// Appends a sequence.
    ///
    /// # Errors
    /// [`RaggedBatchError::EmptySequence`], [`RaggedBatchError::TooManyTokens`]; the batch stays as it was.
    pub fn push<'a>(&mut self, sequence: impl Into<TokenSlice<'a>>) -> Result<(), RaggedBatchError> {
        let sequence = sequence.into();
        let end = self.end_after(sequence.len())?;
        self.rows.extend(sequence);
        self.cu_seqlens.push(end);
        self.tasks.push(sequence.task());
        Ok(())
    }

    fn end_after(&self, additional: usize) -> Result<u32, RaggedBatchError> {
        if additional == 0 {
            return Err(RaggedBatchError::EmptySequence);
        }
        u32::try_from(self.rows.len() + additional).map_err(|_| RaggedBatchError::TooManyTokens)
    }

    /// Forgets all sequences and keeps the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.cu_seqlens.truncate(1);
        self.tasks.clear();
    }

    /// `[total_tokens]`
    pub fn input_ids(&self) -> &[u32] {
        self.rows.input_ids()
    }

    /// `[total_tokens]`; `None` where all are 0.
    pub fn token_type_ids(&self) -> Option<&[u32]> {
        self.rows.token_type_ids()
    }

    /// `[total_tokens]`
    pub fn position_ids(&self) -> &[u32] {
        self.rows.position_ids()
    }

    /// `[num_sequences + 1]`, from 0 to `total_tokens`.
    pub fn cu_seqlens(&self) -> &[u32] {
        &self.cu_seqlens
    }

    /// The task of each sequence, `[num_sequences]`.
    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    pub(crate) fn token_rows(&self) -> &TokenRows {
        &self.rows
    }

    /// B.
    pub fn num_sequences(&self) -> usize {
        self.cu_seqlens.len() - 1
    }

    /// N.
    pub fn total_tokens(&self) -> usize {
        self.rows.len()
    }

    /// Query-key pairs in one causal attention over all sequences, each on its own.
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

    /// The tokens of sequence `b`.
    ///
    /// # Panics
    /// If `b` is not below [`num_sequences`](Self::num_sequences).
    pub fn sequence(&self, b: usize) -> TokenSlice<'_> {
        self.rows.as_slice().range(self.rows(b)).with_task(self.tasks[b])
    }
}

/// Query-key pairs of `len` queries with the keys up to their own, the first query at position `depth`.
pub(crate) fn causal_pairs(depth: u64, len: u64) -> u64 {
    len * depth + len * (len + 1) / 2
}
