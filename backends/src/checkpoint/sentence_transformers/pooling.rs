//! Pooling modules.

use super::config_of;
use crate::config::TransformerConfig;
use crate::config::poolings::{self, POOLINGS};
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::Pooling;
use serde_json::Value;

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
pub(crate) fn read(
    files: &ModelFiles,
    folder: &str,
    transformer: &TransformerConfig,
) -> Result<PoolingConfig, LoadError> {
    let file = config_of(folder);
    let config = files.json(&file)?.ok_or_else(|| files.missing(&file, ""))?;
    let fields = Fields::new(&file, &config)?;
    let width = transformer.output_size;
    for field in ["word_embedding_dimension", "embedding_dimension"] {
        if let Some(found) = fields.optional::<usize>(field)?.filter(|&found| found != width) {
            let of_model = match transformer.names.output_projection {
                "" => format!("the model's `hidden_size` is {width}"),
                projection => format!(
                    "the model's class projects states with `{projection}.weight` to `num_labels` components, by default 2: {width}"
                ),
            };
            return Err(fields.problem(field, &format!("is {found}, but {of_model}")));
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
    // Null is false to sentence-transformers.
    let include_prompt = fields.or("include_prompt", !fields.mentions("include_prompt"))?;
    Ok(PoolingConfig { pooling, include_prompt })
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
