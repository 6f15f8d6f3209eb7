//! Tokens of a text for display, and texts from ids.

use super::encoder::Encoder;
use super::options::ResolvedOptions;
use crate::admission::tokenize_quota::MAX_OF_REQUEST;
use crate::error::Error;
use crate::request::Place;
use crate::response::TokenInfo;
use std::sync::atomic::{AtomicU64, Ordering};
use tokenizers::{NormalizedString, Normalizer};

/// Minimum bytes that the allocator takes for each of a token's two texts.
const LEAST_ALLOCATION: usize = 16;

impl ResolvedOptions {
    /// Counts tokens to display.
    ///
    /// # Errors
    /// [`Error::Validation`] for more than a request may have.
    pub(super) fn count_shown(&self, tokens: usize, place: Place) -> Result<(), Error> {
        let before = self.shown.fetch_add(tokens, Ordering::Relaxed);
        if before.saturating_add(tokens) <= MAX_OF_REQUEST {
            return Ok(());
        }
        let problem = format!("may have more than {MAX_OF_REQUEST} tokens, the limit of a request");
        Err(Error::invalid(place.field, problem))
    }
}

impl Encoder {
    /// Tokens of a text, which is not truncated.
    ///
    /// # Errors
    /// [`Error::Tokenization`]; [`Error::Validation`] for more tokens than a request may have. The bytes of the texts do not bound
    /// them: normalisation turns one character of four bytes into up to twelve.
    pub(crate) fn tokens(
        &self,
        text: String,
        place: Place,
        options: &ResolvedOptions,
    ) -> Result<Vec<TokenInfo>, Error> {
        let text = options.with_prompt(text);
        // Before there are tokens, which take a hundred times as much memory.
        let expected = self.most_tokens(&text, place)?;
        options.count_shown(expected, place)?;
        let encoding = self
            .tokenizer
            .encode_char_offsets(text.as_str(), options.add_special_tokens)
            .map_err(|error| place.untokenizable(error))?;
        options.count_shown(encoding.len().saturating_sub(expected), place)?;
        let strings: usize = encoding.get_tokens().iter().map(String::len).sum();
        options.hold(encoding.len() * (size_of::<TokenInfo>() + 2 * LEAST_ALLOCATION) + strings + text.len())?;
        // First byte of each character, and the end of the text.
        let bytes: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
        let tokens = encoding.get_ids().iter().zip(encoding.get_tokens()).zip(encoding.get_offsets());
        let infos = tokens.zip(encoding.get_special_tokens_mask()).map(|(((&id, token), &(start, stop)), &mask)| {
            let token = token.clone();
            if mask == 1 || self.special_ids.contains(&id) {
                return TokenInfo { id, text: token.clone(), token, special: true, start: None, stop: None };
            }
            let piece = bytes.get(start).zip(bytes.get(stop)).and_then(|(&start, &stop)| text.get(start..stop));
            let text = piece.unwrap_or(&token).to_owned();
            TokenInfo { id, token, text, special: false, start: Some(start), stop: Some(stop) }
        });
        Ok(infos.collect())
    }

    /// Upper bound of a text's tokens without special ones: its bytes after normalisation. The character that some vocabularies
    /// use for a space has three bytes and counts as one.
    fn most_tokens(&self, text: &str, place: Place) -> Result<usize, Error> {
        let Some(normalizer) = self.tokenizer.get_normalizer() else { return Ok(text.len()) };
        self.growth.check_text(&self.tokenizer, text).map_err(|problem| place.invalid(problem))?;
        let mut normalized = NormalizedString::from(text);
        normalizer.normalize(&mut normalized).map_err(|error| place.untokenizable(error))?;
        let normalized = normalized.get();
        Ok(normalized.len() - 2 * normalized.matches('\u{2581}').count())
    }

    /// Maximum bytes of the text of these ids.
    pub(crate) fn most_decoded(&self, ids: &[u32]) -> usize {
        usize::try_from(self.growth.most_decoded(ids)).unwrap_or(usize::MAX)
    }

    /// Text of a list of ids; `decoded` counts the bytes of a request.
    ///
    /// # Errors
    /// [`Error::Validation`] for an id beyond the vocabulary, or for more text than a request may decode;
    /// [`Error::Tokenization`].
    pub(crate) fn decode(
        &self,
        ids: &[u32],
        place: Place,
        skip_special_tokens: bool,
        decoded: &AtomicU64,
    ) -> Result<String, Error> {
        self.check_ids(ids, place)?;
        self.growth.count_decoded(ids, decoded).map_err(|problem| Error::invalid(place.field, problem))?;
        self.tokenizer.decode(ids, skip_special_tokens).map_err(|error| place.untokenizable(error))
    }
}
