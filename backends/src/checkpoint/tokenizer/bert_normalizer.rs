//! Normalizer of BERT's tokenizer classes, which transformers builds from `tokenizer_config.json` and not from `tokenizer.json`.
//!
//! transformers 5 always does; version 4 changes the fields of a `BertNormalizer`, keeps its `clean_text` and, with MPNet's class, its
//! `handle_chinese_chars`, and keeps a normalizer of another kind. This module follows version 5.

use super::tokenizer_json::{self, CONFIG};
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_core::TokenizerSums;
use serde_json::{Map, Value};
use tokenizers::normalizers::BertNormalizer;
use tokenizers::{ModelWrapper, NormalizerWrapper, Tokenizer};

/// Class names in files, without the suffix `Fast`.
const CLASSES: [&str; 8] = [
    "BertTokenizer",
    "DistilBertTokenizer",
    "ElectraTokenizer",
    "MPNetTokenizer",
    "MobileBertTokenizer",
    "LxmertTokenizer",
    "SqueezeBertTokenizer",
    "LayoutLMTokenizer",
];
/// Model types with such a class if no file names one.
const MODEL_TYPES: [&str; 5] = ["bert", "distilbert", "electra", "mpnet", "nomic_bert"];
/// Model types with their own tokenizer, regardless of the class in a file.
const OTHER_MODEL_TYPES: [&str; 3] = ["modernbert", "qwen2", "mistral"];

/// The normalizer that `tokenizer_config.json` describes.
///
/// # Errors
/// A field is malformed.
pub(super) fn described(config: &Fields<'_>) -> Result<BertNormalizer, LoadError> {
    Ok(BertNormalizer::new(
        true,
        config.or("tokenize_chinese_chars", true)?,
        config.optional("strip_accents")?,
        config.or("do_lower_case", true)?,
    ))
}

/// Replaces the normalizer if the tokenizer's class is one of BERT's; `model` is `config.json`.
///
/// # Errors
/// A file is malformed, or the added tokens exceed a limit with this normalizer.
pub(super) fn apply(
    tokenizer: &mut Tokenizer,
    files: &ModelFiles,
    model: &Value,
    sums: &mut TokenizerSums,
) -> Result<(), LoadError> {
    let config = files.json(CONFIG)?.unwrap_or_else(|| Value::Object(Map::new()));
    let config = Fields::new(CONFIG, &config)?;
    if !matches!(tokenizer.get_model(), ModelWrapper::WordPiece(_)) || !has_class(&config, model)? {
        return Ok(());
    }
    let normalizer = described(&config)?;
    if !is_same(tokenizer.get_normalizer(), &normalizer) {
        tracing::info!(
            "the tokenizer's class and {CONFIG} overrule the normalizer of {}: {normalizer:?}",
            tokenizer_json::FILE
        );
        tokenizer_json::set_normalizer(tokenizer, normalizer.into(), sums)?;
    }
    Ok(())
}

/// `true` for one of the classes, named in `tokenizer_config.json`, otherwise in `config.json`.
fn has_class(config: &Fields<'_>, model: &Value) -> Result<bool, LoadError> {
    const FIELD: &str = "tokenizer_class";
    let model = Fields::new("config.json", model)?;
    let model_type: String = model.or("model_type", String::new())?;
    let named = config.optional::<String>(FIELD)?;
    let named = if named.is_none() { model.optional(FIELD)? } else { named };
    Ok(match named {
        _ if OTHER_MODEL_TYPES.contains(&model_type.as_str()) => false,
        Some(name) => CLASSES.contains(&name.trim_end_matches("Fast")),
        None => MODEL_TYPES.contains(&model_type.as_str()),
    })
}

fn is_same(found: Option<&NormalizerWrapper>, wanted: &BertNormalizer) -> bool {
    let fields = |it: &BertNormalizer| (it.clean_text, it.handle_chinese_chars, it.strip_accents, it.lowercase);
    matches!(found, Some(NormalizerWrapper::BertNormalizer(found)) if fields(found) == fields(wanted))
}
