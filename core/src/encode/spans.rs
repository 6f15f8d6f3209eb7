//! Tokens of texts with their positions in the text, for token classifiers.

use super::encoder::{Encoder, FittedText, Texts};
use super::options::ResolvedOptions;
use crate::error::Error;
use crate::request::Place;
use crate::response::TextToken;
use tokenizers::{Encoding, Model, ModelWrapper};

/// A text's tokens within the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spans {
    pub(crate) text: String,
    /// All ids, special ones included.
    pub(crate) ids: Vec<u32>,
    /// The tokens that are pieces of the text.
    pub(crate) tokens: Vec<TextToken>,
    /// For each id: it is one of `tokens`.
    pub(crate) kept: Vec<bool>,
    pub(crate) is_truncated: bool,
}

impl Encoder {
    /// The tokens of a text, no more than the options allow.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::TooLong`], [`Error::Validation`], [`Error::Tokenization`].
    pub(crate) fn spans(&self, text: String, place: Place, options: &ResolvedOptions) -> Result<Spans, Error> {
        let FittedText { whole, offsets, start, is_truncated } = self.fit_text(Texts::One(&text), place, options)?;
        if whole.is_empty() {
            return Err(Error::Empty { field: place.field, problem: place.problem("has no tokens") });
        }
        self.check_ids(whole.get_ids(), place)?;
        options.count_shown(whole.len(), place)?;
        options.hold(whole.len() * (size_of::<TextToken>() + size_of::<u32>()) + text.len())?;
        let kept: Vec<bool> = whole.get_special_tokens_mask().iter().map(|&mask| mask == 0).collect();
        let before = text[..start].chars().count();
        let tokens = (0..whole.len()).filter(|&index| kept[index]).zip(offsets);
        let (characters, unknown) = (Characters::of(&text), self.unknown_id());
        let tokens = tokens.map(|(index, (start, end))| {
            self.text_token(&whole, index, (start + before, end + before), &characters, unknown)
        });
        let tokens = tokens.collect();
        Ok(Spans { ids: whole.get_ids().to_vec(), tokens, kept, is_truncated, text })
    }

    /// A token as the pipeline of Hugging Face transformers sees it.
    fn text_token(
        &self,
        whole: &Encoding,
        index: usize,
        (start, end): (usize, usize),
        text: &Characters<'_>,
        unknown: Option<u32>,
    ) -> TextToken {
        let id = whole.get_ids()[index];
        let token = self.tokenizer.id_to_token(id).unwrap_or_else(|| whole.get_tokens()[index].clone());
        let piece = text.between(start, end);
        if unknown == Some(id) {
            return TextToken { id, token: piece.to_owned(), start, end, continues: false };
        }
        let continues = match self.tokenizer.get_model() {
            // Pieces that go on with a word have a prefix, so that they are longer than what they stand for.
            ModelWrapper::WordPiece(_) => token.chars().count() != end - start,
            ModelWrapper::BPE(model) if model.continuing_subword_prefix.as_ref().is_some_and(|it| !it.is_empty()) => {
                token.chars().count() != end - start
            }
            _ => start > 0 && !text.between(start - 1, start + 1).contains(' '),
        };
        TextToken { id, token, start, end, continues }
    }

    /// Id of the unknown token.
    fn unknown_id(&self) -> Option<u32> {
        /// A character that no text and so no vocabulary has.
        const NONE: &str = "\u{10ffff}";
        let model = self.tokenizer.get_model();
        let token = match model {
            ModelWrapper::WordPiece(model) => Some(model.unk_token.as_str()),
            ModelWrapper::WordLevel(model) => Some(model.unk_token.as_str()),
            ModelWrapper::BPE(model) => model.unk_token.as_deref(),
            // Unigram does not expose its unknown token; a byte-level one has none.
            ModelWrapper::Unigram(_) => {
                return match model.tokenize(NONE).as_deref() {
                    Ok([token]) => Some(token.id),
                    _ => None,
                };
            }
        };
        token.and_then(|token| self.tokenizer.token_to_id(token))
    }
}

/// The characters of a text by their numbers.
struct Characters<'t> {
    text: &'t str,
    /// Byte at which each begins, and the end of the last one.
    bytes: Vec<usize>,
}

impl<'t> Characters<'t> {
    fn of(text: &'t str) -> Self {
        Self { text, bytes: text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect() }
    }

    /// The characters from one to the next; fewer at the end of the text.
    fn between(&self, start: usize, end: usize) -> &'t str {
        let byte = |character: usize| self.bytes.get(character).copied().unwrap_or(self.text.len());
        self.text.get(byte(start)..byte(end).max(byte(start))).unwrap_or("")
    }
}

#[cfg(test)]
#[path = "tests/spans.rs"]
mod tests;
