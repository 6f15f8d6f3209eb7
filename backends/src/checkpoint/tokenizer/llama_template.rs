//! Special tokens around a text of a Llama tokenizer.

use super::tokenizer_json::{self, CONFIG, FILE};
use crate::error::LoadError;
use crate::formats::special_tokens::{SecondText, Template, set_template};
use crate::json::Fields;
use serde_json::Value;
use tokenizers::Tokenizer;

/// Applies `add_bos_token` and `add_eos_token` of `tokenizer_config.json` where they disagree with the template in
/// `tokenizer.json`, as the Llama tokenizer class of transformers 4 does. Version 5 ignores them if there is a
/// `tokenizer.json`, but checkpoints with these fields were trained and published with version 4. Returns a warning about the fields that
/// changed something.
///
/// # Errors
/// A field is malformed, or names a token that the tokenizer lacks.
pub(super) fn apply(tokenizer: &mut Tokenizer, fields: &Fields<'_>) -> Result<Option<String>, LoadError> {
    let class: String = fields.or("tokenizer_class", String::new())?;
    if !matches!(class.as_str(), "LlamaTokenizer" | "LlamaTokenizerFast") {
        return Ok(None);
    }
    let encoded = tokenizer.encode("a", true).map_err(tokenizer_json::invalid)?;
    let mut wanted = Template { bos: None, eos: None, second: SecondText::Own };
    let mut changes = Vec::new();
    let ends =
        [("bos", &mut wanted.bos, encoded.get_ids().first()), ("eos", &mut wanted.eos, encoded.get_ids().last())];
    for (which, slot, found) in ends {
        let token = token_of(tokenizer, fields, &format!("{which}_token"))?;
        let is_added = token.as_ref().is_some_and(|(_, id)| found == Some(id));
        let field = format!("add_{which}_token");
        let adds = fields.or(&field, is_added)?;
        if adds && token.is_none() {
            return Err(fields.problem(&format!("{which}_token"), "must name a token of tokenizer.json"));
        }
        if adds != is_added {
            changes.push(format!("`{field}`: {adds}"));
        }
        *slot = token.filter(|_| adds);
    }
    if changes.is_empty() {
        return Ok(None);
    }
    set_template(tokenizer, &wanted).map_err(tokenizer_json::invalid)?;
    Ok(Some(format!(
        "{CONFIG}: {} overrules the special tokens around a text of {FILE}, as in transformers 4, with which such models were trained; \
         transformers 5 ignores it",
        changes.join(", ")
    )))
}

/// A token given as a string or as an object with `content`.
fn token_of(tokenizer: &Tokenizer, fields: &Fields<'_>, name: &str) -> Result<Option<(String, u32)>, LoadError> {
    let token: Option<String> = match fields.get(name) {
        Some(Value::Object(_)) => fields.object(name)?.map(|token| token.required("content")).transpose()?,
        _ => fields.optional(name)?,
    };
    Ok(token.and_then(|token| tokenizer.token_to_id(&token).map(|id| (token, id))))
}
