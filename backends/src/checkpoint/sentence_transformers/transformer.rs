//! Config of sentence-transformers' Transformer module: the output that later modules get. Its [settings for texts](super::texts) are
//! read separately.

use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use crate::source::names::SENTENCE_CONFIGS;
use serde_json::Value;

/// Output of the model for later modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextOutput {
    /// The states of all tokens.
    States,
    /// The state of the first token through the pooler, a dense layer with tanh.
    Pooler,
}

/// File name and content of the config: the first of the known files that exists and has fields.
///
/// # Errors
/// A file cannot be read, or is not JSON.
pub(super) fn config(files: &ModelFiles) -> Result<Option<(&'static str, Value)>, LoadError> {
    for name in SENTENCE_CONFIGS {
        match files.json(name)? {
            Some(Value::Object(fields)) if fields.is_empty() => {}
            Some(config) => return Ok(Some((name, config))),
            None => {}
        }
    }
    Ok(None)
}

/// The output that the file names for later modules; by default the states, as in all versions before 6.
///
/// # Errors
/// The file is malformed, or asks for another output.
pub(crate) fn output(files: &ModelFiles) -> Result<TextOutput, LoadError> {
    let Some((name, config)) = config(files)? else { return Ok(TextOutput::States) };
    let fields = Fields::new(name, &config)?;
    let Some(modalities) = fields.object("modality_config")? else { return Ok(TextOutput::States) };
    let text =
        modalities.object("text")?.ok_or_else(|| modalities.problem("text", "is missing: the model takes no texts"))?;
    let method: String = text.required("method")?;
    if method != "forward" {
        return Err(text.unsupported("method", &format!("\"{method}\""), "forward"));
    }
    let found: String = text.required("method_output_name")?;
    // The names by which the next module reads an output; those of logits are for classifiers and LogitScore.
    let (output, names): (TextOutput, &[&str]) = match found.as_str() {
        "last_hidden_state" => (TextOutput::States, &["token_embeddings"]),
        "logits" => (TextOutput::States, &["causal_logits", "scores"]),
        "pooler_output" => (TextOutput::Pooler, &["sentence_embedding"]),
        other => {
            let supported = "last_hidden_state, pooler_output, logits";
            return Err(text.unsupported("method_output_name", &format!("\"{other}\""), supported));
        }
    };
    let name: String = fields.required("module_output_name")?;
    if names.contains(&name.as_str()) {
        return Ok(output);
    }
    Err(fields.unsupported("module_output_name", &format!("\"{name}\" of {found}"), names.join(", ")))
}
