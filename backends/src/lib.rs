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
use model::routed::RoutedBackend;
use ops::Target;
use prefold_core::{Folding, LoadedModel, ModelBackend};
use prefold_kernels::ThreadPool;
use std::sync::Arc;

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
    let checkpoints = Checkpoint::open_all(options)?;
    let teams = teams(options.cpu_replicas);
    let backends = TransformerBackend::load_all(&checkpoints, options)?.into_iter();
    let parts: Vec<Vec<TransformerBackend>> = backends.map(|it| it.replicate(&teams)).collect::<Result<_, _>>()?;
    let folding = checkpoints.first().map(|checkpoint| checkpoint.config.attention.mask.folding());
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    let replica = || {
        let mut parts = parts.iter_mut().filter_map(Iterator::next);
        let (first, others) = (parts.next()?, parts.collect::<Vec<_>>());
        Some(match folding {
            _ if !others.is_empty() => ModelBackend::Whole(Box::new(RoutedBackend::new(first, others))),
            Some(Folding::Prefix) => ModelBackend::Prefix(Box::new(first)),
            Some(Folding::Whole) | None => ModelBackend::Whole(Box::new(first)),
        })
    };
    let mut replicas = std::iter::from_fn(replica);
    let mut tokenizers = checkpoints.into_iter().map(|checkpoint| checkpoint.tokenizer);
    let (Some(backend), Some(tokenizer)) = (replicas.next(), tokenizers.next()) else {
        return Err(LoadError::Options("the model has no modules".to_owned()));
    };
    Ok(LoadedModel { backend, replicas: replicas.collect(), tokenizer, further_tokenizers: tokenizers.collect() })
}

/// Threads for each of `count` replicas, which share the cores evenly; none for a single backend, which runs on its caller's.
fn teams(count: usize) -> Vec<Arc<ThreadPool>> {
    if count < 2 {
        return Vec::new();
    }
    let cores = ThreadPool::default_threads();
    let threads = |index: usize| cores / count + usize::from(index < cores % count);
    (0..count).map(|index| Arc::new(ThreadPool::new(threads(index)))).collect()
}
