//! Options of a request with the defaults of model and server filled in.

use super::pieces::{Pieces, longest_first};
use super::rerank_prompt::EncodedHead;
use crate::admission::quota::Share;
use crate::capabilities::{Embed, Prompts, TaskProfile};
use crate::error::Error;
use crate::outputs::{OutputKind, Outputs};
use crate::plan::tokens::TaskId;
use crate::request::{EncodeLimits, EncodeOptions, Input, Place, Prompt, SharedText, TruncationDirection};
use crate::{listed, shown};
use std::fmt::Display;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use tokenizers::Encoding;

/// The prompts and tasks among which a request may choose for an answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choices<'a> {
    pub(crate) prompts: Option<&'a Prompts>,
    pub(crate) tasks: &'a [TaskProfile],
}

impl<'a> From<Option<&'a Prompts>> for Choices<'a> {
    fn from(prompts: Option<&'a Prompts>) -> Self {
        Self { prompts, tasks: &[] }
    }
}

impl<'a> Choices<'a> {
    /// Prompts and tasks of an embedding model.
    pub(crate) fn of_embedder(embed: Option<&'a Embed>) -> Self {
        embed.map_or_else(Self::default, |embed| Self { prompts: Some(&embed.prompts), tasks: &embed.tasks })
    }

    /// Index of the sub-model for texts of a task; 0 for a task that the model does not have.
    pub(super) fn sub_model(self, task: Option<&str>) -> usize {
        let profile = task.and_then(|task| self.tasks.iter().find(|profile| profile.task == task));
        profile.map_or(0, |profile| profile.sub_model)
    }
}

/// [`EncodeOptions`] with all defaults filled in, and state that the inputs of one request share while they are encoded.
#[derive(Debug)]
pub(crate) struct ResolvedOptions {
    pub(super) prompt: Option<String>,
    /// Field of the request that asks for the prompt; `None` if it is the model's default.
    pub(super) prompt_field: Option<&'static str>,
    /// The tokens of the prompt are not pooled.
    pub(super) excludes_prompt: bool,
    /// Tokens at the beginning of a text that are not pooled: of its prompt, with the special tokens before it.
    pub(super) skipped: u32,
    pub(super) task: TaskId,
    /// Index of the sub-model for the inputs.
    pub(super) sub_model: usize,
    pub(super) truncate: bool,
    /// Maximum tokens of an input.
    pub(super) max_tokens: usize,
    /// Field with the documents, and the maximum tokens of each.
    pub(super) document_tokens: Option<(&'static str, usize)>,
    pub(super) direction: TruncationDirection,
    /// True to truncate only the second text of a pair.
    pub(super) cuts_documents_only: bool,
    pub(super) add_special_tokens: bool,
    /// Encodings have offsets, in characters.
    pub(super) offsets: bool,
    /// Prompt before each document of a rerank request, encoded with the first of them.
    pub(super) head: OnceLock<Option<EncodedHead>>,
    /// Tokens of the beginning of the prompt, encoded with the first text.
    pub(super) prompt_tokens: OnceLock<Option<Encoding>>,
    /// First text of the first pair, with its tokens: a rerank request has the same query in all pairs.
    pub(super) first: OnceLock<Option<(SharedText, Pieces)>>,
    /// Tokens that the request shows, or their upper bound.
    pub(super) shown: AtomicUsize,
    /// Share in which the shown tokens count.
    pub(super) share: Option<Arc<Share>>,
}

impl ResolvedOptions {
    /// # Errors
    /// [`Error::Validation`] if the model has no prompt or task of that name, the prompt is too long, or the model takes no inputs of
    /// that length.
    pub(super) fn new(options: &EncodeOptions, choices: Choices<'_>, limits: &EncodeLimits) -> Result<Self, Error> {
        let Choices { prompts, tasks } = choices;
        let task = options.task.as_ref().map(|task| numbered(task, tasks)).transpose()?;
        let prompt = match &options.prompt {
            None if task.is_some() => task.map(|(_, task)| &task.instruction),
            None => prompts.and_then(|prompts| prompts.default.as_ref()),
            Some(Prompt::Named(name)) => {
                let named = prompts.and_then(|prompts| prompts.by_name.get(name));
                Some(named.ok_or_else(|| unknown_prompt(name, prompts))?)
            }
            Some(Prompt::Text(text)) if text.len() > Prompt::MAX_BYTES => {
                let problem = format!("has {} bytes, the limit is {}", text.len(), Prompt::MAX_BYTES);
                return Err(Error::invalid("prompt", problem));
            }
            Some(Prompt::Text(text)) => Some(text),
        };
        let prompt = prompt.filter(|prompt| !prompt.is_empty());
        let excludes_prompts = match task {
            Some((_, task)) => task.excludes_prompts,
            None => prompts.is_some_and(|prompts| prompts.excluded),
        };
        let limit = limits.max_input_length;
        let of_task = task.and_then(|(_, task)| task.max_input_length).map_or(limit, |of_task| of_task.min(limit));
        let max_tokens = options.max_tokens.unwrap_or(of_task);
        if options.max_tokens.is_some() && !(1..=limit).contains(&max_tokens) {
            let problem = format!("is {max_tokens}; the served model takes 1 to {limit} tokens");
            return Err(Error::invalid("truncate_prompt_tokens", problem));
        }
        Ok(Self {
            prompt: prompt.cloned(),
            excludes_prompt: excludes_prompts,
            skipped: 0,
            prompt_field: options.prompt.as_ref().map(Prompt::field),
            task: task.map_or(TaskId::default(), |(id, _)| id),
            sub_model: task.map_or(0, |(_, task)| task.sub_model),
            truncate: options.truncate.unwrap_or(options.max_tokens.is_some() || limits.auto_truncate),
            max_tokens,
            document_tokens: options.max_document_tokens.map(|limit| (options.field, limit)),
            direction: options.direction.unwrap_or_default(),
            cuts_documents_only: options.max_tokens.is_some(),
            add_special_tokens: options.add_special_tokens,
            offsets: false,
            head: OnceLock::new(),
            prompt_tokens: OnceLock::new(),
            first: OnceLock::new(),
            shown: AtomicUsize::new(0),
            share: None,
        })
    }

