//! Contract between the engine and the backend that runs the model.

use crate::capabilities::Capabilities;
use crate::config::EngineConfig;
use crate::error::BackendError;
use crate::non_empty::NonEmpty;
use crate::outputs::submitted::Submitted;
use crate::outputs::{Output, Outputs};
use crate::plan::radix::RadixPlan;
use crate::plan::ragged::{RaggedBatch, RaggedBatchError};
use crate::plan::tokens::{TaskId, TokenSlice};
use crate::yield_point::{Uninterrupted, YieldPoint};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

/// Backend that runs a model: one forward pass after the other, on a thread of its own.
///
/// Implementations must answer every sequence of the batch and keep the order: `outputs[i]` belongs
/// to sequence `i`. Passes of a backend run in the order in which they were submitted.
pub trait Backend: Send {
    /// The loaded model.
    fn info(&self) -> &ModelInfo;

    /// Bytes of memory that [`reserve`](Self::reserve) takes for the largest batch, without the weights.
    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        let _ = limits;
        0
    }

    /// Bytes that the device has left, on a CPU by the limits on the process; `None` if unlimited or unknown.
    fn free_bytes(&self) -> Option<usize> {
        None
    }

    /// Allocates and touches the memory of the largest batch, so that no request waits for it. Optional: a batch without
    /// reserved memory allocates its own.
    ///
    /// # Errors
    /// The device is out of memory.
    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        let _ = limits;
        Ok(())
    }

    /// Submits a pass over a batch, which computes every row. A backend on a CPU returns the outputs. One on a device returns as soon as the
    /// last operation is queued, so that the next pass can be submitted while this one runs.
    ///
    /// # Errors
    /// Fails as a whole; no partial results. [`BackendError::Stopped`] if a yield point stops the pass.
    fn submit(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Submitted, BackendError>;

    /// Submits a pass and awaits its outputs.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`Submitted::outputs`].
    fn forward(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError> {
        self.submit(batch, yields)?.outputs()
    }

    /// Time of each sub-model in the last pass, in the order of [`ModelInfo::sub_models`], without work at yield points. Empty for a model
    /// without sub-models.
    fn sub_model_times(&self) -> &[Duration] {
        &[]
    }
}

/// A [`Backend`] whose attention is causal: the hidden state of a token depends only on the tokens up to it, so sequences
/// share the states of a common prefix.
pub trait PrefixBackend: Backend {
    /// Submits a pass over the compact rows of a batch. The outputs are the same as with [`submit`](Backend::submit).
    ///
    /// # Errors
    /// As [`submit`](Backend::submit).
    fn submit_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError>;
}

/// Folding that a model's attention allows: tokens that are computed once for several sequences of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Folding {
    /// Common prefixes.
    Prefix,
    /// Sequences that are equal from end to end.
    Whole,
}

/// Backend of a loaded model. Its kind decides the folding; only a [`PrefixBackend`] takes a plan.
pub enum ModelBackend {
    /// Attention is causal: [`Folding::Prefix`].
    Prefix(Box<dyn PrefixBackend>),
    /// Any other attention: [`Folding::Whole`]. The engine runs equal sequences once, so the backend need not fold.
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

