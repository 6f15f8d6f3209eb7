//! A decoder with its head, as the engine's [`Backend`].

use super::decoder::Decoder;
use super::geometry::Geometry;
use super::head::Head;
use crate::checkpoint::Checkpoint;
use crate::error::LoadError;
use crate::options::{AttentionMode, Dtype, LoadOptions};
use candle_core::{DType, Device};
use prefold_core::{Backend, BackendError, Batch, ModelInfo, Output};
use prefold_kernels::Precision;

/// A causal model on one device.
#[derive(Debug)]
pub(crate) struct CausalModel {
    decoder: Decoder,
    head: Head,
    attention: AttentionMode,
    device: Device,
    info: ModelInfo,
}

impl CausalModel {
    /// Packs the checkpoint's weights; the checkpoint's own memory can be let go afterwards.
    pub(crate) fn load(checkpoint: &Checkpoint, options: &LoadOptions) -> Result<Self, LoadError> {
        let Checkpoint { config, weights, purpose, .. } = checkpoint;
        let dtype = options.dtype.unwrap_or(Dtype::Float32);
        let (head, kind) = Head::load(config, weights, purpose)?;
        Ok(Self {
            decoder: Decoder::load(config, weights, dtype)?,
            head,
            attention: options.attention,
            device: Device::Cpu,
            info: ModelInfo {
                model_type: config.model_type.clone(),
                kind,
                vocab_size: config.vocab_size,
                max_input_length: checkpoint.max_input_length,
                dtype: dtype.as_str(),
                device: "cpu".to_owned(),
                attention: options.attention.as_str(),
            },
        })
    }

    fn try_forward(&mut self, batch: &Batch) -> candle_core::Result<Vec<Output>> {
        let geometry = Geometry::new(batch, self.attention, self.head.pooling(), &self.device)?;
        let hidden = self.decoder.forward(&geometry)?;
        self.head.answer(&hidden, &geometry, batch)
    }
}

impl Backend for CausalModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<Output>, BackendError> {
        if batch.ragged.num_sequences() == 0 {
            return Ok(Vec::new());
        }
        self.try_forward(batch).map_err(|error| BackendError::Compute(error.to_string()))
    }
}

impl Dtype {
    /// What GEMM inputs are stored as.
    pub(crate) fn activations(self) -> DType {
        match self {
            Self::Float32 => DType::F32,
            Self::Bfloat16 => DType::BF16,
        }
    }

    /// What GEMM weights are packed as.
    pub(crate) fn precision(self) -> Precision {
        match self {
            Self::Float32 => Precision::F32,
            Self::Bfloat16 => Precision::Bf16,
        }
    }
}
