//! Answers of the engine and their cost.

use crate::admission::quota::Share;
use crate::error::BackendError;
use crate::outputs::{Output, OutputKind, Values};
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

/// An answer and its cost.
#[derive(Debug, Clone)]
pub struct Response<T> {
    /// One result for each input, in their order.
    pub results: Vec<T>,
    /// Counts over the whole request.
    pub usage: Usage,
    /// Durations of the stages.
    pub timings: Timings,
    /// Share of [`Engine::buffered`](crate::Engine::buffered), held for the lifetime of the answer.
    pub share: Option<Arc<Share>>,
}

/// Counts over a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Characters of the inputs' texts.
    pub characters: usize,
    /// Tokens of all inputs after truncation.
    pub tokens: usize,
    /// Number of `tokens` when equal prefixes of the request's inputs count once (within each chunk of a large request); all of
    /// them if nothing is folded. It does not depend on other requests, although fewer may be computed if the batch
    /// shares a prefix with them.
    pub computed_tokens: usize,
    /// Inputs that were too long and were truncated.
    pub truncated_inputs: usize,
    /// Inputs whose token ids look like another tokenizer's.
    pub foreign_inputs: usize,
}

impl Usage {
    /// Tokens of prefixes shared with earlier inputs of the request.
    pub fn saved_tokens(&self) -> usize {
        self.tokens.saturating_sub(self.computed_tokens)
    }

    /// Ratio of `computed_tokens` to `tokens`; 1 if nothing was folded.
    pub fn compaction_ratio(&self) -> f64 {
        if self.tokens == 0 { 1.0 } else { self.computed_tokens as f64 / self.tokens as f64 }
    }
}

/// Durations of a request's stages: wall time for tokenization, the mean over its inputs for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// From arrival to the answer.
    pub total: Duration,
    /// Encoding all inputs.
    pub tokenization: Duration,
    /// Waiting in the queue, until the batch began to form, and again until the backend took it.
    pub queue: Duration,
    /// Choosing the inputs of the batch, forming it and its plan.
    pub planning: Duration,
    /// The forward pass.
    pub inference: Duration,
}

impl Timings {
    /// Fraction of the total time spent on tokenization, 0 to 1.
    pub fn tokenization_share(&self) -> f64 {
        if self.total.is_zero() { 0.0 } else { self.tokenization.as_secs_f64() / self.total.as_secs_f64() }
    }
}

/// Vectors of the tokens of one input, held row by row as the backend made them.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenVectors {
    data: Vec<f32>,
    dim: NonZero<usize>,
}

impl TokenVectors {
    /// Vectors of `dim` values.
    pub(crate) fn new(data: Vec<f32>, dim: NonZero<usize>) -> Self {
        Self { data, dim }
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.data.chunks_exact_mut(self.dim.get())
    }

    /// The values of all vectors, row by row.
    pub fn into_values(self) -> Vec<f32> {
        self.data
    }

    /// Number of values of all vectors.
    pub fn len(&self) -> usize {
        self.data.len()
    }

    /// True without a token.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Values of a vector.
    pub fn dim(&self) -> usize {
        self.dim.get()
    }

    /// The vectors one by one.
    pub fn into_rows(self) -> impl Iterator<Item = Vec<f32>> + Send + 'static {
        let Self { data, dim } = self;
        (0..data.len() / dim).map(move |row| data[row * dim.get()..][..dim.get()].to_vec())
    }
}

/// The tokens of one text with the logits of their labels.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogits {
    pub(crate) text: String,
    /// Tokens that are pieces of the text, without the special tokens around it.
    pub(crate) tokens: Vec<TextToken>,
    /// Row of each token in `logits`.
    rows: Vec<u32>,
    /// Logits of all tokens of the sequence, in the backend's layout: `[sequence, labels]`.
    pub(crate) logits: Vec<f32>,
    labels: usize,
}

impl TokenLogits {
    /// Logits of a text's tokens, the rows of a sequence that are `kept`.
    pub(crate) fn new(
        text: String,
        tokens: Vec<TextToken>,
        kept: &[bool],
        labels: usize,
        mut output: Output,
    ) -> Result<Self, BackendError> {
        match output.take(OutputKind::Tokens) {
            Some(Values { data, dim }) if dim == labels && data.len() == kept.len() * dim => {
                let rows = (0..).zip(kept).filter_map(|(row, &kept)| kept.then_some(row)).collect();
                Ok(Self { text, tokens, rows, logits: data, labels })
            }
            _ => Err(BackendError::Contract(format!("{labels} logits for each token were expected"))),
        }
    }

    /// Logits of a token.
    pub(crate) fn row(&self, token: usize) -> &[f32] {
        let begin = self.rows.get(token).map(|&row| row as usize * self.labels);
        begin.and_then(|begin| self.logits.get(begin..begin + self.labels)).unwrap_or(&[])
    }
}

/// A token that is a piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextToken {
    /// Its id.
    pub id: u32,
    /// The tokenizer's string, or the piece of the text for the unknown token.
    pub token: String,
    /// First character of the piece.
    pub start: usize,
    /// One past the piece's last character.
    pub end: usize,
    /// True if the token continues the word of the token before it.
    pub continues: bool,
}

/// A document's score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RerankScore {
    /// The logit of a score head, or a reranker's logit of yes minus no; the cosine for an embedding model.
    pub raw: f32,
    /// The same as a probability; the cosine for an embedding model.
    pub score: f32,
}

/// One token as `/tokenize` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// Its id.
    pub id: u32,
    /// Its string in the vocabulary, such as `Ġflock`.
    pub token: String,
    /// The tokenizer's string for a special token, the piece of the text otherwise.
    pub text: String,
    /// True for a special token, or one that the post-processor added.
    pub special: bool,
    /// First character of the piece in the text (its prompt included); absent for special tokens.
    pub start: Option<usize>,
    /// One past the piece's last character; absent for special tokens.
    pub stop: Option<usize>,
}
