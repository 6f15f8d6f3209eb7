//! Check of a model before its weights are there: whether it runs, what it needs, what it answers.
//!
//! It is the way of a start up to the weights: the same files are read, the same refusals made, the same tensors looked for.

use crate::LoadError;
use crate::checkpoint::{Inspection, joined};
use crate::formats::Weights;
use crate::model::memory;
use crate::ops::Target;
use crate::options::LoadOptions;
use crate::source::{ModelFiles, licence};
use prefold_core::Capabilities;
use prefold_kernels::Dtype;

/// The result of [`check_model`].
#[derive(Debug, Clone)]
pub struct ModelCheck {
    /// The verdict: it runs, with exceptions, or does not, or nobody could look.
    pub verdict: Verdict,
    /// The model's description; absent where the files say too little.
    pub model: Option<CheckedModel>,
    /// The licence that the model's card names.
    pub licence: Option<String>,
}

/// The verdict on a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As its files mean it.
    Runs,
    /// It runs; the sentences say what is left out or was not checked.
    RunsBut(Vec<String>),
    /// It is refused; the reason names what is missing.
    DoesNotRun(String),
    /// Its files could not be looked at; the reason says why, which says nothing of the model.
    Unknown(String),
}

/// A model that runs.
#[derive(Debug, Clone)]
pub struct CheckedModel {
    /// The family's name in `config.json`, for example `qwen3`; of a model of several parts, those of all.
    pub family: String,
    /// `causal`, `full`, or either with windows.
    pub attention: String,
    /// Values of all tensors; absent where no header of them could be read.
    pub parameters: Option<u64>,
    /// Type of the weights in the files.
    pub stored_dtype: Option<String>,
    /// Memory by `--dtype`; empty for a table of vectors whose rows are not known.
    pub memory: Vec<Memory>,
    /// The answers that it can give.
    pub capabilities: Capabilities,
}

/// Memory of a model on a CPU in one type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// The type.
    pub dtype: Dtype,
    /// Weights and tables of positions.
    pub weights_bytes: u64,
    /// The longest input on its way through the layers, in addition.
    pub longest_input_bytes: u64,
}

/// The parts that a check of configuration alone leaves out.
const BARE: &str = "there are no tensors and no tokenizer, which a start needs; only the configuration was checked";

/// Types whose memory is told.
const DTYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8];

/// Checks the model that the options name. From the hub the small files and the headers of the tensors are read, some kilobytes.
///
/// Blocks: a hub download runs on its own runtime, so do not call this from async code.
pub fn check_model(options: &LoadOptions) -> ModelCheck {
    let files = match ModelFiles::inspect(options) {
        Ok(files) => files,
        Err(error) => return refused(&error, None),
    };
    let licence = files.licence().map(str::to_owned).or_else(|| licence::read(&files));
    match Inspection::of(options, files) {
        Ok(parts) if parts.is_empty() => {
            ModelCheck { verdict: Verdict::RunsBut(vec![BARE.to_owned()]), model: None, licence }
        }
        Ok(parts) => checked(&parts, licence),
        Err(error) => refused(&error, licence),
    }
}

fn refused(error: &LoadError, licence: Option<String>) -> ModelCheck {
    let verdict = if error.is_unseen() { Verdict::Unknown } else { Verdict::DoesNotRun };
    ModelCheck { verdict: verdict(error.to_string()), model: None, licence }
}

fn checked(parts: &[Inspection], licence: Option<String>) -> ModelCheck {
    let capabilities = joined(parts.iter().map(|part| &part.capabilities));
    let mut notes = capabilities.warnings.clone();
    let not_looked_for = match parts.iter().find(|part| part.weights.is_none()) {
        Some(part) if part.bare => Some(BARE),
        Some(_) => Some("its tensors are in no safetensors file, whose header could be read; they were not looked for"),
        None => None,
    };
    notes.extend(not_looked_for.map(str::to_owned));
    let weights = |part: &Inspection| part.weights.as_ref().map(Weights::parameters);
    let distinct = with_distinct_tensors(parts);
    let stored = |part: &Inspection| {
        let stored = part.weights.as_ref()?.stored_dtype(&part.config.typical_weight());
        Some(stored.to_owned())
    };
    let stored: Option<Vec<String>> = parts.iter().map(stored).collect();
    let model = CheckedModel {
        family: listed(parts.iter().map(|part| part.config.model_type.as_str())),
        attention: listed(parts.iter().map(|part| part.config.attention_name())),
        parameters: distinct.into_iter().map(weights).sum(),
        stored_dtype: stored.map(|stored| listed(stored.iter().map(String::as_str))),
        memory: memory_of(parts),
        capabilities,
    };
    let verdict = if notes.is_empty() { Verdict::Runs } else { Verdict::RunsBut(notes) };
    ModelCheck { verdict, model: Some(model), licence }
}

/// Memory of all parts, an input's that of the part that takes most.
fn memory_of(parts: &[Inspection]) -> Vec<Memory> {
    let distinct = with_distinct_tensors(parts);
    let told = DTYPES.into_iter().filter(|_| parts.iter().all(|part| part.config.vocab_size > 0));
    let memory = |dtype| {
        let longest = |part: &Inspection| part.capabilities.max_input_length;
        let of_input = |part: &Inspection| memory::of_inputs(&part.config, &Target::cpu(dtype)).bytes(longest(part));
        Memory {
            dtype,
            weights_bytes: distinct.iter().map(|part| memory::weights(&part.config, dtype, longest(part))).sum(),
            longest_input_bytes: parts.iter().map(of_input).max().unwrap_or(0),
        }
    };
    told.map(memory).collect()
}

/// The parts without those that have the tensors of one before.
fn with_distinct_tensors(parts: &[Inspection]) -> Vec<&Inspection> {
    let is_first = |index: usize| !parts[..index].iter().any(|other| parts[index].shares_tensors(other));
    (0..parts.len()).filter(|&index| is_first(index)).map(|index| &parts[index]).collect()
}

/// Names one after another, each once.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut known: Vec<&str> = Vec::new();
    for name in names.filter(|name| !name.is_empty()) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    known.join(", ")
}
