//! Loads causal checkpoints (Qwen3, Qwen2, Llama, Mistral) and runs them in compact space.
//!
//! [`load`] reads a model's files and returns it as a [`prefold_core::LoadedModel`]. The decoder is written once
//! (`model/`), over operations that choose the device (`ops/`).
#![deny(unsafe_code)]

mod checkpoint;
mod description;
mod disk;
mod error;
mod files;
mod gguf;
mod gguf_config;
mod gguf_header;
mod gguf_names;
mod gguf_tokenizer;
mod guard;
mod hub;
mod hub_content;
mod hub_watch;
mod json;
#[cfg(test)]
mod loading_tests;
mod model;
mod modules;
mod ops;
mod options;
mod outline;
mod task;
mod tokenizer;

pub use error::LoadError;
#[cfg(feature = "profile")]
pub use ops::take_profile;
pub use ops::used_device_bytes;
pub use options::{AttentionMode, DeviceChoice, Dtype, EmbeddedFile, HubModel, LoadOptions, ModelSource, Task};
pub use outline::{ModelOutline, ModelShape, outline};

use checkpoint::{Checkpoint, Purpose};
use model::causal::CausalModel;
use prefold_core::LoadedModel;

/// Finds a model's files (downloading them if need be), checks them, and packs the weights.
///
/// Blocks; a hub download runs on a runtime of its own, so this must not be called from async code.
///
/// # Errors
/// Anything that keeps the checkpoint from being served exactly as it is meant: see [`LoadError`].
pub fn load(options: &LoadOptions) -> Result<LoadedModel, LoadError> {
    let checkpoint = Checkpoint::open(options)?;
    let backend = CausalModel::load(&checkpoint, options)?;
    let Checkpoint { tokenizer, prompts, purpose, .. } = checkpoint;
    let template = match purpose {
        Purpose::Rerank { template, .. } => Some(template),
        Purpose::Embed { .. } | Purpose::Classify { .. } => None,
    };
    Ok(LoadedModel { backend: Box::new(backend), tokenizer, prompts, template })
}
