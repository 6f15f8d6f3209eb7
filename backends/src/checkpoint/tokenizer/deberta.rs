//! Settings of DeBERTa's tokenizer class in `tokenizer_config.json`, which overrule `tokenizer.json`.

use super::tokenizer_json;
use crate::error::LoadError;
use crate::json::Fields;
use prefold_core::TokenizerSums;
use tokenizers::normalizers::Sequence as Normalizers;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

/// Applies `do_lower_case` and `split_by_punct`, both false by default, and `add_prefix_space`, true by default. Only Unigram models have the
/// class.
///
/// # Errors
/// A field is malformed, or the added tokens exceed a limit.
pub(super) fn apply(tokenizer: &mut Tokenizer, config: &Fields<'_>, sums: &mut TokenizerSums) -> Result<(), LoadError> {
    if !matches!(tokenizer.get_model(), ModelWrapper::Unigram(_)) {
        return Ok(());
    }
    let steps: Vec<NormalizerWrapper> = match tokenizer.get_normalizer() {
        Some(NormalizerWrapper::Sequence(steps)) => steps.as_ref().to_vec(),
        Some(step) => vec![step.clone()],
        None => vec![],
    };
    let is_lowercase = |step: &NormalizerWrapper| matches!(step, NormalizerWrapper::Lowercase(_));
    match (config.or("do_lower_case", false)?, steps.iter().any(is_lowercase)) {
        (true, false) => tokenizer_json::lowercase(tokenizer, sums)?,
        (false, true) => {
            let kept = steps.into_iter().filter(|step| !is_lowercase(step)).collect();
            tokenizer_json::set_normalizer(tokenizer, Normalizers::new(kept).into(), sums)?;
        }
        _ => {}
    }
    let splits = config.or("split_by_punct", false)?.then(|| Punctuation::default().into());
    let scheme = if config.or("add_prefix_space", true)? { PrependScheme::Always } else { PrependScheme::First };
    let words: PreTokenizerWrapper = Metaspace::new('\u{2581}', scheme, true).into();
    tokenizer.with_pre_tokenizer(Some(Sequence::new(splits.into_iter().chain([words]).collect())));
    Ok(())
}
