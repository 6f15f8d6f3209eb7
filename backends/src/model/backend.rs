//! The engine's [`Backend`]: a transformer with its head.

use super::attention::qkv_layout;
use super::cpu_only::without_kernel;
#[cfg(feature = "cuda")]
use super::device_pass::DevicePass;
use super::footprint::{Footprint, MAX_RESERVED, Reservation, part_rows};
use super::head::{Asked, Head, States};
use super::layout::LayoutBuilder;
use super::memory;
use super::parts::parts;
use super::sensitive;
use super::task_adapters::TaskAdapters;
use super::transformer::Transformer;
use crate::checkpoint::Checkpoint;
use crate::config::{MaskConfig, PositionsConfig, TransformerConfig};
use crate::error::LoadError;
use crate::memory_budget;
#[cfg(feature = "cuda")]
use crate::ops::Downloads;
use crate::ops::{self, Linear, Queue, Target, Uploader, Yields};
use crate::options::{AttentionMode, LoadOptions};
use crate::source::names::inside;
use candle_core::Tensor;
use prefold_core::{
    Backend, BackendError, Batch, BatchLimits, Int8Report, ModelInfo, NonEmpty, Output, PrefixBackend, RadixPlan,
    RaggedBatch, Stopped, Submitted, TokenLimits, Uninterrupted, YieldPoint,
};
use prefold_kernels::{Dtype, ThreadPool};
use std::sync::Arc;

/// A model on one device.
#[derive(Debug)]
pub(crate) struct TransformerBackend {
    pub(super) transformer: Transformer,
    pub(super) head: Arc<Head>,
    pub(super) layouts: LayoutBuilder,
    pub(super) target: Target,
    /// Operations queued on the device.
    pub(super) queue: Queue,
    #[cfg(feature = "cuda")]
    pub(super) downloads: Downloads,
    pub(super) footprint: Footprint,
    pub(super) info: ModelInfo,
    /// Threads of this replica; `None` runs operations on the caller's pool.
    pub(super) team: Option<Arc<ThreadPool>>,
    /// Maximum bytes reserved on a CPU.
    pub(super) max_reserved: usize,
}

impl TransformerBackend {
    /// Packs the weights of all sub-models for the device; afterwards the checkpoints are not needed.
    pub(crate) fn load_all(checkpoints: &[Checkpoint], options: &LoadOptions) -> Result<Vec<Self>, LoadError> {
        let has_sub_models = checkpoints.len() > 1;
        let mut backends: Vec<Self> = Vec::with_capacity(checkpoints.len());
        for (index, checkpoint) in checkpoints.iter().enumerate() {
            let known = checkpoints[..index].iter().position(|other| checkpoint.shares_tensors(other));
            backends.push(match known {
                Some(other) => backends[other].with_head(checkpoint)?,
                None => Self::load(checkpoint, options, has_sub_models)?,
            });
        }
        let is_unmatched = |pattern: &&String| {
            backends.iter().all(|it| it.target.dtype() == Dtype::Int8 && !it.target.has_skipped(pattern))
        };
        if let Some(pattern) = options.int8_skip.iter().find(is_unmatched) {
            let problem = format!("--int8-skip {pattern}: no linear layer has a name that contains this");
            let example = match checkpoints.iter().find(|it| !it.config.is_table()) {
                None => "the model has none".to_owned(),
                Some(it) => {
                    format!("one is {}", inside(&it.sub_model, it.config.typical_weight().trim_end_matches(".weight")))
                }
            };
            return Err(LoadError::Options(format!("{problem}; {example}")));
        }
        Ok(backends)
    }

