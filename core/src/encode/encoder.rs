//! Encoder of one input to token ids, with prompt, special tokens, truncation and limits.

use super::growth::Growth;
use super::options::{Choices, ResolvedOptions};
use super::pieces::Pieces;
use super::rerank_prompt::EncodedTemplate;
use super::truncation_bound::{TruncationBound, whole};
use crate::capabilities::RerankTemplate;
use crate::error::Error;
use crate::plan::tokens::Tokens;
use crate::request::{EncodeLimits, EncodeOptions, Input, Place, SharedText, TruncationDirection};
use std::collections::HashSet;
use std::sync::OnceLock;
use tokenizers::{Encoding, PostProcessor, Tokenizer};

/// Mean bytes per token that few texts exceed.
const USUAL_TOKEN: usize = 8;

/// Maximum number of tokens assumed around a text: special tokens and a reranker's prompt.
const MAX_AROUND: usize = 64;

/// Encodes inputs for one model. Shared by the tokenization workers.
pub(crate) struct Encoder {
    pub(super) tokenizer: Tokenizer,
    pub(super) template: Option<EncodedTemplate>,
    /// Ids of special tokens, wherever they occur.
    pub(super) special_ids: HashSet<u32>,
    /// Ids that the tokenizer puts around a text, found with the first input of ids.
    pub(super) around: OnceLock<Vec<u32>>,
    pub(super) bound: TruncationBound,
    pub(super) growth: Growth,
    pub(super) limits: EncodeLimits,
    /// End to truncate for requests without a direction.
    direction: TruncationDirection,
}

/// An encoded input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Not empty, within the limits.
    pub(crate) tokens: Tokens,
    /// Characters of the input's texts.
    pub(crate) characters: usize,
    /// True if the input was truncated.
    pub(crate) is_truncated: bool,
    /// True for token ids that look like another tokenizer's.
    pub(crate) is_foreign: bool,
}

/// Ids of an input within the limits.
pub(super) struct Fitted {
    pub(super) ids: Vec<u32>,
    /// Empty if all are 0.
    pub(super) token_type_ids: Vec<u32>,
    pub(super) is_truncated: bool,
    pub(super) is_foreign: bool,
}

/// Texts that are joined to one input.
#[derive(Clone, Copy)]
pub(super) enum Texts<'a> {
    One(&'a str),
    Pair(&'a SharedText, &'a str),
}

/// The encoding of a text within the limits.
pub(super) struct FittedText {
    pub(super) whole: Encoding,
    /// The place of each token that is not special, in characters; empty unless the options ask for offsets.
    pub(super) offsets: Vec<(usize, usize)>,
    /// Byte of the text at which its offsets begin.
    pub(super) start: usize,
    pub(super) is_truncated: bool,
}

impl Encoder {
    /// Of the tokenizer's truncation settings only the direction is used, for requests without one.
    ///
    /// # Errors
    /// [`Error::Validation`] or [`Error::Tokenization`] if the template does not fit tokenizer and model, or the tokenizer
    /// exceeds the limits on its work.
    pub(crate) fn new(
        mut tokenizer: Tokenizer,
        template: Option<RerankTemplate>,
        limits: EncodeLimits,
    ) -> Result<Self, Error> {
        let place = Place { field: "tokenizer", index: None };
        let direction = match tokenizer.get_truncation().map(|truncation| truncation.direction) {
            Some(tokenizers::TruncationDirection::Left) => TruncationDirection::Left,
            Some(tokenizers::TruncationDirection::Right) | None => TruncationDirection::Right,
        };
        // The number of tokens to cut is decided here, and nothing is padded.
        tokenizer.with_truncation(None).map_err(|error| place.untokenizable(error))?;
        tokenizer.with_padding(None);
        let added = tokenizer.get_added_tokens_decoder();
        let special_ids = added.into_iter().filter(|(_, token)| token.special).map(|(id, _)| id).collect();
        let vocab = tokenizer.get_vocab(true);
        let bound = TruncationBound::new(&tokenizer, &vocab);
        let growth = Growth::new(&tokenizer, &vocab, limits.vocab_size).map_err(|problem| place.invalid(problem))?;
        let around = OnceLock::new();
        let mut encoder = Self { tokenizer, template: None, special_ids, around, bound, growth, limits, direction };
        encoder.template = template.map(|template| encoder.encode_template(template)).transpose()?;
        Ok(encoder)
    }

