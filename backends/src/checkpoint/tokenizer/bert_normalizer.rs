//! Normalizer of BERT's tokenizer classes, which transformers builds from `tokenizer_config.json` and not from `tokenizer.json`.
//!
//! transformers 5 always does; version 4 changes the fields of a `BertNormalizer`, keeps its `clean_text` and, with MPNet's class, its
//! `handle_chinese_chars`, and keeps a normalizer of another kind. This module follows version 5.

use crate::error::LoadError;
use crate::json::Fields;
use tokenizers::normalizers::BertNormalizer;

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
