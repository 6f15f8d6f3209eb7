//! Tokenizers of checkpoints, and their limits.

pub(crate) mod catch_panic;
pub(crate) mod tokenizer_json;

mod bert_normalizer;
mod vocab_txt;

use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::gguf::{self, GgufFile};
use crate::source::{ModelFiles, tokenizer_files};
use prefold_core::TokenizerSums;
use serde_json::Value;
use tokenizers::Tokenizer;

/// The tokenizer of `tokenizer.json`, the GGUF file or `vocab.txt`, whichever exists first.
pub(crate) fn read(
    files: &ModelFiles,
    gguf: Option<&GgufFile>,
    (config, json): (&TransformerConfig, Option<&Value>),
    sums: &mut TokenizerSums,
) -> Result<Tokenizer, LoadError> {
    if let Some(mut tokenizer) = tokenizer_json::read(files, sums)? {
        if let Some(json) = json {
            bert_normalizer::apply(&mut tokenizer, files, json, sums)?;
        }
        return Ok(tokenizer);
    }
    match gguf {
        Some(gguf) => gguf::tokenizer::tokenizer(gguf, sums),
        None => match vocab_txt::read(files, &config.model_type, sums)? {
            Some(tokenizer) => Ok(tokenizer),
            None => Err(files.missing(tokenizer_json::FILE, &tokenizer_files::hint(|file| files.exists(file))?)),
        },
    }
}
