//! From one input to token ids: prompt, template, special tokens, truncation, limits.

use crate::rerank_prompt::{EncodedHead, EncodedTemplate};
use crate::text_bound::TextBound;
use crate::unqueued::MAX_OF_A_REQUEST;
use crate::{
    EncodeLimits, EncodeOptions, Error, Input, Place, Prompts, RerankTemplate, TokenInfo, TruncationDirection,
};
use std::collections::HashSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokenizers::{
    Encoding, NormalizedString, Normalizer, PostProcessor, Tokenizer, TruncationParams, TruncationStrategy,
    truncate_encodings,
};

/// Encodes inputs for one model. Shared by the tokenization workers.
pub(crate) struct Encoder {
    tokenizer: Tokenizer,
    prompts: Prompts,
    template: Option<EncodedTemplate>,
    /// Ids of special tokens, wherever they occur.
    special_ids: HashSet<u32>,
    bound: TextBound,
    limits: EncodeLimits,
}

/// An encoded input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Not empty, within the limits.
    pub(crate) input_ids: Vec<u32>,
    /// Characters of the input's texts.
    pub(crate) characters: usize,
}

impl Place {
    fn problem(self, problem: impl Display) -> String {
        self.index.map_or_else(|| problem.to_string(), |index| format!("item {index} {problem}"))
    }

    fn invalid(self, problem: impl Display) -> Error {
        Error::Validation { field: self.field, problem: self.problem(problem) }
    }

    fn untokenizable(self, error: impl Display) -> Error {
        Error::Tokenization { field: self.field, problem: self.problem(error) }
    }
}

/// [`EncodeOptions`] with the model's and the server's defaults filled in.
#[derive(Debug)]
pub(crate) struct Rules {
    prompt: Option<String>,
    named_prompt: bool,
    truncate: bool,
    /// Tokens of an input at most.
    max_tokens: usize,
    direction: TruncationDirection,
    add_special_tokens: bool,
    /// What stands before each document of a rerank request, encoded when the first of them is.
    head: OnceLock<Option<EncodedHead>>,
    /// Tokens of the request that were made to be looked at, or what they may be at most.
    shown: AtomicUsize,
}

impl Rules {
    /// Bytes that are put before a text.
    pub(crate) fn prompt_len(&self) -> usize {
        self.prompt.as_ref().map_or(0, String::len)
    }

    /// So many more tokens are made to be looked at.
    ///
    /// # Errors
    /// [`Error::Validation`] for more than a request may show.
    fn show(&self, tokens: usize, place: Place) -> Result<(), Error> {
        let before = self.shown.fetch_add(tokens, Ordering::Relaxed);
        if before.saturating_add(tokens) <= MAX_OF_A_REQUEST {
            return Ok(());
        }
        let problem = format!("may have more than {MAX_OF_A_REQUEST} tokens, which is the limit in a request");
        Err(Error::Validation { field: place.field, problem })
    }
}

impl Encoder {
    /// # Errors
    /// [`Error::Validation`] or [`Error::Tokenization`] if the template does not fit tokenizer and model.
    pub(crate) fn new(
        mut tokenizer: Tokenizer,
        prompts: Prompts,
        template: Option<RerankTemplate>,
        limits: EncodeLimits,
    ) -> Result<Self, Error> {
        let place = Place { field: "tokenizer", index: None };
        // What a tokenizer file says about both is not asked: cutting is decided here, and nothing is padded.
        tokenizer.with_truncation(None).map_err(|error| place.untokenizable(error))?;
        tokenizer.with_padding(None);
        let added = tokenizer.get_added_tokens_decoder();
        let special_ids = added.into_iter().filter(|(_, token)| token.special).map(|(id, _)| id).collect();
        let bound = TextBound::new(&tokenizer);
        let mut encoder = Self { tokenizer, prompts, template: None, special_ids, bound, limits };
        encoder.template = template.map(|template| encoder.encode_template(template)).transpose()?;
        Ok(encoder)
    }

    pub(crate) fn prompts(&self) -> &Prompts {
        &self.prompts
    }

