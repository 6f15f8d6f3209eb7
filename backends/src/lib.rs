//! Loading of checkpoints, of decoders (Qwen3, Qwen2, Llama, Mistral) and of encoders (BERT and its kin), and forward passes,
//! those of decoders in compact space.
//!
//! [`load`] reads a model's files and returns it as a [`prefold_core::LoadedModel`]. The transformer is written
//! once (`model/`), over operations that choose the device (`ops/`).
#![deny(unsafe_code)]

mod check;
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

pub use check::{CheckedModel, Memory, ModelCheck, Verdict, check_model};
pub use checkpoint::{ModelShape, ModelSummary, model_summary};
pub use error::LoadError;
pub use ops::take_profile;
pub use ops::{check_options, used_device_bytes};
pub use options::{AttentionMode, DefaultPrompt, DeviceChoice, EmbeddedFile, HubModel, LoadOptions, ModelSource};
pub use prefold_kernels::Dtype;

use checkpoint::Checkpoint;
use model::backend::TransformerBackend;
use ops::Target;
use prefold_core::{Folding, LoadedModel, ModelBackend};

/// Checks, without reading the model, that the device is there, computes in the type and has room for the replicas.
///
/// # Errors
/// The first of these that is not so.
pub fn check_device(options: &LoadOptions) -> Result<(), LoadError> {
    Target::open(options, "").map(drop)
}

/// Finds a model's files, downloading them if necessary, checks them, and packs the weights.
///
/// Blocks: a hub download runs on its own runtime, so do not call this from async code.
///
/// # Errors
/// The checkpoint cannot be served exactly as it is meant: see [`LoadError`].
pub fn load(options: &LoadOptions) -> Result<LoadedModel, LoadError> {
    let checkpoint = Checkpoint::open(options)?;
    let backend = TransformerBackend::load(&checkpoint, options)?;
    let (backend, replicas) = backend.replicate(options.cpu_replicas)?;
    let folding = checkpoint.config.attention.mask.folding();
    let as_model = |backend| match folding {
        Folding::Prefix => ModelBackend::Prefix(Box::new(backend)),
        Folding::Whole => ModelBackend::Whole(Box::new(backend)),
    };
    Ok(LoadedModel {
        backend: as_model(backend),
        replicas: replicas.into_iter().map(as_model).collect(),
        tokenizer: checkpoint.tokenizer,
    })
}