    /// Runs the model over a batch, without interruption: over its compact rows if there is a plan and attention is causal, over
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
    /// As [`Backend::forward`].
    pub fn forward_yielding(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError> {
        self.submit(batch, plan, yields)?.outputs()
    }

    /// Submits such a pass.
    ///
    /// # Errors
    /// As [`Backend::submit`].
    pub fn submit(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        match (self, plan) {
            (Self::Prefix(backend), Some(plan)) => backend.submit_compact(batch, plan, yields),
            (Self::Prefix(backend), None) => backend.submit(batch, yields),
            (Self::Whole(backend), _) => backend.submit(batch, yields),
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

/// Backend of a model, with the backends that run at the yield points of its passes, on the same threads.
pub struct Replica {
    /// Backend for ordinary batches.
    pub backend: ModelBackend,
    /// `None` if passes are not interrupted.
    pub interrupting: Option<Interrupting>,
}

/// Backends that interrupt another one. They share its weights and have their own buffers for small batches.
pub struct Interrupting {
    /// Backend that interrupts batches of larger requests.
    pub due: ModelBackend,
    /// Backend that interrupts the other two.
    pub urgent: ModelBackend,
}

impl Replica {
    /// The replica with each backend wrapped.
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

/// Limits on the size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Maximum computed rows.
    pub max_tokens: usize,
    /// Maximum tokens of all sequences, with repeated tokens counted each time.
    pub max_ragged_tokens: usize,
}

impl BatchLimits {
    /// Limits of the largest batch.
    pub fn of(config: &EngineConfig) -> Self {
        Self { max_tokens: config.max_batch_tokens, max_ragged_tokens: config.ragged_tokens_limit() }
    }

    /// Limits of due and of urgent batches, which interrupt others, with the same ratio of tokens to rows as the largest batch.
    pub fn interrupting(config: &EngineConfig) -> [Self; 2] {
        let ratio = config.ragged_tokens_limit() / config.max_batch_tokens;
        [EngineConfig::MAX_DUE_TOKENS, EngineConfig::MAX_URGENT_TOKENS].map(|limit| {
            let max_tokens = limit.min(config.max_batch_tokens);
            Self { max_tokens, max_ragged_tokens: max_tokens.saturating_mul(ratio) }
        })
    }
}

/// Sequences of a forward pass.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The sequences, one after another.
    pub ragged: RaggedBatch,
    /// Outputs that each sequence asks for.
    pub wanted: Vec<Outputs>,
}

impl Batch {
    /// True if an output needs the final states of all tokens.
    pub fn needs_all_tokens(&self) -> bool {
        self.wanted.iter().copied().any(Outputs::needs_all_tokens)
    }

    /// Appends a sequence with the outputs that it asks for.
    ///
    /// # Errors
    /// The sequence does not fit the batch, which is then unchanged.
    pub(crate) fn push(&mut self, tokens: TokenSlice<'_>, wanted: Outputs) -> Result<(), RaggedBatchError> {
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

/// Effect of int8 on each linear layer of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Report {
    /// Names of the layers kept in bfloat16, by request or because int8 would change their products by more than `max_error`. A layer of
    /// several matrices (query, key and value; gate and up) has the name of the first.
    pub kept_in_bfloat16: Vec<String>,
    /// Largest error of a layer in int8.
    pub max_error: f64,
    /// Names of the measured layers with the relative error of their products in int8, the largest first. The error is not finite
    /// if weights or inputs of the layer are not.
    pub errors: Vec<(String, f64)>,
}

/// Memory of an input on its way through the layers, without the weights: linear in its length for any kind of attention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InputMemory {
    /// Bytes for each token.
    pub token: u64,
    /// Additional bytes for each token of a block, the tokens that go through a product together.
    pub block_token: u64,
    /// Maximum tokens of a block.
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

/// Limits on the tokens of a sub-model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenLimits {
    /// Token ids must be below this.
    pub vocab_size: usize,
    /// Number of token types; fewer than two for a sub-model without types.
    pub token_types: usize,
    /// The longest input in tokens.
    pub max_input_length: usize,
}

/// Index of the sub-model for a text, by the text's task.
#[derive(Debug, Clone, Default)]
pub struct SubModelMap(Arc<[usize]>);

impl SubModelMap {
    /// Index of the sub-model for texts of a task; 0 if the model does not have the task.
    pub fn sub_model(&self, TaskId(number): TaskId) -> usize {
        self.0.get(usize::from(number)).copied().unwrap_or(0)
    }

    /// Number of sub-models.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().max().map_or(1, |last| last + 1)
    }
}

/// Properties of a loaded model that the engine and the endpoints read.
///
/// A Router that sends texts through different models by their task has several sub-models. The fields describe the first, for texts
/// without a task.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    /// Commit of a model on the hub.
    pub commit: Option<String>,
    /// Family name as in `config.json`, for example `qwen3`.
    pub model_type: String,
    /// The answers that the model can give.
    pub capabilities: Arc<Capabilities>,
    /// Limits of each sub-model; most models have one.
    pub sub_models: NonEmpty<TokenLimits>,
    /// Data type of the weights in products: `float32`, `bfloat16`, `float16` or `int8`.
    pub dtype: &'static str,
    /// Reason for this data type.
    pub dtype_reason: String,
    /// Instruction set of the kernels, for example `avx512-bf16`.
    pub kernels: String,
    /// Reason for this instruction set.
    pub kernels_reason: String,
    /// Effect of int8 on each layer; `None` for models in other types.
    pub int8: Option<Int8Report>,
    /// Memory of an input on its way through the layers.
    pub input_memory: InputMemory,
    /// `cpu` or `cuda:0`.
    pub device: String,
    /// Attention over a compacted batch, `ragged` or `compact`; `full` without a causal mask.
    pub attention: &'static str,
}

impl ModelInfo {
    /// Limits of the first sub-model.
    pub const fn limits(&self) -> &TokenLimits {
        self.sub_models.first()
    }

    /// Sub-model for the texts of each task.
    pub fn sub_model_map(&self) -> SubModelMap {
        let tasks = self.capabilities.embed.iter().flat_map(|embed| &embed.tasks);
        SubModelMap(std::iter::once(0).chain(tasks.map(|task| task.sub_model)).collect())
    }

    /// Longest input of any sub-model in tokens.
    pub fn longest_input(&self) -> usize {
        self.sub_models.iter().map(|sub_model| sub_model.max_input_length).max().unwrap_or(0)
    }

    /// Limits the inputs of all sub-models to a number of tokens.
    pub(crate) fn limit_inputs(&mut self, tokens: usize) {
        let of_first = &mut Arc::make_mut(&mut self.capabilities).max_input_length;
        let of_each = self.sub_models.iter_mut().map(|sub_model| &mut sub_model.max_input_length);
        std::iter::once(of_first).chain(of_each).for_each(|limit| *limit = tokens.min(*limit));
    }
}
