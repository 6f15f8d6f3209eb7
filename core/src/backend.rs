//! Contract between the engine and the backend that runs the model.

use crate::capabilities::Capabilities;
use crate::error::BackendError;
use crate::plan::radix::RadixPlan;
use crate::plan::ragged::{RaggedBatch, RaggedBatchError};
use crate::plan::tokens::{TaskId, TokenSlice};
use crate::yield_point::{Uninterrupted, YieldPoint};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Runner of a model: one forward pass at a time, on a thread of its own.
///
/// Implementations must answer every sequence of the batch and keep the order: `outputs[i]` belongs
/// to sequence `i`.
pub trait Backend: Send {
    /// The loaded model.
    fn info(&self) -> &ModelInfo;

    /// Device memory of the largest batch in bytes, weights excluded; 0 on a CPU, whose memory is not counted.
    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        let _ = limits;
        0
    }

    /// Checks that the largest batch fits the free memory of the device, of which further backends need `others` bytes. A CPU takes any.
    ///
    /// # Errors
    /// It does not fit; says what would.
    fn check_limits(&self, limits: BatchLimits, others: usize) -> Result<(), TooLarge> {
        let _ = (limits, others);
        Ok(())
    }

    /// Allocates and touches the memory of the largest batch, so that no request waits for it. Optional: batches that find
    /// none reserved allocate theirs.
    ///
    /// # Errors
    /// The device has no memory.
    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        let _ = limits;
        Ok(())
    }

    /// Runs the model over a batch and computes every row of it.
    ///
    /// # Errors
    /// Fails as a whole; no partial results. [`BackendError::Stopped`] where a yield point said so.
    fn forward(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError>;

    /// Time that each part of the model took in the last pass, in the order of [`ModelInfo::parts`], without what ran at yield points.
    /// Empty where the model has one part, which took all of it.
    fn part_times(&self) -> &[Duration] {
        &[]
    }
}

/// A [`Backend`] whose attention is causal: the hidden state of a token depends on the tokens up to it and on nothing
/// else, so sequences share the states of a common prefix.
pub trait PrefixBackend: Backend {
    /// Runs the model over the compact rows of a batch. Outputs are those of [`forward`](Backend::forward).
    ///
    /// # Errors
    /// Those of [`forward`](Backend::forward).
    fn forward_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError>;
}

/// Folding that a model's attention allows: the tokens that are computed once for several sequences of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folding {
    /// Common prefixes.
    Prefix,
    /// Sequences that are equal from end to end.
    Whole,
}

/// The backend of a loaded model. Its kind decides what is folded; only a [`PrefixBackend`] can be handed a plan.
pub enum ModelBackend {
    /// Attention is causal: [`Folding::Prefix`].
    Prefix(Box<dyn PrefixBackend>),
    /// Any other attention: [`Folding::Whole`]. The engine runs equal sequences once, so the backend does nothing for it.
    Whole(Box<dyn Backend>),
}

impl ModelBackend {
    /// Folding that the attention mask allows.
    pub fn folding(&self) -> Folding {
        match self {
            Self::Prefix(_) => Folding::Prefix,
            Self::Whole(_) => Folding::Whole,
        }
    }

    /// Runs the model over a batch, without interruption: over its compact rows where there is a plan and attention is causal, over
    /// every row otherwise. The outputs are the same.
    ///
    /// # Errors
    /// Fails as a whole; no partial results.
    pub fn forward(&mut self, batch: &Batch, plan: Option<&RadixPlan>) -> Result<Vec<Output>, BackendError> {
        self.forward_yielding(batch, plan, &mut Uninterrupted)
    }

    /// The same with yield points.
    ///
    /// # Errors
    /// Those of [`Backend::forward`].
    pub fn forward_yielding(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError> {
        match (self, plan) {
            (Self::Prefix(backend), Some(plan)) => backend.forward_compact(batch, plan, yields),
            (Self::Prefix(backend), None) => backend.forward(batch, yields),
            (Self::Whole(backend), _) => backend.forward(batch, yields),
        }
    }
}

impl Deref for ModelBackend {
    type Target = dyn Backend;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Prefix(backend) => backend.as_ref(),
            Self::Whole(backend) => backend.as_ref(),
        }
    }
}

impl DerefMut for ModelBackend {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Prefix(backend) => backend.as_mut(),
            Self::Whole(backend) => backend.as_mut(),
        }
    }
}

/// A backend of a model, and those that run at the yield points of its passes, on the same threads.
pub struct Replica {
    /// Runs batches.
    pub backend: ModelBackend,
    /// None where passes are not interrupted.
    pub interrupting: Option<Interrupting>,
}

/// Backends with buffers of their own for small batches, over the weights of one that they interrupt.
pub struct Interrupting {
    /// Interrupts batches of larger requests.
    pub due: ModelBackend,
    /// Interrupts both.
    pub urgent: ModelBackend,
}

impl Replica {
    /// The same with all backends replaced by what `wrap` makes of them.
    #[must_use]
    pub fn map(self, wrap: impl Fn(ModelBackend) -> ModelBackend) -> Self {
        let interrupting =
            self.interrupting.map(|Interrupting { due, urgent }| Interrupting { due: wrap(due), urgent: wrap(urgent) });
        Self { backend: wrap(self.backend), interrupting }
    }
}

impl From<ModelBackend> for Replica {
    fn from(backend: ModelBackend) -> Self {
        Self { backend, interrupting: None }
    }
}

/// Limits of a batch's size.
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
    /// Bytes that the largest batch needs.
    pub needed_bytes: usize,
    /// Bytes that are free.
    pub free_bytes: usize,
}