    /// The same for a request whose tokens count in this share while they are shown.
    pub(crate) fn counting_in(self, share: Arc<Share>) -> Self {
        Self { share: Some(share), ..self }
    }

    /// Counts the bytes of tokens to display, before they are made.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while the other requests hold the share's limit.
    pub(super) fn hold(&self, bytes: usize) -> Result<(), Error> {
        self.share.as_ref().map_or(Ok(()), |share| share.grow(bytes))
    }

    /// True once the text that the inputs of the request share has been encoded.
    pub(crate) fn has_shared(&self) -> bool {
        self.head.get().is_some() || self.first.get().is_some()
    }

    /// The same for texts whose tokens are shown with their places.
    pub(crate) fn with_offsets(self) -> Self {
        Self { offsets: true, ..self }
    }

    /// Bytes of the prompt before a text.
    pub(crate) fn prompt_len(&self) -> usize {
        self.prompt.as_ref().map_or(0, String::len)
    }

    /// The outputs of inputs with these options. Inputs of ids have no prompt.
    ///
    /// # Errors
    /// [`Error::Validation`] for texts and ids together, if the tokens of a prompt are not pooled.
    pub(crate) fn pooled<'a>(
        &self,
        wanted: Outputs,
        mut inputs: impl Iterator<Item = &'a Input>,
        field: &'static str,
    ) -> Result<Outputs, Error> {
        let is_ids = |input: &Input| matches!(input, Input::Ids(_));
        if self.skipped == 0 || !wanted.contains(OutputKind::Embedding) {
            return Ok(wanted);
        }
        let first = inputs.next().is_some_and(is_ids);
        if inputs.any(|input| is_ids(input) != first) {
            return Err(Error::invalid(
                field,
                "has texts and token ids, which the model pools differently: send them apart",
            ));
        }
        Ok(if first { wanted } else { wanted.skipping(self.skipped) })
    }

    /// A text with its prompt.
    pub(super) fn with_prompt(&self, text: String) -> String {
        match &self.prompt {
            Some(prompt) => [prompt.as_str(), &text].concat(),
            None => text,
        }
    }

    /// The first text of a pair with its prompt; the second text has none, as in sentence-transformers' cross-encoders.
    pub(super) fn with_prompt_shared(&self, first: SharedText) -> SharedText {
        let Some(prompt) = &self.prompt else { return first };
        let whole = SharedText::from([prompt.as_str(), &first].concat());
        match first.place() {
            Some(place) => whole.at(place),
            None => whole,
        }
    }

    /// Maximum tokens of the document at this place, not counting the tokens around it; `None` for other texts and
    /// without such a limit.
    pub(super) fn document_limit(&self, place: Place) -> Option<usize> {
        self.document_tokens.filter(|(field, _)| *field == place.field).map(|(_, limit)| limit)
    }

    /// Tokens to keep of one text or of the two texts of a pair, to which the post-processor adds `added` tokens, and
    /// whether this truncates them. `is_part`: only a part of the texts was encoded. `first_place`: the place of a pair's first
    /// text, if it has its own.
    ///
    /// # Errors
    /// As [`check_fixed`](Self::check_fixed), [`check_truncation`](Self::check_truncation) and [`check_room`](Self::check_room).
    pub(super) fn kept(
        &self,
        (first, second): (usize, Option<usize>),
        added: usize,
        is_part: bool,
        (first_place, place): (Option<Place>, Place),
    ) -> Result<([usize; 2], bool), Error> {
        let limit = self.document_limit(place).unwrap_or(usize::MAX);
        let (lens, is_pair) = match second {
            Some(second) => ([first, second.min(limit)], true),
            None => ([first.min(limit), 0], false),
        };
        let len = lens[0] + lens[1] + added;
        if len <= self.max_tokens {
            return Ok((lens, lens != [first, second.unwrap_or(0)]));
        }
        if lens != [0, 0] {
            self.check_fixed(added)?;
        }
        if is_pair && (self.cuts_documents_only || first_place.is_some() && !self.truncate) {
            self.check_room(lens[0] + added, first_place, place)?;
        }
        self.check_truncation(len, is_part, place)?;
        let max = self.max_tokens.saturating_sub(added);
        // Special tokens alone would answer the same for every text.
        if max == 0 && lens != [0, 0] {
            let problem = format!("has no room for its text, because special tokens take {added}");
            return Err(self.too_long(place, problem));
        }
        let lens = match is_pair {
            true if self.cuts_documents_only => [lens[0], max - lens[0]],
            true => longest_first(lens, max),
            false => [max, 0],
        };
        Ok((lens, true))
    }