    fn encode_template(&self, template: RerankTemplate) -> Result<EncodedTemplate, Error> {
        let place = Place { field: "template", index: None };
        template.check().map_err(|problem| place.invalid(problem))?;
        let template = EncodedTemplate::new(&self.tokenizer, template).map_err(|error| place.untokenizable(error))?;
        let head = template.head(&self.tokenizer, None, Arc::from("")).map_err(|error| place.untokenizable(error))?;
        self.check_ids(&head.input_ids, place)?;
        self.check_ids(&template.after, place)?;
        let fixed = head.input_ids.len() + template.after.len();
        if fixed >= self.limits.max_input_length {
            let limit = self.limits.max_input_length;
            return Err(place.invalid(format!("takes {fixed} tokens of the {limit} that an input may have")));
        }
        Ok(template)
    }

    /// # Errors
    /// [`Error::Validation`] if the model has no prompt of that name.
    pub(crate) fn rules(&self, options: &EncodeOptions) -> Result<Rules, Error> {
        let prompt = match &options.prompt_name {
            None => self.prompts.default.as_ref(),
            Some(name) => Some(self.prompts.by_name.get(name).ok_or_else(|| {
                let names: Vec<&str> = self.prompts.by_name.keys().map(String::as_str).collect();
                let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                let problem = format!("`{name}` is not a prompt of the served model; it has: {known}");
                Error::Validation { field: "prompt_name", problem }
            })?),
        };
        Ok(Rules {
            prompt: prompt.filter(|prompt| !prompt.is_empty()).cloned(),
            named_prompt: options.prompt_name.is_some(),
            truncate: options.max_tokens.is_some() || options.truncate.unwrap_or(self.limits.auto_truncate),
            max_tokens: self.max_tokens(options.max_tokens)?,
            direction: options.direction,
            add_special_tokens: options.add_special_tokens,
            head: OnceLock::new(),
            shown: AtomicUsize::new(0),
        })
    }

    fn max_tokens(&self, asked: Option<usize>) -> Result<usize, Error> {
        let limit = self.limits.max_input_length;
        match asked {
            None => Ok(limit),
            Some(asked) if (1..=limit).contains(&asked) => Ok(asked),
            Some(asked) => {
                let problem = format!("is {asked}; the served model takes 1 to {limit} tokens");
                Err(Error::Validation { field: "truncate_prompt_tokens", problem })
            }
        }
    }

    /// Ids of at most `max_input_length`, or of what the rules say.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::Validation`], [`Error::Tokenization`]; [`Error::WrongModelKind`] for a rerank
    /// prompt without a template.
    pub(crate) fn encode(&self, input: Input, place: Place, rules: &Rules) -> Result<Encoded, Error> {
        let characters = characters(&input);
        if rules.named_prompt && !matches!(input, Input::Text(_)) {
            let problem = "can be put before a text only".to_owned();
            return Err(Error::Validation { field: "prompt_name", problem });
        }
        let input_ids = match input {
            Input::Text(text) => self.encode_text(&prompted(text, rules), None, place, rules)?,
            Input::Pair(first, second) => self.encode_text(&first, Some(&second), place, rules)?,
            Input::Ids(ids) => self.cut_ids(ids, place, rules)?,
            Input::Rerank { instruction, query, query_place, document } => {
                self.encode_rerank(instruction, (query, query_place), &document, place, rules)?
            }
        };
        if input_ids.is_empty() {
            return Err(Error::Empty { field: place.field, problem: place.problem("has no tokens") });
        }
        // The tokenizer's files may know more tokens than the model has rows for.
        self.check_ids(&input_ids, place)?;
        Ok(Encoded { input_ids, characters })
    }

    /// With what the post-processor adds. Too long pairs are cut as `longest_first` does: the longer
    /// text first, and both to equal lengths if that is not enough.
    fn encode_text(&self, first: &str, second: Option<&str>, place: Place, rules: &Rules) -> Result<Vec<u32>, Error> {
        let is_long = |text| self.bound.exceeds(text, rules.max_tokens);
        let is_part = is_long(first) || second.is_some_and(is_long);
        let mut first = self.pieces(first, place, rules)?;
        let mut second = second.map(|text| self.pieces(text, place, rules)).transpose()?;
        let processor = self.tokenizer.get_post_processor().filter(|_| rules.add_special_tokens);
        let added = processor.map_or(0, |processor| processor.added_tokens(second.is_some()));
        let len = first.len() + second.as_ref().map_or(0, Encoding::len) + added;
        if len > rules.max_tokens {
            self.allow_cut(len, is_part, place, rules)?;
            let params = TruncationParams {
                direction: direction(rules.direction),
                max_length: rules.max_tokens.saturating_sub(added),
                strategy: TruncationStrategy::LongestFirst,
                stride: 0,
            };
            (first, second) = truncate_encodings(first, second, &params).map_err(|error| place.untokenizable(error))?;
            // What was cut off is kept there and would be post-processed too.
            first.take_overflowing();
            second.as_mut().map(Encoding::take_overflowing);
        }
        let whole = self
            .tokenizer
            .post_process(first, second, rules.add_special_tokens)
            .map_err(|error| place.untokenizable(error))?;
        let ids = whole.get_ids();
        if ids.len() > rules.max_tokens {
            let limit = rules.max_tokens;
            return Err(place.invalid(format!("has {added} special tokens, which do not fit the limit of {limit}")));
        }
        Ok(ids.to_vec())
    }

