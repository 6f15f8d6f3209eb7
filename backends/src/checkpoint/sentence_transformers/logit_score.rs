//! LogitScore modules, which make a language model a reranker.

use super::config_of;
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;

/// Input of a LogitScore module.
const LOGITS: &str = "causal_logits";

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
