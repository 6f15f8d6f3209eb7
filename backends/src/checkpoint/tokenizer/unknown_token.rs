//! Settings of a tokenizer's model for texts that its vocabulary does not cover, which a class of transformers 5 chooses itself.

use super::class::Class;
use super::named_tokens::special_token;
use super::tokenizer_json;
use crate::error::LoadError;
use crate::formats::wordpiece::CONTINUES;
use crate::json::Fields;
use crate::source::ModelFiles;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::{Model, ModelWrapper, Tokenizer};

/// Letters of the longest word that WordPiece splits.
const MAX_LETTERS: usize = 100;

/// A character that no text has, so no vocabulary either.
const UNKNOWN: &str = "\u{10fffe}";

/// Sets the unknown token and what becomes of unknown characters.
///
/// # Errors
/// A field is malformed, or the vocabulary lacks the row of an unknown token.
pub(super) fn apply(
    tokenizer: &mut Tokenizer,
    files: &ModelFiles,
    config: &Fields<'_>,
    class: Class,
) -> Result<(), LoadError> {
    let [_, _, usual, ..] = class.special_tokens();
    let unknown = special_token(files, config, ("unk_token", usual))?;
    let changed: Option<ModelWrapper> = match tokenizer.get_model() {
        ModelWrapper::WordPiece(model) => {
            let found = (&*model.unk_token, &*model.continuing_subword_prefix, model.max_input_chars_per_word);
            (found != (&*unknown, CONTINUES, MAX_LETTERS)).then(|| {
                let mut model = model.clone();
                (model.unk_token, model.max_input_chars_per_word) = (unknown, MAX_LETTERS);
                model.continuing_subword_prefix = CONTINUES.to_owned();
                model.into()
            })
        }
        ModelWrapper::BPE(model) => merges(model, unknown, class).map(Into::into),
        ModelWrapper::Unigram(model) => pieces(model, &unknown, config, class)?.map(Into::into),
        ModelWrapper::WordLevel(_) => None,
    };
    if let Some(model) = changed {
        tracing::info!("the tokenizer's class overrules settings of the model in {}", tokenizer_json::FILE);
        tokenizer.with_model(model);
    }
    Ok(())
}

/// The model with the settings of its class, if they differ.
fn merges(model: &BPE, unknown: String, class: Class) -> Option<BPE> {
    let from_bytes = matches!(class, Class::Gemma | Class::Llama);
    let unknown = Some(unknown).filter(|_| class == Class::Gemma);
    let found = (&model.unk_token, model.fuse_unk, model.byte_fallback, model.ignore_merges);
    let has_suffix = model.end_of_word_suffix.as_deref().is_some_and(|suffix| !suffix.is_empty());
    (has_suffix || found != (&unknown, from_bytes, from_bytes, false)).then(|| {
        let mut model = model.clone();
        (model.unk_token, model.fuse_unk, model.byte_fallback) = (unknown, from_bytes, from_bytes);
        (model.ignore_merges, model.end_of_word_suffix) = (false, None);
        model
    })
}

/// The same of SentencePiece's pieces.
fn pieces(model: &Unigram, unknown: &str, config: &Fields<'_>, class: Class) -> Result<Option<Unigram>, LoadError> {
    let place = |scored: bool| model.iter().position(|(piece, score)| piece == unknown && (!scored || *score == 0.0));
    let wanted = match class {
        Class::XlmRoberta => 3,
        Class::T5 => 2,
        Class::Camembert => place(false).unwrap_or(0),
        _ => match place(true) {
            Some(place) => place,
            None => config.or("unk_id", 1)?,
        },
    };
    let found: Vec<u32> = model.tokenize(UNKNOWN).unwrap_or_default().iter().map(|token| token.id).collect();
    if found == [wanted as u32] {
        return Ok(None);
    }
    let pieces: Vec<(String, f64)> = model.iter().cloned().collect();
    Unigram::from(pieces, Some(wanted), false)
        .map(Some)
        .map_err(|error| tokenizer_json::invalid(error.to_string().into()))
}