/// Sequences of a forward pass.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The sequences, one after another.
    pub ragged: RaggedBatch,
    /// Form of each sequence's answer, one for each.
    pub wanted: Vec<Wanted>,
}

impl Batch {
    pub(crate) fn push(&mut self, tokens: TokenSlice<'_>, wanted: Wanted) -> Result<(), RaggedBatchError> {
        self.ragged.push(tokens)?;
        self.wanted.push(wanted);
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        let Self { ragged, wanted } = self;
        ragged.clear();
        wanted.clear();
    }
}

/// Form of a sequence's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wanted {
    /// One pooled vector.
    Embedding,
    /// The logits of a score head.
    Logits,
    /// The final hidden state of every token; of a classifier of tokens, the logits of every token.
    Tokens,
}

impl Wanted {
    /// The output of a model's head.
    pub fn pooled(capabilities: &Capabilities) -> Self {
        match (&capabilities.embed, &capabilities.classify_tokens) {
            (Some(_), _) => Self::Embedding,
            (None, Some(_)) => Self::Tokens,
            (None, None) => Self::Logits,
        }
    }
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

/// What int8 does to each layer of products of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Report {
    /// Names of the layers that stay in bfloat16, because int8 would change their products by more than `max_error`, or by request. A layer
    /// of several matrices (query, key and value; gate and up) has the name of the first.
    pub kept_in_bfloat16: Vec<String>,
    /// Largest error of a layer in int8.
    pub max_error: f64,
    /// Names of the layers that were measured, and the change that int8 makes in their products, relative to them; the largest
    /// first. It is not finite where weights or inputs of the layer are not.
    pub errors: Vec<(String, f64)>,
}

/// Memory that an input takes on its way through the layers, beside the weights: linear in its length, whatever its attention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputMemory {
    /// Bytes for each token.
    pub token: u64,
    /// Bytes for each of the tokens that go through a product together, in addition.
    pub block_token: u64,
    /// Tokens that go through a product together at most.
    pub block_tokens: u64,
}

impl InputMemory {
    /// Bytes of an input.
    pub fn bytes(&self, tokens: usize) -> u64 {
        let tokens = tokens as u64;
        let block = tokens.min(self.block_tokens).saturating_mul(self.block_token);
        tokens.saturating_mul(self.token).saturating_add(block)
    }
}

/// Limits of the tokens that a part of a model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLimits {
    /// Token ids must be below this.
    pub vocab_size: usize,
    /// Types of tokens that it tells apart; fewer than two for a part without types.
    pub token_types: usize,
    /// The longest input in tokens.
    pub max_input_length: usize,
}

/// Index of the sub-model that takes a text, by the text's task.
#[derive(Debug, Clone, Default)]
pub struct SubModelMap(Arc<[usize]>);

impl SubModelMap {
    /// The sub-model that takes texts of a task; the first where the model does not have the task.
    pub fn part(&self, TaskId(number): TaskId) -> usize {
        self.0.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Sub-models up to the last that takes texts.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().max().map_or(1, |last| last + 1)
    }
}

/// Properties of a loaded model that the engine and the endpoints read.
///
/// Most models have one part. A Router whose texts go through different models by their task has several sub-models; the fields describe
/// the first, which takes the texts without a task.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// The family's name as `config.json` has it, for example `qwen3`.
    pub model_type: String,
    /// The answers that the model can give.
    pub capabilities: Arc<Capabilities>,
    /// Token ids must be below this.
    pub vocab_size: usize,
    /// Types of tokens that the model tells apart; fewer than two for models without types.
    pub token_types: usize,
    /// Type of the weights in products: `float32`, `bfloat16`, `float16` or `int8`.
    pub dtype: &'static str,
    /// Reason for that type.
    pub dtype_reason: String,
    /// Instructions of the kernels, for example `avx512-bf16`.
    pub kernels: String,
    /// Reason for them.
    pub kernels_reason: String,
    /// What int8 does to each layer; `None` for models in other types.
    pub int8: Option<Int8Report>,
    /// Memory of an input on its way through the layers.
    pub input_memory: InputMemory,
    /// Limits of the parts behind the first.
    pub further_parts: Vec<TokenLimits>,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// Attention over a compacted batch, `ragged` or `compact`; `full` without a causal mask.
    pub attention: &'static str,
}

impl ModelInfo {
    /// The limits of the first part.
    pub fn first_part(&self) -> TokenLimits {
        let max_input_length = self.capabilities.max_input_length;
        TokenLimits { vocab_size: self.vocab_size, token_types: self.token_types, max_input_length }
    }

    /// The limits of all parts.
    pub fn parts(&self) -> impl Iterator<Item = TokenLimits> {
        std::iter::once(self.first_part()).chain(self.further_parts.iter().copied())
    }

    /// The part that takes the texts of each task.
    pub fn part_map(&self) -> SubModelMap {
        let tasks = self.capabilities.embed.iter().flat_map(|embed| &embed.tasks);
        SubModelMap(std::iter::once(0).chain(tasks.map(|task| task.part)).collect())
    }

    /// The longest input that a part takes.
    pub fn longest_input(&self) -> usize {
        self.parts().map(|part| part.max_input_length).max().unwrap_or(0)
    }

    /// Limits the inputs of all parts to a number of tokens.
    pub(crate) fn limit_inputs(&mut self, tokens: usize) {
        let first = &mut Arc::make_mut(&mut self.capabilities).max_input_length;
        let further = self.further_parts.iter_mut().map(|part| &mut part.max_input_length);
        std::iter::once(first).chain(further).for_each(|limit| *limit = tokens.min(*limit));
    }
}
