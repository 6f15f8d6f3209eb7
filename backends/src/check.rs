//! Check of a model without its weights: whether it runs, which memory it needs, and which answers it gives.
//!
//! The check does what a start does before it reads weights: it reads the same files, finds the same tensors, refuses the same models.

use crate::checkpoint::{Inspection, joined};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::model::footprint::reserved_bytes;
use crate::model::memory;
use crate::ops::Target;
use crate::options::LoadOptions;
use crate::source::ModelFiles;
use crate::source::licence::Licence;
use prefold_core::{Capabilities, EngineConfig, shown};
use prefold_kernels::Dtype;

/// The result of [`check_model`].
#[derive(Debug, Clone)]
pub struct ModelCheck {
    /// The verdict.
    pub verdict: Verdict,
    /// The model's description; `None` if the files say too little.
    pub model: Option<CheckedModel>,
    /// The licence in the model card.
    pub licence: Licence,
}

/// The verdict on a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The model runs as its files specify.
    Runs,
    /// The model runs; the sentences say what is left out or was not checked.
    RunsBut(Vec<String>),
    /// The model is refused, for this reason.
    DoesNotRun(String),
    /// The model's files could not be read, for this reason.
    Unknown(String),
}

/// A model that runs.
#[derive(Debug, Clone)]
pub struct CheckedModel {
    /// The family's name in `config.json`, for example `qwen3`; the names of all sub-models, separated by commas.
    pub family: String,
    /// `causal`, `full`, either with `, windowed`, or `no`.
    pub attention: String,
    /// Number of values in all tensors; `None` if no header could be read.
    pub parameters: Option<u64>,
    /// Type of the weights in the files.
    pub stored_dtype: Option<String>,
    /// Memory by `--dtype`; empty for static embeddings whose number of rows is not known.
    pub memory: Vec<Memory>,
    /// The answers that the model can give.
    pub capabilities: Capabilities,
}

/// Memory of a model on a CPU in one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The type.
    pub dtype: Dtype,
    /// Bytes of weights and position tables.
    pub weights_bytes: u64,
    /// Additional bytes of the buffers for the longest input.
    pub longest_input_bytes: u64,
    /// Bytes of the buffers that a start allocates, for batches of the default `--max-batch-tokens`.
    pub default_batch_bytes: u64,
}

/// The limits of a check that finds configuration alone.
const BARE: &str = "the model has no tensors and no tokenizer, which a start needs; only the configuration was checked";

/// Types whose memory is reported.
const DTYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8];

/// Checks the model that the options name. From the hub only the small files and the tensor headers are downloaded.
///
/// Blocks: a hub download runs on its own runtime, so do not call this from async code.
pub fn check_model(options: &LoadOptions) -> ModelCheck {
    let files = match ModelFiles::inspect(options) {
        Ok(files) => files,
        Err(error) => return refused(&error, Licence::Unread),
    };
    let licence = match files.licence() {
        Licence::Named(name) => Licence::Named(shown(&name)),
        other => other,
    };
    match Inspection::of(options, files) {
        Ok(sub_models) if sub_models.is_empty() => {
            ModelCheck { verdict: Verdict::RunsBut(vec![BARE.to_owned()]), model: None, licence }
        }
        Ok(sub_models) => checked(&sub_models, licence),
        Err(error) => refused(&error, licence),
    }
}

fn refused(error: &LoadError, licence: Licence) -> ModelCheck {
    let verdict = if error.is_unseen() { Verdict::Unknown } else { Verdict::DoesNotRun };
    ModelCheck { verdict: verdict(error.to_string()), model: None, licence }
}

fn checked(sub_models: &[Inspection], licence: Licence) -> ModelCheck {
    let capabilities = joined(sub_models.iter().map(|it| &*it.capabilities));
    let mut notes = capabilities.warnings.clone();
    let not_looked_for = match sub_models.iter().find(|it| it.weights.is_none()) {
        Some(it) if it.tokenizer.is_none() => Some(BARE),
        Some(_) => Some("its tensors were not checked: only safetensors files have a header that can be read alone"),
        None => None,
    };
    notes.extend(not_looked_for.map(str::to_owned));
    let weights = |it: &Inspection| it.weights.as_ref().map(Weights::parameters);
    let distinct = with_distinct_tensors(sub_models);
    let stored = |it: &Inspection| {
        let stored = it.weights.as_ref()?.stored_dtype(&it.config.typical_weight());
        Some(stored.to_owned())
    };
    let stored: Option<Vec<String>> = sub_models.iter().map(stored).collect();
    let model = CheckedModel {
        family: listed(sub_models.iter().map(|it| it.config.model_type.as_str())),
        attention: listed(sub_models.iter().map(|it| it.config.attention_name())),
        parameters: distinct.into_iter().map(weights).sum(),
        stored_dtype: stored.map(|stored| listed(stored.iter().map(String::as_str))),
        memory: memory_of(sub_models),
        capabilities,
    };
    let verdict = if notes.is_empty() { Verdict::Runs } else { Verdict::RunsBut(notes) };
    ModelCheck { verdict, model: Some(model), licence }
}

/// Memory of all sub-models: the sum of their weights, and the largest memory of an input.
fn memory_of(sub_models: &[Inspection]) -> Vec<Memory> {
    let distinct = with_distinct_tensors(sub_models);
    let dtypes = DTYPES.into_iter().filter(|_| sub_models.iter().all(|it| it.config.vocab_size > 0));
    let memory = |dtype| {
        let longest = |it: &Inspection| it.capabilities.max_input_length;
        let of_input = |it: &Inspection| memory::of_inputs(&it.config, &Target::cpu(dtype)).bytes(longest(it));
        let of_batches = |it: &Inspection| {
            let defaults = EngineConfig::default();
            reserved_bytes(&it.config, dtype, longest(it), &defaults, sub_models.len()) as u64
        };
        Memory {
            dtype,
            weights_bytes: distinct.iter().map(|it| memory::weights(&it.config, dtype, longest(it))).sum(),
            longest_input_bytes: sub_models.iter().map(of_input).max().unwrap_or(0),
            default_batch_bytes: sub_models.iter().map(of_batches).sum(),
        }
    };
    dtypes.map(memory).collect()
}

/// The sub-models without those that share the tensors of an earlier one.
fn with_distinct_tensors(sub_models: &[Inspection]) -> Vec<&Inspection> {
    let is_first = |index: usize| !sub_models[..index].iter().any(|other| sub_models[index].shares_tensors(other));
    (0..sub_models.len()).filter(|&index| is_first(index)).map(|index| &sub_models[index]).collect()
}

/// Distinct names in their order, separated by commas.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known.join(", ")
}
