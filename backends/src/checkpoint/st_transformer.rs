//! `sentence_bert_config.json`: what sentence-transformers' Transformer module does with texts and takes from the model.

use crate::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;

const SENTENCE_CONFIG: &str = "sentence_bert_config.json";

/// What later modules get from the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextOutput {
    /// The states of all tokens.
    States,
    /// The state of the first token through the pooler, a dense layer with tanh.
    Pooler,
}

/// What the file says that later modules get; the states without a word on it, as in all versions before 6.
///
/// # Errors
/// The file is malformed, or asks for another output.
pub(crate) fn output(files: &ModelFiles) -> Result<TextOutput, LoadError> {
    let Some(config) = files.json(SENTENCE_CONFIG)? else { return Ok(TextOutput::States) };
    let fields = Fields::new(SENTENCE_CONFIG, &config)?;
    let modalities = fields.object("modality_config")?;
    let Some(text) = modalities.map(|modalities| modalities.object("text")).transpose()?.flatten() else {
        return Ok(TextOutput::States);
    };
    let method: String = text.required("method")?;
    if method != "forward" {
        return Err(text.unsupported("method", &format!("\"{method}\""), "forward"));
    }
    match text.required::<String>("method_output_name")?.as_str() {
        // `logits` is what a LogitScore module reads.
        "last_hidden_state" | "logits" => Ok(TextOutput::States),
        "pooler_output" => {
            let name: String = fields.required("module_output_name")?;
            match name.as_str() {
                "sentence_embedding" => Ok(TextOutput::Pooler),
                _ => Err(fields.unsupported("module_output_name", &format!("\"{name}\""), "sentence_embedding")),
            }
        }
        other => {
            let supported = "last_hidden_state, pooler_output, logits";
            Err(text.unsupported("method_output_name", &format!("\"{other}\""), supported))
        }
    }
}

/// Maximum input length in `sentence_bert_config.json`, if any.
///
/// # Errors
/// The file is malformed, or changes the model's config.
pub(crate) fn max_seq_length(files: &ModelFiles) -> Result<Option<usize>, LoadError> {
    let Some(config) = files.json(SENTENCE_CONFIG)? else { return Ok(None) };
    let fields = Fields::new(SENTENCE_CONFIG, &config)?;
    // These override config.json. The library ignores `trust_remote_code` here.
    for name in ["config_args", "config_kwargs"] {
        let changes = fields.object(name)?;
        if let Some((key, _)) = changes.iter().flat_map(Fields::entries).find(|(key, _)| *key != "trust_remote_code") {
            return Err(fields.unsupported(name, &format!("with `{key}`"), "changes of config.json in config.json"));
        }
    }
    match fields.optional("max_seq_length")? {
        Some(0) => Err(fields.problem("max_seq_length", "must be above 0")),
        limit => Ok(limit),
    }
}

/// `true` if `sentence_bert_config.json` asks for texts in lower case, whatever the tokenizer does with them.
///
/// # Errors
/// The file is malformed.
pub(crate) fn lowercases(files: &ModelFiles) -> Result<bool, LoadError> {
    match files.json(SENTENCE_CONFIG)? {
        Some(config) => Fields::new(SENTENCE_CONFIG, &config)?.or("do_lower_case", false),
        None => Ok(false),
    }
}
