//! Settings of DeBERTa's tokenizer class in `tokenizer_config.json`, which overrule `tokenizer.json`.

use super::tokenizer_json;
use crate::error::LoadError;
use crate::json::Fields;
use prefold_core::TokenizerSums;
use tokenizers::normalizers::Sequence as Normalizers;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::{NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

/// Applies `do_lower_case` and `split_by_punct`, both false by default.
///
/// # Errors
/// A field is malformed, or the added tokens exceed a limit.
pub(super) fn apply(tokenizer: &mut Tokenizer, config: &Fields<'_>, sums: &mut TokenizerSums) -> Result<(), LoadError> {
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
    let splits = |step: &PreTokenizerWrapper| matches!(step, PreTokenizerWrapper::Punctuation(_));
    let steps: Vec<PreTokenizerWrapper> = match tokenizer.get_pre_tokenizer() {
        Some(PreTokenizerWrapper::Sequence(steps)) => steps.as_ref().to_vec(),
        Some(step) => vec![step.clone()],
        None => vec![],
    };
    match (config.or("split_by_punct", false)?, steps.iter().any(splits)) {
        (true, false) => {
            let steps = [vec![Punctuation::default().into()], steps].concat();
            tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
        }
        (false, true) => {
            let kept = steps.into_iter().filter(|step| !splits(step)).collect();
            tokenizer.with_pre_tokenizer(Some(Sequence::new(kept)));
        }
        _ => {}
    }
    Ok(())
}
