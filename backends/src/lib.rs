//! Loading of causal checkpoints (Qwen3, Qwen2, Llama, Mistral) and forward passes in compact space.
//!
//! [`load`] reads a model's files and returns it as a [`prefold_core::LoadedModel`]. The transformer is written
//! once (`model/`), over operations that choose the device (`ops/`).
#![deny(unsafe_code)]

mod checkpoint;
mod config;
mod disk;
mod error;
mod formats;
mod json;
mod model;
mod ops;
mod options;
mod source;

pub use checkpoint::{ModelShape, ModelSummary, model_summary};
pub use error::LoadError;
pub use ops::take_profile;
pub use ops::used_device_bytes;
pub use options::{AttentionMode, DefaultPrompt, DeviceChoice, EmbeddedFile, HubModel, LoadOptions, ModelSource};
pub use prefold_kernels::Dtype;

use checkpoint::Checkpoint;
use model::backend::TransformerBackend;
use prefold_core::{LoadedModel, ModelBackend};

/// Finds a model's files, downloading them if necessary, checks them, and packs the weights.
///
/// Blocks: a hub download runs on its own runtime, so do not call this from async code.
///
/// # Errors
/// The checkpoint cannot be served exactly as it is meant: see [`LoadError`].
pub fn load(options: &LoadOptions) -> Result<LoadedModel, LoadError> {
    let checkpoint = Checkpoint::open(options)?;
    let backend = TransformerBackend::load(&checkpoint, options)?;
    // Attention is causal in all models so far.
    Ok(LoadedModel { backend: ModelBackend::Prefix(Box::new(backend)), tokenizer: checkpoint.tokenizer })
}