    fn cut_ids(&self, mut ids: Vec<u32>, place: Place, rules: &Rules) -> Result<Vec<u32>, Error> {
        self.check_ids(&ids, place)?;
        let len = ids.len();
        if len > rules.max_tokens {
            self.allow_cut(len, false, place, rules)?;
            cut(&mut ids, 0, len - rules.max_tokens, rules.direction);
        }
        Ok(ids)
    }

    /// The template's prompt. The document's first word is encoded together with what is before it, with which it may
    /// share a token.
    fn encode_rerank(
        &self,
        instruction: Option<Arc<str>>,
        (query, query_place): (Arc<str>, Place),
        document: &str,
        place: Place,
        rules: &Rules,
    ) -> Result<Vec<u32>, Error> {
        let Some(template) = &self.template else {
            return Err(Error::WrongModelKind("the served model has no rerank prompt".to_owned()));
        };
        let instruction_place = Place { field: "instruction", index: None };
        for (place, text) in [(query_place, Some(&query)), (instruction_place, instruction.as_ref())] {
            if text.is_some_and(|text| self.bound.exceeds(text, rules.max_tokens)) {
                let problem = format!("has more tokens than fit; the limit is {}", rules.max_tokens);
                return Err(place.invalid(problem));
            }
        }
        let encode = |instruction, query| template.head(&self.tokenizer, instruction, query);
        let first = rules.head.get_or_init(|| encode(instruction.clone(), Arc::clone(&query)).ok());
        let own;
        let head = match first {
            Some(head) if head.is_for(instruction.as_ref(), &query) => head,
            _ => {
                own = encode(instruction, query).map_err(|error| query_place.untokenizable(error))?;
                &own
            }
        };
        let part = self.bound.part(document, rules.max_tokens, rules.direction);
        let rest = match rules.direction {
            TruncationDirection::Left if part.len() < document.len() => {
                [&head.rest, TextBound::beginning(document), part].concat()
            }
            TruncationDirection::Left | TruncationDirection::Right => [&head.rest, part].concat(),
        };
        let rest = self.tokenizer.encode(rest, false).map_err(|error| place.untokenizable(error))?;
        let mut ids = [&head.input_ids, rest.get_ids()].concat();
        let len = ids.len() + template.after.len();
        if len > rules.max_tokens {
            let is_document = |&(_, end): &(usize, usize)| end > head.rest.len();
            let fixed = rest.get_offsets().iter().position(is_document).unwrap_or(rest.len());
            let kept = head.input_ids.len() + fixed;
            if kept + template.after.len() >= rules.max_tokens {
                return Err(query_place.invalid(format!(
                    "and its instruction have {} tokens together with the prompt, which leaves no room for a \
                     document; the limit is {}",
                    kept + template.after.len(),
                    rules.max_tokens
                )));
            }
            self.allow_cut(len, part.len() < document.len(), place, rules)?;
            cut(&mut ids, kept, len - rules.max_tokens, rules.direction);
        }
        ids.extend_from_slice(&template.after);
        Ok(ids)
    }

    /// `is_part`: of what is too long, only a part was encoded.
    fn allow_cut(&self, len: usize, is_part: bool, place: Place, rules: &Rules) -> Result<(), Error> {
        if rules.truncate {
            return Ok(());
        }
        let (limit, more) = (rules.max_tokens, if is_part { " or more" } else { "" });
        Err(place
            .invalid(format!("has {len} tokens{more}, the limit is {limit}; set `truncate` to cut what is too long")))
    }

    fn check_ids(&self, ids: &[u32], place: Place) -> Result<(), Error> {
        match ids.iter().position(|&id| id as usize >= self.limits.vocab_size) {
            None => Ok(()),
            Some(position) => {
                let (id, limit) = (ids[position], self.limits.vocab_size);
                Err(place.invalid(format!("has token id {id} at position {position}, ids must be below {limit}")))
            }
        }
    }