    fn load(checkpoint: &Checkpoint, options: &LoadOptions, is_sub_model: bool) -> Result<Self, LoadError> {
        let Checkpoint { sub_model, config, weights, capabilities, .. } = checkpoint;
        let stored = weights.stored_dtype(&config.typical_weight());
        let target =
            if config.is_table() { Target::open_for_table(options, stored)? } else { Target::open(options, stored)? };
        if is_sub_model && !target.is_cpu() {
            let problem = "a Router with several models runs on the CPU only: use --device cpu";
            return Err(LoadError::Options(problem.to_owned()));
        }
        let target = target.of_sub_model(sub_model);
        if target.is_cpu() {
            let bytes = memory::weights(config, target.dtype(), capabilities.max_input_length);
            memory_budget::check(bytes).map_err(|problem| LoadError::Compute(format!("they {problem}")))?;
        }
        let mut backend = Self::load_on(checkpoint, options, target.clone())?;
        if target.dtype() == Dtype::Int8 {
            let mut report = backend.measure_int8(checkpoint);
            if !report.kept_in_bfloat16.is_empty() {
                drop(backend);
                let target = target.skipping(report.kept_in_bfloat16.iter().cloned());
                backend = Self::load_on(checkpoint, options, target)?;
            }
            report.kept_in_bfloat16 = {
                let kept = backend.transformer.linears().filter_map(Linear::kept_in_bfloat16);
                kept.map(str::to_owned).collect()
            };
            sensitive::log(&report);
            backend.info.int8 = Some(report);
        }
        Ok(backend)
    }

    /// Measures the int8 error of each linear layer.
    fn measure_int8(&mut self, checkpoint: &Checkpoint) -> Int8Report {
        let (vocab_size, max_tokens) = (self.info.limits().vocab_size, self.info.capabilities.max_input_length);
        let batch = sensitive::calibration_batch(&checkpoint.tokenizer, vocab_size, max_tokens);
        if batch.ragged.num_sequences() > 0 {
            // A pass that fails has measured the layers before the failure.
            if let Err(error) =
                ops::measure_quantization(|| self.try_forward(&batch, None, &mut Yields::new(&mut Uninterrupted)))
            {
                tracing::warn!("the int8 error could not be measured in all layers: {error}");
            }
        }
        sensitive::report(&self.transformer)
    }

    /// Packs the checkpoint's weights for a device.
    fn load_on(checkpoint: &Checkpoint, options: &LoadOptions, target: Target) -> Result<Self, LoadError> {
        let Checkpoint { commit, config, weights, token_types, unpooled, capabilities, head, .. } = checkpoint;
        let head = Head::load(config, weights, head)?;
        if let Some(feature) = without_kernel(config, &head).filter(|_| !target.is_cpu()) {
            let problem = format!("{feature} run on the CPU only: use --device cpu");
            return Err(LoadError::Options(problem));
        }
        let transformer = Transformer::load(config, weights, capabilities.max_input_length, &target)?;
        let mut capabilities = Arc::clone(capabilities);
        if !target.warnings().is_empty() {
            Arc::make_mut(&mut capabilities).warnings.extend_from_slice(target.warnings());
        }
        let limits = TokenLimits {
            vocab_size: config.vocab_size,
            token_types: *token_types,
            max_input_length: capabilities.max_input_length,
        };
        let (kernels, kernels_reason) = target.kernels();
        // Forward passes run on another thread, and free memory is measured next.
        target.synchronize()?;
        Ok(Self {
            transformer,
            layouts: LayoutBuilder {
                mode: options.attention,
                pooling: head.pooling().to_vec(),
                mask: config.attention.mask,
                positions: match config.positions {
                    PositionsConfig::Rotary(_) | PositionsConfig::Biases | PositionsConfig::Disentangled(_) => None,
                    PositionsConfig::Learned(positions) => Some(positions),
                },
                token_types: config.embeddings.token_types,
                adapters: TaskAdapters::new(config),
                unpooled: *unpooled,
                padding: head.padding(),
                qkv: qkv_layout(&config.attention),
                convolutions: config.convolutions,
                has_distances: matches!(config.positions, PositionsConfig::Disentangled(_)),
                target: target.clone(),
                uploader: Uploader::new(&target)?,
            },
            head: Arc::new(head),
            footprint: Footprint::new(config, &target, options.attention),
            info: ModelInfo {
                commit: commit.clone(),
                model_type: config.model_type.clone(),
                capabilities,
                sub_models: NonEmpty::one(limits),
                dtype: target.dtype().as_str(),
                dtype_reason: target.dtype_reason().to_owned(),
                kernels,
                kernels_reason,
                int8: None,
                input_memory: memory::of_inputs(config, &target),
                device: target.name().to_owned(),
                attention: attention_name(config, options.attention),
            },
            queue: Queue::on(target.stream()),
            #[cfg(feature = "cuda")]
            downloads: Downloads::default(),
            target,
            team: None,
            max_reserved: MAX_RESERVED,
        })
    }

