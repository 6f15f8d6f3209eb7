//! Normalizer of BERT's tokenizer classes, which transformers builds from `tokenizer_config.json` and not from `tokenizer.json`.
//!
//! transformers 5 always does; version 4 changes the fields of a `BertNormalizer`, keeps its `clean_text` and, with MPNet's class, its
//! `handle_chinese_chars`, and keeps a normalizer of another kind. This module follows version 5.

use super::tokenizer_json::{self, CONFIG};
use crate::error::LoadError;
use crate::json::Fields;
use prefold_core::TokenizerSums;
use tokenizers::normalizers::BertNormalizer;
use tokenizers::{ModelWrapper, NormalizerWrapper, Tokenizer};

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

/// Replaces the normalizer of a tokenizer of one of BERT's classes.
///
/// # Errors
/// A field is malformed, or the added tokens exceed a limit with this normalizer.
pub(super) fn apply(tokenizer: &mut Tokenizer, config: &Fields<'_>, sums: &mut TokenizerSums) -> Result<(), LoadError> {
    if !matches!(tokenizer.get_model(), ModelWrapper::WordPiece(_)) {
        return Ok(());
    }
    let normalizer = described(config)?;
    if !is_same(tokenizer.get_normalizer(), &normalizer) {
        tracing::info!(
            "the tokenizer's class and {CONFIG} overrule the normalizer of {}: {normalizer:?}",
            tokenizer_json::FILE
        );
        tokenizer_json::set_normalizer(tokenizer, normalizer.into(), sums)?;
    }
    Ok(())
}

fn is_same(found: Option<&NormalizerWrapper>, wanted: &BertNormalizer) -> bool {
    let fields = |it: &BertNormalizer| (it.clean_text, it.handle_chinese_chars, it.strip_accents, it.lowercase);
    matches!(found, Some(NormalizerWrapper::BertNormalizer(found)) if fields(found) == fields(wanted))
}
