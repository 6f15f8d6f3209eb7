//! Tokenizers of checkpoints, and their limits.

pub(crate) mod catch_panic;
pub(crate) mod tokenizer_json;

mod added_tokens;
mod around;
mod bert_normalizer;
mod class;
mod described_token;
mod llama_template;
mod named_tokens;
mod other_classes;
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
use serde_json::{Map, Value, json};
use tokenizers::Tokenizer;

/// A checkpoint's tokenizer.
pub(crate) struct ReadTokenizer {
    pub(crate) tokenizer: Tokenizer,
    /// The model is given the types of tokens.
    pub(crate) token_types: bool,
    /// Warnings about what is left out, or differs from transformers 5.
    pub(crate) warnings: Vec<String>,
}

/// The tokenizer of `tokenizer.json`, the GGUF file or `vocab.txt`, whichever exists first.
pub(crate) fn read(
    files: &ModelFiles,
    gguf: Option<&GgufFile>,
    (config, json): (&TransformerConfig, Option<&Value>),
    sums: &mut TokenizerSums,
) -> Result<ReadTokenizer, LoadError> {
    let of_texts = files.json(tokenizer_json::CONFIG)?.unwrap_or_else(|| Value::Object(Map::new()));
    let of_texts = Fields::new(tokenizer_json::CONFIG, &of_texts)?;
    let (mut overruled, mut beside) = (None, None);
    let tokenizer = match (tokenizer_json::read(files, sums)?, gguf) {
        (Some(mut tokenizer), _) => {
            beside = gguf.map(|gguf| of_gguf(gguf, config)).transpose()?;
            overruled = llama_template::apply(&mut tokenizer, &of_texts)?;
            tokenizer
        }
        (None, Some(gguf)) => gguf::tokenizer::tokenizer(gguf, sums)?,
        (None, None) => match vocab_txt::read(files, &config.model_type, sums)? {
            Some(tokenizer) => tokenizer,
            None => return Err(files.missing(tokenizer_json::FILE, &tokenizer_files::hint(|file| files.exists(file))?)),
        },
    };
    let mut read = match json.or(beside.as_ref()) {
        Some(json) => apply_config(tokenizer, files, (&of_texts, json, config), sums)?,
        None => {
            let token_types = tokenizer_json::gives_token_types(&of_texts, true)?;
            ReadTokenizer { tokenizer, token_types, warnings: vec![] }
        }
    };
    read.warnings.extend(overruled);
    Ok(read)
}

/// Stand-in for the `config.json` of a GGUF file with a `tokenizer.json` in its folder. The architecture `bert` covers
/// several model types; `llama` is Mistral's too, whose tokenizer is the file.
fn of_gguf(gguf: &GgufFile, config: &TransformerConfig) -> Result<Value, LoadError> {
    let model_type = match &*config.model_type {
        "bert" => "",
        "llama" => "mistral",
        _ => gguf.family()?.model_type,
    };
    Ok(json!({ "model_type": model_type }))
}

/// Applies `tokenizer_config.json` as the tokenizer's class does; `model` is `config.json`, and `read` what was read of it.
///
/// # Errors
/// A file is malformed, or the added tokens exceed a limit.
fn apply_config(
    mut tokenizer: Tokenizer,
    files: &ModelFiles,
    (config, model, read): (&Fields<'_>, &Value, &TransformerConfig),
    sums: &mut TokenizerSums,
) -> Result<ReadTokenizer, LoadError> {
    let model = Fields::new("config.json", model)?;
    let class = Class::read(config, &model, &read.model_type, (files, &tokenizer))?;
    let fits = class.fits(tokenizer.get_model());
    if fits {
        rebuilt::apply(&mut tokenizer, files, (config, class), sums)?;
    }
    let left_out = added_tokens::apply(&mut tokenizer, files, (class, read.vocab_size), sums)?;
    if fits {
        around::apply(&mut tokenizer, files, config, class)?;
    }
    let ignored = if fits { None } else { class.ignored(config, &model)? };
    let token_types = tokenizer_json::gives_token_types(config, class.gives_token_types())?;
    Ok(ReadTokenizer { tokenizer, token_types, warnings: ignored.into_iter().chain(left_out).collect() })
}