    /// A backend over the same weights with the head of another sub-model. It has no int8 report, which would repeat the first one.
    fn with_head(&self, checkpoint: &Checkpoint) -> Result<Self, LoadError> {
        let head = Head::load(&checkpoint.config, &checkpoint.weights, &checkpoint.head)?;
        let capabilities = Arc::clone(&checkpoint.capabilities);
        let limits = TokenLimits { max_input_length: capabilities.max_input_length, ..*self.info.limits() };
        Ok(Self {
            transformer: self.transformer.replica(&self.target)?,
            layouts: LayoutBuilder {
                pooling: head.pooling().to_vec(),
                padding: head.padding(),
                ..self.layouts.replica(&self.target)?
            },
            head: Arc::new(head),
            queue: Queue::on(self.target.stream()),
            #[cfg(feature = "cuda")]
            downloads: Downloads::default(),
            target: self.target.clone(),
            footprint: self.footprint,
            info: ModelInfo { capabilities, sub_models: NonEmpty::one(limits), int8: None, ..self.info.clone() },
            team: None,
            max_reserved: MAX_RESERVED,
        })
    }

    /// Calls `f`, whose operations run on the replica's threads or on its stream.
    fn on_team<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        let stream = self.target.stream().clone();
        stream.enter(|| match self.team.clone() {
            Some(team) => team.enter(|| f(self)),
            None => f(self),
        })
    }

    fn run(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        point: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        if batch.ragged.num_sequences() == 0 {
            return Ok(Submitted::Done(Vec::new()));
        }
        let yields = &mut Yields::on(&self.queue, point);
        let submitted = match self.part_rows() {
            Some(rows) if plan.is_none() && batch.ragged.total_tokens() > rows => {
                self.forward_parts(batch, rows, yields).map(Submitted::Done)
            }
            _ => self.try_submit(batch, plan, yields),
        };
        submitted
            .map_err(|error| if yields.is_stopped() { BackendError::Stopped(Stopped) } else { self.failed(&error) })
    }

    /// Maximum rows that go through the model together if its sequences share nothing; `None` on a GPU, which takes all.
    fn part_rows(&self) -> Option<usize> {
        part_rows(self.layouts.mask).filter(|_| self.target.is_cpu())
    }

    /// Computed rows and ragged tokens that memory is reserved for.
    fn reserved_rows(&self, limits: BatchLimits) -> (usize, usize) {
        if self.target.is_cpu() {
            self.reservation().rows(limits)
        } else {
            (limits.max_tokens, limits.max_ragged_tokens)
        }
    }

    fn reservation(&self) -> Reservation {
        let most_rows = self.part_rows().map(|part| part.max(self.info.capabilities.max_input_length));
        Reservation { footprint: self.footprint, max_bytes: self.max_reserved, most_rows }
    }

    fn forward_parts(
        &mut self,
        batch: &Batch,
        rows: usize,
        yields: &mut Yields<'_>,
    ) -> candle_core::Result<Vec<Output>> {
        let mut outputs = Vec::with_capacity(batch.ragged.num_sequences());
        for part in parts(batch.ragged.cu_seqlens(), rows) {
            let tokens = batch.ragged.cu_seqlens()[part.end] - batch.ragged.cu_seqlens()[part.start];
            let mut ragged = RaggedBatch::with_capacity(tokens as usize, part.len());
            for sequence in part.clone() {
                ragged.push(batch.ragged.sequence(sequence)).map_err(candle_core::Error::wrap)?;
            }
            let part = Batch { ragged, wanted: batch.wanted[part].to_vec() };
            outputs.extend(self.try_forward(&part, None, yields)?);
        }
        Ok(outputs)
    }

    fn try_submit(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut Yields<'_>,
    ) -> candle_core::Result<Submitted> {
        #[cfg(feature = "cuda")]
        if !self.target.is_cpu() {
            let states = self.states(batch, plan, yields)?;
            let pass = DevicePass::start(&self.head, &self.downloads, &self.target, batch, states)?;
            return Ok(Submitted::Running(Box::new(pass)));
        }
        self.try_forward(batch, plan, yields).map(Submitted::Done)
    }

    /// A pass on a CPU.
    fn try_forward(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut Yields<'_>,
    ) -> candle_core::Result<Vec<Output>> {
        let (hidden, pooled, asked) = self.states(batch, plan, yields)?;
        yields.reach()?;
        self.head.answer(States { hidden: &hidden, pooled: &pooled }, &asked, yields)
    }

    /// The final states, the pooled states, and the sequences that they belong to.
    fn states(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut Yields<'_>,
    ) -> candle_core::Result<(Tensor, Tensor, Asked)> {
        yields.reach()?;
        let layout = self.layouts.build(batch, plan)?;
        let hidden = self.transformer.forward(&layout, yields)?;
        let pooled = self.transformer.pool(&hidden, &layout.pool, yields)?;
        Ok((hidden, pooled, Asked::new(layout.into_answers(), batch)))
    }

    /// The error of the batch or of the device for a failure. Frees the buffers for later batches if memory ran out.
    fn failed(&mut self, error: &candle_core::Error) -> BackendError {
        if !ops::is_out_of_memory(error) {
            return self.target.failure(error);
        }
        match self.transformer.release_buffers() {
            Err(again) if self.target.is_lost() => BackendError::DeviceLost(again.to_string()),
            Ok(()) => BackendError::OutOfMemory(format!("{error}; a smaller --max-batch-tokens needs less")),
            Err(again) => BackendError::OutOfMemory(format!("{error}; and again: {again}")),
        }
    }
}

