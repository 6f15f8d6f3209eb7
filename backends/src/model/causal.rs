//! A decoder with its head, as the engine's [`Backend`].

use super::decoder::{Decoder, qkv_layout};
use super::geometry::Planner;
use super::head::Head;
use super::memory::Footprint;
use crate::checkpoint::Checkpoint;
use crate::error::LoadError;
use crate::ops::{self, Target, Uploader};
use crate::options::LoadOptions;
use prefold_core::{Backend, BackendError, Batch, BatchLimits, ModelInfo, Output, TooLarge};

/// A causal model on one device.
#[derive(Debug)]
pub(crate) struct CausalModel {
    decoder: Decoder,
    head: Head,
    planner: Planner,
    target: Target,
    footprint: Footprint,
    info: ModelInfo,
}

impl CausalModel {
    /// Brings the checkpoint's weights to the device; the checkpoint's own memory can be let go afterwards.
    pub(crate) fn load(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Self, LoadError> {
        let Checkpoint { config, weights, purpose, .. } = checkpoint;
        let target = Target::open(options.device, options.dtype)?;
        let (head, kind) = Head::load(config, weights, purpose)?;
        let decoder = Decoder::load(config, weights, checkpoint.max_input_length, &target)?;
        // The forward passes are on another thread, and what is free is measured next.
        target.synchronize()?;
        Ok(Self {
            decoder,
            planner: Planner {
                mode: options.attention,
                pooling: head.pooling(),
                layout: qkv_layout(config),
                target: target.clone(),
                uploader: Uploader::new(&target)?,
            },
            head,
            footprint: Footprint::new(config, &target, options.attention),
            info: ModelInfo {
                model_type: config.model_type.clone(),
                kind,
                vocab_size: config.vocab_size,
                max_input_length: checkpoint.max_input_length,
                token_dim: config.hidden_size,
                dtype: target.dtype().as_str(),
                device: target.name().to_owned(),
                attention: options.attention.as_str(),
            },
            target,
        })
    }

    fn try_forward(&mut self, batch: &Batch) -> candle_core::Result<Vec<Output>> {
        let geometry = self.planner.plan(batch)?;
        let mut states = self.decoder.forward(&geometry)?;
        if let Some(pool) = &geometry.pool {
            states = self.decoder.pool(&states, pool)?;
        }
        self.head.answer(&states, &geometry, batch)
    }

    /// Says whether it was memory that failed, and lets go of what other batches need.
    fn failed(&mut self, error: &candle_core::Error) -> BackendError {
        if !ops::is_out_of_memory(error) {
            return BackendError::Compute(error.to_string());
        }
        match self.decoder.release_buffers() {
            Ok(()) => BackendError::OutOfMemory(format!("{error}; a smaller --max-batch-tokens needs less")),
            Err(again) => BackendError::OutOfMemory(format!("{error}; and again: {again}")),
        }
    }
}

impl Backend for CausalModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn check_limits(&self, limits: BatchLimits) -> Result<(), TooLarge> {
        let BatchLimits { max_tokens, max_ragged_tokens } = limits;
        let free = match self.target.free_bytes() {
            Ok(Some(free)) => free,
            Ok(None) => return Ok(()),
            Err(error) => {
                tracing::warn!("the device does not say how much memory is free: {error}");
                return Ok(());
            }
        };
        let needed = self.footprint.bytes(max_tokens, max_ragged_tokens);
        tracing::info!(free_mib = free >> 20, needed_mib = needed >> 20, "memory for a batch");
        if needed <= free {
            return Ok(());
        }
        let largest_max_tokens = self.footprint.largest(free, max_tokens, max_ragged_tokens);
        Err(TooLarge { largest_max_tokens, needed_bytes: needed, free_bytes: free })
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<Output>, BackendError> {
        if batch.ragged.num_sequences() == 0 {
            return Ok(Vec::new());
        }
        self.try_forward(batch).map_err(|error| self.failed(&error))
    }
}
