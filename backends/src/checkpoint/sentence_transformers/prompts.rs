//! Prompts in `config_sentence_transformers.json`.

use crate::error::LoadError;
use crate::json::{Fields, shown};
use crate::source::ModelFiles;
use prefold_core::Prompts;
use serde_json::Value;
use std::collections::BTreeMap;

const PROMPTS: &str = "config_sentence_transformers.json";
/// Maximum prompts of a model, and bytes of a prompt's name and text.
const MAX_PROMPTS: usize = 256;
const MAX_PROMPT_NAME: usize = 128;
const MAX_PROMPT_TEXT: usize = 16 << 10;

/// `true` if the file was saved by this class of sentence-transformers.
///
/// # Errors
/// The file is malformed.
pub(crate) fn are_of(files: &ModelFiles, class: &str) -> Result<bool, LoadError> {
    let Some(config) = files.json_at(PROMPTS)? else { return Ok(false) };
    Ok(Fields::new(PROMPTS, &config)?.or("model_type", String::new())? == class)
}

/// A warning about modules and prompts that sentence-transformers leaves out of an embedder, because another class saved them.
///
/// # Errors
/// The file is malformed.
pub(crate) fn of_other_class(files: &ModelFiles) -> Result<Option<String>, LoadError> {
    const FIELD: &str = "model_type";
    const CLASS: &str = "SentenceTransformer";
    let Some(config) = files.json_at(PROMPTS)? else { return Ok(None) };
    let fields = Fields::new(PROMPTS, &config)?;
    let class = fields.or(FIELD, String::new())?;
    Ok((fields.mentions(FIELD) && class != CLASS).then(|| {
        let class = shown(fields.get(FIELD).unwrap_or(&Value::Null));
        format!("{PROMPTS}: `{FIELD}` is {class}: sentence-transformers leaves out the modules and prompts, which are followed here")
    }))
}

/// The model's named prompts.
///
/// # Errors
/// The file is malformed, or the default prompt is not among the prompts.
pub(crate) fn read(files: &ModelFiles) -> Result<Prompts, LoadError> {
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
