//! Tokenizers of checkpoints, and their limits.

pub(crate) mod catch_panic;
pub(crate) mod tokenizer_json;

mod added_tokens;
mod around;
mod bert_normalizer;
mod class;
mod described_token;
mod rebuilt;
mod unknown_token;
mod vocab_txt;

use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::gguf::{self, GgufFile};
use crate::json::Fields;
use crate::source::{ModelFiles, tokenizer_files};
use class::Class;
use prefold_core::TokenizerSums;
use serde_json::{Map, Value};
use tokenizers::Tokenizer;

/// The tokenizer of `tokenizer.json`, the GGUF file or `vocab.txt`, whichever exists first, with a warning about tokens that are left out.
pub(crate) fn read(
    files: &ModelFiles,
    gguf: Option<&GgufFile>,
    (config, json): (&TransformerConfig, Option<&Value>),
    sums: &mut TokenizerSums,
) -> Result<(Tokenizer, Option<String>), LoadError> {
    let mut tokenizer = match (tokenizer_json::read(files, sums)?, gguf) {
        (Some(tokenizer), _) => tokenizer,
        (None, Some(gguf)) => return Ok((gguf::tokenizer::tokenizer(gguf, sums)?, None)),
        (None, None) => match vocab_txt::read(files, &config.model_type, sums)? {
            Some(tokenizer) => tokenizer,
            None => return Err(files.missing(tokenizer_json::FILE, &tokenizer_files::hint(|file| files.exists(file))?)),
        },
    };
    let warning = match json {
        Some(json) => apply_config(&mut tokenizer, files, (json, config.vocab_size), sums)?,
        None => None,
    };
    Ok((tokenizer, warning))
}

/// Applies `tokenizer_config.json` as the tokenizer's class does; `model` is `config.json`.
///
/// # Errors
/// A file is malformed, or the added tokens exceed a limit.
fn apply_config(
    tokenizer: &mut Tokenizer,
    files: &ModelFiles,
    (model, vocab_size): (&Value, usize),
    sums: &mut TokenizerSums,
) -> Result<Option<String>, LoadError> {
    let config = files.json(tokenizer_json::CONFIG)?.unwrap_or_else(|| Value::Object(Map::new()));
    let config = Fields::new(tokenizer_json::CONFIG, &config)?;
    let class = Class::read(&config, &Fields::new("config.json", model)?, tokenizer)?;
    if !class.fits(tokenizer.get_model()) {
        return added_tokens::apply(tokenizer, files, (class, vocab_size), sums);
    }
    rebuilt::apply(tokenizer, files, (&config, class), sums)?;
    let warning = added_tokens::apply(tokenizer, files, (class, vocab_size), sums)?;
    around::apply(tokenizer, files, &config, class)?;
    Ok(warning)
}
