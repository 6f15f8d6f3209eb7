//! Files of sentence-transformers modules: pooling, dense layers, prompts.

use crate::config::HeadActivation;
use crate::config::poolings::{self, POOLINGS};
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::{Pooling, Prompts};
use prefold_kernels::Activation;
use serde_json::Value;
use std::collections::BTreeMap;

const PROMPTS: &str = "config_sentence_transformers.json";
/// Maximum prompts of a model, and bytes of a prompt's name and text.
const MAX_PROMPTS: usize = 256;
const MAX_PROMPT_NAME: usize = 128;
const MAX_PROMPT_TEXT: usize = 16 << 10;
/// Input of a LogitScore module.
const LOGITS: &str = "causal_logits";

/// A dense layer after pooling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DenseModule {
    pub(crate) in_features: usize,
    pub(crate) out_features: usize,
    /// `[out_features, in_features]`
    pub(crate) weight: Vec<f32>,
    /// `[out_features]`
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) activation: HeadActivation,
}

/// Pooling in a folder's `config.json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolingConfig {
    /// Modes, in the order of their vectors.
    pub(crate) pooling: Vec<Pooling>,
    /// The tokens of a prompt are pooled too.
    pub(crate) include_prompt: bool,
}

/// Reads a pooling module.
///
/// # Errors
/// The config is missing or malformed, or has an unsupported pooling mode or another width.
pub(crate) fn pooling(files: &ModelFiles, folder: &str, hidden_size: usize) -> Result<PoolingConfig, LoadError> {
    let file = config_of(folder);
    let config = files.json(&file)?.ok_or_else(|| files.missing(&file, ""))?;
    let fields = Fields::new(&file, &config)?;
    for width in ["word_embedding_dimension", "embedding_dimension"] {
        if let Some(found) = fields.optional::<usize>(width)?.filter(|&found| found != hidden_size) {
            return Err(fields.problem(width, &format!("is {found}, but the model's `hidden_size` is {hidden_size}")));
        }
    }
    let known = POOLINGS.each_ref().map(|row| row.names[0]);
    let pooling: Vec<Pooling> = match fields.get("pooling_mode") {
        None => flagged_modes(&fields)?,
        Some(given) => {
            let names: Vec<String> = match given {
                Value::Array(_) => fields.required("pooling_mode")?,
                _ => vec![fields.required("pooling_mode")?],
            };
            if names.len() > POOLINGS.len() {
                let problem = format!("has {} modes, the limit is {}", names.len(), POOLINGS.len());
                return Err(fields.problem("pooling_mode", &problem));
            }
            let mode = |name: &String| match poolings::pooling(name, &known) {
                Some(pooling) => Ok(pooling),
                None => Err(LoadError::unsupported(&file, format!("pooling mode {name}"), known.join(", "))),
            };
            names.iter().map(mode).collect::<Result<_, _>>()?
        }
    };
    if pooling.is_empty() {
        return Err(LoadError::unsupported(&file, "no pooling mode", known.join(", ")));
    }
    Ok(PoolingConfig { pooling, include_prompt: fields.or("include_prompt", true)? })
}

/// Modes of a file with one flag per mode; mean if none is set, as in sentence-transformers.
fn flagged_modes(fields: &Fields<'_>) -> Result<Vec<Pooling>, LoadError> {
    let known = |key: &str| POOLINGS.iter().any(|row| row.flag == key);
    for (key, _) in fields.entries().filter(|(key, _)| key.starts_with("pooling_mode_") && !known(key)) {
        if fields.or(key, false)? {
            return Err(fields.unsupported(key, "true", POOLINGS.each_ref().map(|row| row.flag).join(", ")));
        }
    }
    let mut set = Vec::new();
    for row in &POOLINGS {
        if fields.or(row.flag, false)? {
            set.push(row.pooling);
        }
    }
    Ok(if set.is_empty() { vec![Pooling::Mean] } else { set })
}

