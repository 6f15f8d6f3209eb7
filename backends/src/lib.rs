//! Loading of checkpoints of decoders (Qwen3, Qwen2, Llama, Mistral and others) and encoders (BERT and its kin), and their forward
//! passes; decoders run in compact space.
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
mod json_memory;
mod memory_budget;
mod model;
mod ops;
mod options;
mod settings;
mod source;

pub use check::{CheckedModel, Memory, ModelCheck, Verdict, check_model};
pub use checkpoint::{ModelShape, ModelSummary, model_summary};
pub use error::LoadError;
pub use ops::{check_options, used_device_bytes};
pub use ops::{in_smallest_parts, take_profile};
pub use options::{AttentionMode, DefaultPrompt, DeviceChoice, EmbeddedFile, HubModel, LoadOptions, ModelSource};
pub use prefold_kernels::Dtype;
pub use source::licence::Licence;

use checkpoint::Checkpoint;
use model::backend::TransformerBackend;
use model::replicas::WithInterrupting;
use model::routed::RoutedBackend;
use ops::Target;
use prefold_core::{Folding, Interrupting, LoadedModel, ModelBackend, NonEmpty, Replica};
use prefold_kernels::ThreadPool;
use std::sync::Arc;

/// Checks, without reading the model, that the device exists, supports the type and has room for the replicas.
///
/// # Errors
/// The first check that fails.
pub fn check_device(options: &LoadOptions) -> Result<(), LoadError> {
    Target::open(options, "").map(drop)
}

/// Finds a model's files, downloading them if necessary, checks them, and packs the weights.
///
/// Blocks: a hub download runs on its own runtime, so do not call this from async code.
///
/// # Errors
/// The checkpoint cannot be served exactly as its files specify: see [`LoadError`].
pub fn load(options: &LoadOptions) -> Result<LoadedModel, LoadError> {
    let checkpoints = Checkpoint::open_all(options)?;
    let teams = teams(options.cpu_replicas);
    let mut replicas = load_replicas(&checkpoints, options, |sub_model| sub_model.replicate(&teams))?.into_iter();
    let tokenizers = NonEmpty::collect(checkpoints.into_iter().map(|checkpoint| checkpoint.tokenizer));
    let (Some(Replica { backend, interrupting }), Some(tokenizers)) = (replicas.next(), tokenizers) else {
        return Err(LoadError::Options("the model has no modules".to_owned()));
    };
    Ok(LoadedModel { backend, interrupting, replicas: replicas.collect(), tokenizers })
}

/// Loads a model once, as [`load`] does, and returns a backend for each mode. The backends share the weights, have their own buffers, and
/// run on the threads of their caller: `attention` and `cpu_replicas` of the options have no effect.
///
/// # Errors
/// The same as for [`load`].
pub fn load_in_modes(options: &LoadOptions, modes: &[AttentionMode]) -> Result<Vec<ModelBackend>, LoadError> {
    let options = LoadOptions { cpu_replicas: 1, ..options.clone() };
    let checkpoints = Checkpoint::open_all(&options)?;
    let replicas = load_replicas(&checkpoints, &options, |sub_model| sub_model.in_modes(modes))?;
    Ok(replicas.into_iter().map(|replica| replica.backend).collect())
}

/// Packs the weights of all sub-models once, and makes as many replicas over these weights as `replicate` returns.
fn load_replicas(
    checkpoints: &[Checkpoint],
    options: &LoadOptions,
    replicate: impl Fn(TransformerBackend) -> Result<Vec<WithInterrupting<TransformerBackend>>, LoadError>,
) -> Result<Vec<Replica>, LoadError> {
    let backends = TransformerBackend::load_all(checkpoints, options)?.into_iter();
    let sub_models: Vec<Vec<_>> = backends.map(replicate).collect::<Result<_, _>>()?;
    let folding = checkpoints.first().map(|checkpoint| checkpoint.config.attention.mask.folding());
    let mut sub_models: Vec<_> = sub_models.into_iter().map(Vec::into_iter).collect();
    let replica = || {
        let (mut backends, mut due, mut urgent) = (Vec::new(), Vec::new(), Vec::new());
        for WithInterrupting { backend, interrupting } in sub_models.iter_mut().filter_map(Iterator::next) {
            backends.push(backend);
            let [of_due, of_urgent] = interrupting.map_or([None, None], |both| both.map(Some));
            due.extend(of_due);
            urgent.extend(of_urgent);
        }
        let interrupting = joined(due, folding).zip(joined(urgent, folding));
        Some(Replica {
            backend: joined(backends, folding)?,
            interrupting: interrupting.map(|(due, urgent)| Interrupting { due, urgent }),
        })
    };
    Ok(std::iter::from_fn(replica).collect())
}

/// The backend of a model from the backends of its sub-models; `None` without any.
fn joined(sub_models: Vec<TransformerBackend>, folding: Option<Folding>) -> Option<ModelBackend> {
    let sub_models = NonEmpty::collect(sub_models)?;
    if sub_models.len() > 1 {
        return Some(ModelBackend::Whole(Box::new(RoutedBackend::new(sub_models))));
    }
    let only = Box::new(sub_models.into_first());
    Some(if folding == Some(Folding::Prefix) { ModelBackend::Prefix(only) } else { ModelBackend::Whole(only) })
}

/// Threads for each of `count` replicas, which share the cores evenly; empty for a single backend, which runs on its caller's threads.
fn teams(count: usize) -> Vec<Arc<ThreadPool>> {
    if count < 2 {
        return Vec::new();
    }
    let cores = ThreadPool::default_threads();
    let threads = |index: usize| cores / count + usize::from(index < cores % count);
    (0..count).map(|index| Arc::new(ThreadPool::new(threads(index)))).collect()
}