    /// Removes ids at one end of `ids[kept..]` until at most `room` are left.
    pub(super) fn cut(&self, ids: &mut Vec<u32>, kept: usize, room: usize) {
        let excess = ids.len().saturating_sub(room);
        match self.direction {
            TruncationDirection::Right => ids.truncate(ids.len() - excess),
            TruncationDirection::Left => drop(ids.drain(kept..kept + excess)),
        }
    }

    /// Checks a limit that the request sets against the tokens around its texts.
    ///
    /// # Errors
    /// [`Error::Validation`] if there is no room for any text.
    pub(super) fn check_fixed(&self, fixed: usize) -> Result<(), Error> {
        if self.cuts_documents_only && fixed >= self.max_tokens {
            let problem =
                format!("is {}, and the tokens around the text are {fixed}; send a higher limit", self.max_tokens);
            return Err(Error::invalid("truncate_prompt_tokens", problem));
        }
        Ok(())
    }

    /// # Errors
    /// [`Error::TooLong`] if the first text, which is not truncated, and the special tokens leave no room for the second. They have
    /// `kept` tokens.
    pub(super) fn check_room(&self, kept: usize, first_place: Option<Place>, place: Place) -> Result<(), Error> {
        if kept < self.max_tokens {
            return Ok(());
        }
        Err(match first_place {
            Some(first) => {
                let problem =
                    format!("has {kept} tokens, special tokens included, which leaves no room for a document");
                self.too_long(first, problem)
            }
            None => {
                self.too_long(place, format!("has no room after a query of {kept} tokens, special tokens included"))
            }
        })
    }

    /// # Errors
    /// [`Error::TooLong`] if inputs that are too long are not truncated. `is_part`: only a part of the input was encoded.
    pub(super) fn check_truncation(&self, len: usize, is_part: bool, place: Place) -> Result<(), Error> {
        if self.truncate {
            return Ok(());
        }
        let more = if is_part { " or more" } else { "" };
        Err(self.too_long(place, format!("has {len} tokens{more}, and truncation is off (`truncate`)")))
    }

    /// An error about a text that is too long. LiteLLM and others look for these words of OpenAI's message.
    pub(super) fn too_long(&self, place: Place, problem: impl Display) -> Error {
        let limit = self.max_tokens;
        let limit = match self.cuts_documents_only {
            true => format!("the limit is {limit}, as the request asks"),
            false => format!("this model's maximum context length is {limit} tokens"),
        };
        let problem = place.problem(format!("{problem}; {limit}. Please reduce the length of the input"));
        Error::TooLong { field: place.field, problem }
    }
}

fn unknown_prompt(name: &str, prompts: Option<&Prompts>) -> Error {
    let known = prompts.map_or_else(|| listed([].into_iter()), |it| listed(it.by_name.keys().map(String::as_str)));
    Error::invalid("prompt_name", format!("`{}` is not a prompt of the served model; it has: {known}", shown(name)))
}

/// Profile and number of a task.
///
/// # Errors
/// The model does not have the task; the error lists its tasks.
fn numbered<'a>(task: &str, profiles: &'a [TaskProfile]) -> Result<(TaskId, &'a TaskProfile), Error> {
    match (1..=u8::MAX).zip(profiles).find(|(_, profile)| profile.task == task) {
        Some((number, profile)) => Ok((TaskId(number), profile)),
        None => {
            let known = listed(profiles.iter().map(|profile| profile.task.as_str()));
            Err(Error::invalid("task", format!("`{}` is not a task of the served model; it has: {known}", shown(task))))
        }
    }
}

impl Place {
    /// The problem, after the number of the item at fault.
    pub(crate) fn problem(self, problem: impl Display) -> String {
        self.index.map_or_else(|| problem.to_string(), |index| format!("item {index} {problem}"))
    }

    /// An error about an invalid value.
    pub(super) fn invalid(self, problem: impl Display) -> Error {
        Error::invalid(self.field, self.problem(problem))
    }

    /// An error of the tokenizer.
    pub(crate) fn untokenizable(self, error: impl Display) -> Error {
        Error::Tokenization { field: self.field, problem: self.problem(error) }
    }
}

#[cfg(test)]
#[path = "tests/document_tokens.rs"]
mod document_tests;

#[cfg(test)]
#[path = "tests/options.rs"]
mod tests;