/// Token ids of a LogitScore module: the negative token, if any, then the positive one.
///
/// # Errors
/// The config is missing or malformed, or its input is not logits.
pub(crate) fn score_tokens(files: &ModelFiles, folder: &str) -> Result<Vec<u32>, LoadError> {
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let input: String = fields.or("module_input_name", LOGITS.to_owned())?;
    if input != LOGITS {
        return Err(fields.unsupported("module_input_name", &format!("\"{input}\""), LOGITS));
    }
    let negative = fields.optional("false_token_id")?;
    Ok(negative.into_iter().chain([fields.required("true_token_id")?]).collect())
}

/// Reads a dense module with an input of `in_features` values.
///
/// # Errors
/// The config or weights are missing or malformed, or the activation is not supported.
pub(crate) fn dense(
    files: &ModelFiles,
    folder: &str,
    in_features: usize,
    with_weights: bool,
) -> Result<DenseModule, LoadError> {
    let folder = folder.trim_end_matches('/');
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let found: usize = fields.required("in_features")?;
    if found != in_features {
        return Err(fields.problem("in_features", &format!("is {found}, but its input is {in_features} wide")));
    }
    let out_features = match fields.required("out_features")? {
        out_features @ 1..=0x10_0000 => out_features,
        other => return Err(fields.problem("out_features", &format!("must be from 1 to 1048576, it is {other}"))),
    };
    // sentence-transformers' own default is Tanh.
    let activation: String = fields.or("activation_function", "Tanh".to_owned())?;
    let activation = match activation.rsplit('.').next().unwrap_or_default() {
        "Identity" => HeadActivation::Identity,
        "Tanh" => HeadActivation::Tanh,
        "ReLU" => HeadActivation::Of(Activation::Relu),
        "GELU" => HeadActivation::Of(Activation::Gelu),
        "SiLU" => HeadActivation::Of(Activation::Silu),
        _ => {
            let supported = "Identity, Tanh, ReLU, GELU, SiLU";
            return Err(fields.unsupported("activation_function", &format!("\"{activation}\""), supported));
        }
    };
    for (key, usual) in [("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")] {
        let value: String = fields.or(key, usual.to_owned())?;
        if value != usual {
            return Err(fields.unsupported(key, &format!("\"{value}\""), usual));
        }
    }
    if fields.or("use_residual", false)? {
        return Err(fields.unsupported("use_residual", "true", "false"));
    }
    if !with_weights {
        return Ok(DenseModule { in_features, out_features, weight: vec![], bias: None, activation });
    }
    let weights = files.weights_in(folder)?;
    let bias = fields.or("bias", true)?.then(|| weights.read("linear.bias", &[out_features])).transpose()?;
    let weight = weights.read("linear.weight", &[out_features, in_features])?;
    Ok(DenseModule { in_features, out_features, weight, bias, activation })
}

/// The model's named prompts.
///
/// # Errors
/// The file is malformed, or the default prompt is not among the prompts.
pub(crate) fn prompts(files: &ModelFiles) -> Result<Prompts, LoadError> {
    let Some(config) = files.json_at(PROMPTS)? else { return Ok(Prompts::default()) };
    let fields = Fields::new(PROMPTS, &config)?;
    let mut by_name = BTreeMap::new();
    if let Some(prompts) = fields.object("prompts")? {
        let count = prompts.entries().count();
        if count > MAX_PROMPTS {
            return Err(fields.problem("prompts", &format!("has {count} prompts, the limit is {MAX_PROMPTS}")));
        }
        for (name, _) in prompts.entries() {
            let text: String = prompts.or(name, String::new())?;
            for (what, found, limit) in
                [("a name", name.len(), MAX_PROMPT_NAME), ("a text", text.len(), MAX_PROMPT_TEXT)]
            {
                if found > limit {
                    return Err(prompts.problem(name, &format!("has {what} of {found} bytes, the limit is {limit}")));
                }
            }
            by_name.insert(name.clone(), text);
        }
    }
    let default = match fields.optional::<String>("default_prompt_name")? {
        None => None,
        Some(name) => match by_name.get(&name) {
            Some(text) => Some(text.clone()),
            None => return Err(fields.problem("default_prompt_name", &format!("\"{name}\" is not among `prompts`"))),
        },
    };
    Ok(Prompts { by_name, default, excluded: false })
}

/// Path of a module's config.
pub(crate) fn config_of(folder: &str) -> String {
    format!("{}/config.json", folder.trim_end_matches('/'))
}
