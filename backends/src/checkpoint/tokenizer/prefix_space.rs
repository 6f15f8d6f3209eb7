//! `add_prefix_space` of `tokenizer_config.json`: a space before a text, so that its first word has the tokens that it has elsewhere.
//!
//! The classes of transformers 5 follow the field and ignore the value in `tokenizer.json`; without the field they have a default of their own.

use super::class::Class;
use super::tokenizer_json::{self, CONFIG};
use crate::error::LoadError;
use crate::json::Fields;
use tokenizers::normalizers::Sequence as Normalizers;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;
use tokenizers::{NormalizerWrapper, PostProcessorWrapper, PreTokenizerWrapper, Tokenizer};

const FIELD: &str = "add_prefix_space";

/// Sets the space of a tokenizer of this class.
///
/// # Errors
/// The field is malformed.
pub(super) fn apply(tokenizer: &mut Tokenizer, config: &Fields<'_>, class: Class) -> Result<(), LoadError> {
    let named: Option<bool> = config.optional(FIELD)?;
    let (adds, with, without) = match class {
        Class::Roberta | Class::Qwen2 => (named.unwrap_or(false), PrependScheme::Always, PrependScheme::Never),
        Class::XlmRoberta | Class::Camembert => (named.unwrap_or(true), PrependScheme::Always, PrependScheme::Never),
        Class::DebertaV2 => (named.unwrap_or(true), PrependScheme::Always, PrependScheme::First),
        Class::Llama => match named {
            None => return Ok(()),
            Some(adds) if config.or("legacy", false)? => (adds, PrependScheme::Always, PrependScheme::Never),
            Some(adds) => (adds, PrependScheme::First, PrependScheme::Never),
        },
        Class::Bert | Class::Mpnet | Class::Gemma | Class::Generic => return Ok(()),
    };
    let scheme = if adds { with } else { without };
    let Some(mut steps) = tokenizer.get_pre_tokenizer().cloned() else {
        return if adds { Ok(()) } else { remove_prepend(tokenizer) };
    };
    if set(&mut steps, (adds, scheme)) {
        tracing::info!("{CONFIG} and the tokenizer's class overrule `{FIELD}` of {}: {adds}", tokenizer_json::FILE);
        tokenizer.with_pre_tokenizer(Some(steps));
        if let Some(PostProcessorWrapper::Roberta(mut processor)) = tokenizer.get_post_processor().cloned() {
            processor.add_prefix_space = adds;
            tokenizer.with_post_processor(Some(processor));
        }
    }
    Ok(())
}

/// Sets the space in all steps that add one; `true` if that changes a step.
fn set(steps: &mut PreTokenizerWrapper, (adds, scheme): (bool, PrependScheme)) -> bool {
    match steps {
        PreTokenizerWrapper::ByteLevel(step) if step.add_prefix_space != adds => {
            step.add_prefix_space = adds;
            true
        }
        PreTokenizerWrapper::Metaspace(step) if step.get_prepend_scheme() != scheme => {
            step.set_prepend_scheme(scheme);
            true
        }
        PreTokenizerWrapper::Sequence(sequence) => {
            let mut changed = false;
            sequence.as_mut().iter_mut().for_each(|step| changed |= set(step, (adds, scheme)));
            changed
        }
        _ => false,
    }
}

/// Removes the step of older Llama files that puts the space before a text.
fn remove_prepend(tokenizer: &mut Tokenizer) -> Result<(), LoadError> {
    let Some(NormalizerWrapper::Sequence(steps)) = tokenizer.get_normalizer() else { return Ok(()) };
    let is_prepend = |step: &NormalizerWrapper| matches!(step, NormalizerWrapper::Prepend(_));
    let kept: Vec<NormalizerWrapper> = steps.as_ref().iter().filter(|step| !is_prepend(step)).cloned().collect();
    tokenizer.with_normalizer(Some(Normalizers::new(kept))).map(drop).map_err(tokenizer_json::invalid)
}