    /// Encodes without special tokens and without offsets; of a text that is far too long the part that is kept.
    fn pieces(&self, text: &str, place: Place, rules: &Rules) -> Result<Encoding, Error> {
        let encode = |text| self.tokenizer.encode_fast(text, false).map_err(|error| place.untokenizable(error));
        let part = self.bound.part(text, rules.max_tokens, rules.direction);
        let pieces = encode(part)?;
        // Normalisation may have left little of it.
        if part.len() < text.len() && pieces.len() <= rules.max_tokens { encode(text) } else { Ok(pieces) }
    }

    /// The tokens of a text for people to look at; nothing is cut.
    ///
    /// # Errors
    /// [`Error::Tokenization`]; [`Error::Validation`] for more tokens than a request may show, which the bytes of its
    /// texts do not bound: normalisation makes twelve of one character in four bytes.
    pub(crate) fn tokens(&self, text: String, place: Place, rules: &Rules) -> Result<Vec<TokenInfo>, Error> {
        let text = prompted(text, rules);
        // Before there are tokens, which take a hundred times as much memory.
        let expected = self.most_tokens(&text, place)?;
        rules.show(expected, place)?;
        let encoding = self
            .tokenizer
            .encode_char_offsets(text.as_str(), rules.add_special_tokens)
            .map_err(|error| place.untokenizable(error))?;
        rules.show(encoding.len().saturating_sub(expected), place)?;
        // Where each character begins, in bytes, and where the last one ends.
        let bytes: Vec<usize> = text.char_indices().map(|(byte, _)| byte).chain([text.len()]).collect();
        let tokens = encoding.get_ids().iter().zip(encoding.get_tokens()).zip(encoding.get_offsets());
        let infos = tokens.zip(encoding.get_special_tokens_mask()).map(|(((&id, token), &(start, stop)), &mask)| {
            if mask == 1 || self.special_ids.contains(&id) {
                return TokenInfo { id, text: token.clone(), special: true, start: None, stop: None };
            }
            let piece = bytes.get(start).zip(bytes.get(stop)).and_then(|(&start, &stop)| text.get(start..stop));
            let piece = piece.unwrap_or(token).to_owned();
            TokenInfo { id, text: piece, special: false, start: Some(start), stop: Some(stop) }
        });
        Ok(infos.collect())
    }

    /// Tokens of a text at most, special ones not counted: its bytes after normalisation. What stands for a space in some
    /// vocabularies has three bytes and is a token of its own.
    fn most_tokens(&self, text: &str, place: Place) -> Result<usize, Error> {
        let Some(normalizer) = self.tokenizer.get_normalizer() else { return Ok(text.len()) };
        let mut normalized = NormalizedString::from(text);
        normalizer.normalize(&mut normalized).map_err(|error| place.untokenizable(error))?;
        let normalized = normalized.get();
        Ok(normalized.len() - 2 * normalized.matches('\u{2581}').count())
    }

    pub(crate) fn decode(&self, ids: &[u32], place: Place, skip_special_tokens: bool) -> Result<String, Error> {
        self.check_ids(ids, place)?;
        self.tokenizer.decode(ids, skip_special_tokens).map_err(|error| place.untokenizable(error))
    }
}

/// Removes `excess` ids from the first or the last of `ids[kept..]`.
fn cut(ids: &mut Vec<u32>, kept: usize, excess: usize, direction: TruncationDirection) {
    match direction {
        TruncationDirection::Right => ids.truncate(ids.len() - excess),
        TruncationDirection::Left => drop(ids.drain(kept..kept + excess)),
    }
}

fn prompted(text: String, rules: &Rules) -> String {
    match &rules.prompt {
        Some(prompt) => [prompt.as_str(), &text].concat(),
        None => text,
    }
}

fn direction(direction: TruncationDirection) -> tokenizers::TruncationDirection {
    match direction {
        TruncationDirection::Left => tokenizers::TruncationDirection::Left,
        TruncationDirection::Right => tokenizers::TruncationDirection::Right,
    }
}

fn characters(input: &Input) -> usize {
    match input {
        Input::Text(text) => text.chars().count(),
        Input::Pair(first, second) => first.chars().count() + second.chars().count(),
        Input::Ids(_) => 0,
        Input::Rerank { query, document, .. } => query.chars().count() + document.chars().count(),
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
