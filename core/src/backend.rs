//! The contract between the engine and whatever runs the model.

use crate::{BackendError, RadixPlan, RaggedBatch};
use serde::Serialize;

/// One forward pass at a time, on a thread of its own.
///
/// Implementations must answer every sequence of the batch and keep the order: `outputs[i]` belongs
/// to sequence `i`. A result must not depend on whether [`Batch::plan`] is present.
pub trait Backend: Send {
    /// What was loaded.
    fn info(&self) -> &ModelInfo;

    /// Checks that the largest batch fits the device's memory beside what is loaded. What has no bound of its own, as a
    /// CPU, takes any.
    ///
    /// # Errors
    /// It does not fit; says what would.
    fn check_limits(&self, limits: BatchLimits) -> Result<(), TooLarge> {
        let _ = limits;
        Ok(())
    }

    /// Runs the model over a batch.
    ///
    /// # Errors
    /// Fails as a whole; no partial results.
    fn forward(&mut self, batch: &Batch) -> Result<Vec<Output>, BackendError>;
}

/// How large batches may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Rows that are computed.
    pub max_tokens: usize,
    /// Tokens of all sequences, repeated ones counted each time.
    pub max_ragged_tokens: usize,
}

/// A batch that does not fit the device's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLarge {
    /// The most rows that would fit, with ragged tokens in the same ratio to them; 0 when none do.
    pub largest_max_tokens: usize,
    /// What the largest batch needs.
    pub needed_bytes: usize,
    /// What there is.
    pub free_bytes: usize,
}

/// Everything a forward pass needs to know, prepared on the CPU by the planner.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The sequences, one after another.
    pub ragged: RaggedBatch,
    /// The compaction of `ragged`, or `None` to compute every row.
    pub plan: Option<RadixPlan>,
    /// What each sequence wants back; as long as there are sequences.
    pub wanted: Vec<Wanted>,
}

impl Batch {
    /// For each sequence, in order, the tokens that no sequence before it has: their sum is N'. All its tokens where
    /// the batch is not compacted.
    pub fn computed_tokens(&self) -> Vec<usize> {
        let ends = self.ragged.cu_seqlens().iter().skip(1).map(|&end| end as usize);
        // Nodes are numbered by first occurrence, so the rows that they were first seen in ascend.
        let first_rows = self.plan.as_ref().map(|plan| &plan.gather()[..plan.unique_tokens()]);
        let nodes_before = |end| first_rows.map_or(end, |rows| rows.partition_point(|&row| (row as usize) < end));
        ends.scan(0, |begun, end| Some(nodes_before(end) - std::mem::replace(begun, nodes_before(end)))).collect()
    }
}

/// What a sequence wants back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// The head's answer: one pooled vector, or the logits of a score head.
    Pooled,
    /// The final hidden state of every token.
    Tokens,
}

/// The answer for one sequence. Nothing is normalised or activated yet.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// `[dim]`, pooled, after the model's dense layers if it has any.
    Embedding(Vec<f32>),
    /// `[tokens, dim]` row by row.
    Tokens {
        /// The rows, flat.
        data: Vec<f32>,
        /// Values in a row.
        dim: usize,
    },
    /// `[num_labels]` for a classifier, `[no, yes]` for a yes/no reranker.
    Logits(Vec<f32>),
}

/// What the engine and the endpoints need to know of a loaded model.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// The family's name as `config.json` has it, for example `qwen3`.
    pub model_type: String,
    /// What the model answers.
    pub kind: ModelKind,
    /// Token ids must be below this.
    pub vocab_size: usize,
    /// The longest sequence in tokens.
    pub max_input_length: usize,
    /// Width of a token's final state.
    pub token_dim: usize,
    /// `float32`, `bfloat16` or `float16`.
    pub dtype: &'static str,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// How attention runs over a compacted batch: `ragged` or `compact`.
    pub attention: &'static str,
}

/// What a model answers.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelKind {
    /// Text embeddings.
    Embedding {
        /// Width of a vector.
        dim: usize,
        /// How token states become one vector.
        pooling: Pooling,
    },
    /// A causal language model asked for yes or no.
    Reranker,
    /// A sequence classifier; with a single label it reranks too.
    Classifier {
        /// Names by index.
        labels: Vec<String>,
    },
}

/// How token states become one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The last token's state.
    LastToken,
    /// The mean over all tokens.
    Mean,
    /// The first token's state.
    Cls,
}