    /// Resolved options of a request, which may choose one of these prompts and tasks for its texts.
    ///
    /// # Errors
    /// [`Error::Validation`] if the options do not fit the model.
    pub(crate) fn resolve<'a>(
        &self,
        options: &EncodeOptions,
        choices: impl Into<Choices<'a>>,
    ) -> Result<ResolvedOptions, Error> {
        let resolved = ResolvedOptions::new(options, choices.into(), &self.limits)?;
        let skipped = self.skipped(&resolved)?;
        Ok(ResolvedOptions { direction: options.direction.unwrap_or(self.direction), skipped, ..resolved })
    }

    /// Tokens of a prompt that is not pooled, without a special token at its end, as sentence-transformers counts them.
    fn skipped(&self, options: &ResolvedOptions) -> Result<u32, Error> {
        let Some(prompt) = options.prompt.as_deref().filter(|_| options.excludes_prompt) else { return Ok(0) };
        let place = Place { field: options.prompt_field.unwrap_or("prompt"), index: None };
        self.growth.check_text(&self.tokenizer, prompt).map_err(|problem| place.invalid(problem))?;
        let encoding = self.tokenizer.encode_fast(prompt, options.add_special_tokens);
        let encoding = encoding.map_err(|error| place.untokenizable(error))?;
        let ends_special = encoding.get_ids().last().is_some_and(|id| self.special_ids.contains(id));
        let tokens = encoding.len().min(options.max_tokens) - usize::from(ends_special);
        Ok(u32::try_from(tokens).unwrap_or(u32::MAX))
    }

    /// Ids of one input, no more than the options allow.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Validation`], [`Error::ForeignIds`], [`Error::Tokenization`].
    pub(crate) fn encode(&self, input: Input, place: Place, options: &ResolvedOptions) -> Result<Encoded, Error> {
        let characters = characters(&input);
        if let Some(field) = options.prompt_field
            && !matches!(input, Input::Text(_) | Input::Pair(..))
        {
            return Err(Error::invalid(field, "is for texts; token ids are taken as they are"));
        }
        let Fitted { ids, token_type_ids, is_truncated, is_foreign } = match input {
            Input::Text(text) => self.encode_text(Texts::One(&options.with_prompt(text)), place, options)?,
            Input::Pair(first, second) => {
                self.encode_text(Texts::Pair(&options.with_prompt_shared(first), &second), place, options)?
            }
            Input::Ids(ids) => self.cut_ids(ids, place, options)?,
            Input::Rerank { instruction, query, document } => {
                self.encode_rerank(instruction, query, &document, place, options)?
            }
        };
        if ids.is_empty() {
            return Err(Error::Empty { field: place.field, problem: place.problem("has no tokens") });
        }
        // The tokenizer's files may know more tokens than the model has rows for.
        self.check_ids(&ids, place)?;
        let mut tokens = Tokens::new(ids);
        if !token_type_ids.is_empty() {
            tokens = tokens.with_token_types(token_type_ids).map_err(|error| place.untokenizable(error))?;
        }
        Ok(Encoded { tokens: tokens.with_task(options.task), characters, is_truncated, is_foreign })
    }

    /// Bytes of an input that are encoded, its prompt or query included.
    pub(crate) fn cost(&self, input: &Input, options: &ResolvedOptions) -> usize {
        let text = |len| self.text_cost(len, options);
        match input {
            Input::Text(text) => self.text_cost(options.prompt_len() + text.len(), options),
            Input::Pair(first, second) => text(options.prompt_len() + first.len()) + text(second.len()),
            Input::Ids(ids) => size_of_val(ids.as_slice()),
            Input::Rerank { instruction, query, document, .. } => {
                instruction.as_ref().map_or(0, |it| text(it.len())) + text(query.len()) + text(document.len())
            }
        }
    }

    /// Maximum tokens of an input, from its bytes, unless normalisation makes it longer.
    pub(crate) fn most_tokens_of(&self, input: &Input, options: &ResolvedOptions) -> usize {
        let tokens = match input {
            Input::Ids(ids) => ids.len(),
            Input::Text(_) | Input::Pair(..) | Input::Rerank { .. } => {
                options.prompt_len().saturating_add(input.bytes()).saturating_add(MAX_AROUND)
            }
        };
        tokens.min(options.max_tokens)
    }

    /// Bytes of a text of this length that are encoded.
    pub(crate) fn text_cost(&self, len: usize, options: &ResolvedOptions) -> usize {
        self.bound.encoded_bytes(len, options.max_tokens)
    }

    /// Token types; empty if the model has none or all are 0.
    fn token_types(&self, type_ids: &[u32], place: Place) -> Result<Vec<u32>, Error> {
        let limit = self.limits.token_types;
        match type_ids.iter().max() {
            Some(&largest) if limit > 1 && largest as usize >= limit => {
                Err(place
                    .untokenizable(format!("the tokenizer gives token type {largest}, the model has {limit} types")))
            }
            Some(1..) if limit > 1 => Ok(type_ids.to_vec()),
            _ => Ok(Vec::new()),
        }
    }

    /// Ids, including the special tokens that the post-processor adds. Pairs that are too long are truncated as
    /// `longest_first` does, or only in the second text if the request gives a number of tokens.
    fn encode_text(&self, texts: Texts<'_>, place: Place, options: &ResolvedOptions) -> Result<Fitted, Error> {
        let FittedText { whole, is_truncated, .. } = self.fit_text(texts, place, options)?;
        let token_type_ids = self.token_types(whole.get_type_ids(), place)?;
        Ok(Fitted { ids: whole.get_ids().to_vec(), token_type_ids, is_truncated, is_foreign: false })
    }

    /// The encoding of a text or a pair, with special tokens.
    pub(super) fn fit_text(
        &self,
        texts: Texts<'_>,
        place: Place,
        options: &ResolvedOptions,
    ) -> Result<FittedText, Error> {
        let (first, second) = match texts {
            Texts::One(text) => (text, None),
            Texts::Pair(first, second) => (&**first, Some(second)),
        };
        let first_place = if let Texts::Pair(first, _) = texts { first.place() } else { None };
        let limit = options.document_limit(place).unwrap_or(usize::MAX);
        let least = match second {
            Some(second) => self.bound.least_tokens(first) + self.bound.least_tokens(second).min(limit),
            None => self.bound.least_tokens(first).min(limit),
        };
        if least > options.max_tokens {
            let of_first = self.bound.least_tokens(first);
            match first_place.filter(|_| of_first > options.max_tokens) {
                Some(place) => options.check_truncation(of_first, true, place)?,
                None => options.check_truncation(least, true, place)?,
            }
        }
        let is_long = |text| self.bound.exceeds(text, options.max_tokens);
        let is_part = is_long(first) || second.is_some_and(is_long);
        let first = match texts {
            Texts::One(text) => match self.first_pieces(text, place, options)? {
                Some(pieces) => pieces,
                None => self.pieces(text, place, options)?,
            },
            Texts::Pair(first, _) => self.pieces_of_first(first, place, options)?,
        };
        let start = first.start;
        let second = second.map(|text| self.pieces(text, place, options)).transpose()?;
        let processor = self.tokenizer.get_post_processor().filter(|_| options.add_special_tokens);
        let added = processor.map_or(0, |processor| processor.added_tokens(second.is_some()));
        let lens = (first.len(), second.as_ref().map(Pieces::len));
        let (lens, is_truncated) = options.kept(lens, added, is_part, (first_place, place))?;
        let first = first.cut_to(lens[0], options.direction);
        let mut second = second.map(|second| second.cut_to(lens[1], options.direction));
        // The library's type of the second text, which only a post-processor changes.
        if self.tokenizer.get_post_processor().is_none() {
            second.iter_mut().for_each(|second| second.set_type_ids(vec![1; second.len()]));
        }
        // Pieces are post-processed already; doing it again would trim their offsets again.
        let offsets = if options.offsets { first.get_offsets().to_vec() } else { Vec::new() };
        let whole = self
            .tokenizer
            .post_process(first, second, options.add_special_tokens)
            .map_err(|error| place.untokenizable(error))?;
        if whole.len() > options.max_tokens {
            let limit = options.max_tokens;
            return Err(place.invalid(format!("has {added} special tokens, which do not fit the limit of {limit}")));
        }
        Ok(FittedText { whole, offsets, start, is_truncated })
    }

    fn cut_ids(&self, mut ids: Vec<u32>, place: Place, options: &ResolvedOptions) -> Result<Fitted, Error> {
        if let Some(problem) = self.beyond_vocabulary(&ids) {
            return Err(place.foreign(problem));
        }
        let is_foreign = self.check_origin(&ids, place)?;
        let is_truncated = ids.len() > options.max_tokens;
        if is_truncated {
            options.check_truncation(ids.len(), false, place)?;
            options.cut(&mut ids, 0, options.max_tokens);
        }
        Ok(Fitted { ids, token_type_ids: Vec::new(), is_truncated, is_foreign })
    }

    /// Checks that the model has an embedding for each token id.
    ///
    /// # Errors
    /// An id is not below the vocabulary's size.
    pub(super) fn check_ids(&self, ids: &[u32], place: Place) -> Result<(), Error> {
        self.beyond_vocabulary(ids).map_or(Ok(()), |problem| Err(place.invalid(problem)))
    }

    /// The first id without an embedding, as the rest of a sentence.
    fn beyond_vocabulary(&self, ids: &[u32]) -> Option<String> {
        let limit = self.limits.vocab_size;
        let (position, id) = ids.iter().enumerate().find(|&(_, &id)| id as usize >= limit)?;
        Some(format!("has token id {id} at position {position}, ids must be below {limit}"))
    }

    /// [`pieces`](Self::pieces) of a pair's first text, made once for all pairs of the request with the same text.
    fn pieces_of_first(&self, text: &SharedText, place: Place, options: &ResolvedOptions) -> Result<Pieces, Error> {
        let encode = || self.pieces(text, place, options);
        let of_all = || Some((text.clone(), encode().ok()?.kept_for(options.max_tokens, options.direction)));
        match options.first.get_or_init(of_all) {
            Some((known, pieces)) if known == text => Ok(pieces.clone()),
            _ => encode(),
        }
    }

    /// Tokens of a short part of a text to truncate, if it has enough of them: encoding takes hundreds of bytes of memory per byte of
    /// text, and few tokens are as long as the longest.
    fn first_pieces(&self, text: &str, place: Place, options: &ResolvedOptions) -> Result<Option<Pieces>, Error> {
        let mut bytes = options.max_tokens.saturating_mul(USUAL_TOKEN);
        while options.truncate
            && text.len() / 2 > bytes
            && !self.bound.is_as_long(bytes, options.max_tokens)
            && let Some(part) = self.bound.short_part(text, bytes, options.direction)
        {
            let pieces = self.encode_part(part, place, options)?;
            if pieces.len() > options.max_tokens {
                let start = if text.starts_with(part) { 0 } else { text.len() - part.len() };
                return Ok(Some(Pieces::new(pieces, start)));
            }
            bytes = bytes.saturating_mul(2);
        }
        Ok(None)
    }

    /// Tokens without special ones. Of a text that is far too long, only the tokens of the kept part, and the byte at which it begins.
    fn pieces(&self, text: &str, place: Place, options: &ResolvedOptions) -> Result<Pieces, Error> {
        let invalid = |problem| place.invalid(problem);
        let encode = |text: &str| self.encode_part(text, place, options);
        let part = self.bound.part(text, options.max_tokens, options.direction).map_err(invalid)?;
        let pieces = encode(part)?;
        // Normalisation may have left too little of the part.
        if part.len() < text.len() && pieces.len() <= options.max_tokens {
            return Ok(Pieces::new(encode(whole(text).map_err(invalid)?)?, 0));
        }
        // A part is the beginning or the end of the text.
        let begin = if text.starts_with(part) { 0 } else { text.len() - part.len() };
        Ok(Pieces::new(pieces, begin))
    }

    /// Encoding of a text or a part of it. The beginning of the request's prompt is encoded once for all texts.
    fn encode_part(&self, text: &str, place: Place, options: &ResolvedOptions) -> Result<Encoding, Error> {
        self.growth.check_text(&self.tokenizer, text).map_err(|problem| place.invalid(problem))?;
        let untokenizable = |error| place.untokenizable(error);
        if options.offsets {
            return self.tokenizer.encode_char_offsets(text, false).map_err(untokenizable);
        }
        let encode = |text: &str| self.tokenizer.encode_fast(text, false).map_err(untokenizable);
        match options.prompt.as_deref().and_then(|prompt| self.bound.split_prompt(prompt, text)) {
            Some((prompt, rest)) => {
                let encoded = options.prompt_tokens.get_or_init(|| encode(prompt).ok());
                let prompt = encoded.clone().map_or_else(|| encode(prompt), Ok)?;
                Ok(Encoding::merge([prompt, encode(rest)?], false))
            }
            None => encode(text),
        }
    }
}

fn characters(input: &Input) -> usize {
    match input {
        Input::Text(text) => text.chars().count(),
        Input::Pair(first, second) => first.characters() + second.chars().count(),
        Input::Ids(_) => 0,
        Input::Rerank { query, document, .. } => query.characters() + document.chars().count(),
    }
}

#[cfg(test)]
#[path = "tests/encoder.rs"]
mod tests;

#[cfg(test)]
#[path = "tests/token_types.rs"]
mod type_tests;