/// The attention that a model's info names.
pub(super) fn attention_name(config: &TransformerConfig, mode: AttentionMode) -> &'static str {
    match config.attention.mask {
        _ if config.is_table() => "none",
        MaskConfig::Causal => mode.as_str(),
        MaskConfig::Full => "full",
    }
}

impl Backend for TransformerBackend {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        let (rows, ragged) = self.reserved_rows(limits);
        self.footprint.bytes(rows, ragged)
    }

    fn free_bytes(&self) -> Option<usize> {
        if self.target.is_cpu() {
            return memory_budget::available().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        }
        self.target.free_bytes().unwrap_or_else(|error| {
            tracing::warn!("the device does not say how much memory is free: {error}");
            None
        })
    }

    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        if self.target.is_cpu() {
            // The server's threads have taken some memory since the start was checked.
            memory_budget::check(self.needed_bytes(limits) as u64).map_err(|problem| {
                let problem = format!("the buffers of batches {problem}; a smaller --max-batch-tokens needs less");
                BackendError::OutOfMemory(problem)
            })?;
        }
        let (rows, ragged) = self.reserved_rows(limits);
        let ragged = if self.layouts.mode == AttentionMode::Ragged { ragged } else { 0 };
        let reserved = self.on_team(|backend| backend.transformer.reserve(rows, ragged));
        reserved.map_err(|error| self.failed(&error))
    }

    fn submit(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        self.on_team(|backend| backend.run(batch, None, yields))
    }
}

impl PrefixBackend for TransformerBackend {
    fn submit_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        self.on_team(|backend| backend.run(batch, Some(plan), yields))
    }
}
