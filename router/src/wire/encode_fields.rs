//! Fields of a request that control tokenization, truncation and priority.

use super::prompt::{Choices, PromptFields, Purpose, ignore};
use crate::state::call::Call;
use prefold_core::{EncodeOptions, Error, Priority, TruncationDirection};
use serde::Deserialize;
use utoipa::ToSchema;

/// Side of a text to truncate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
pub(crate) enum Direction {
    #[serde(rename = "right", alias = "Right")]
    Right,
    #[serde(rename = "left", alias = "Left")]
    Left,
}

/// Fields that control how and when inputs are encoded; `None` if the client did not send the field.
#[derive(Debug, Default)]
pub(crate) struct EncodeFields {
    pub(crate) truncate: Option<bool>,
    /// Truncate to this many tokens; -1 is the model's limit.
    pub(crate) truncate_prompt_tokens: Option<i64>,
    /// Truncate documents to this many tokens; 0 is no limit.
    pub(crate) max_tokens_per_doc: Option<usize>,
    pub(crate) truncation_direction: Option<Direction>,
    pub(crate) prompt: PromptFields,
    pub(crate) add_special_tokens: Option<bool>,
    pub(crate) priority: Option<i64>,
}

impl EncodeFields {
    /// Options of the inputs in `field`.
    ///
    /// # Errors
    /// [`Error::Validation`]
    pub(crate) fn for_field(self, field: &'static str, call: &Call) -> Result<EncodeOptions, Error> {
        let choices = Choices::of(&call.engine.info().capabilities);
        if let Some(sent) = self.prompt.selector() {
            call.sent.rename("prompt_name", sent);
        }
        self.options(field, choices, |field, problem| ignore(field, problem, call))
    }

    /// Options of the inputs in `field`, for a model with these prompts and adapters. `ignore` gets each field that
    /// means nothing to the model, and the reason.
    ///
    /// # Errors
    /// [`Error::Validation`], or the error of `ignore`.
    pub(crate) fn options(
        self,
        field: &'static str,
        choices: Choices<'_>,
        ignore: impl FnMut(&'static str, &str) -> Result<(), Error>,
    ) -> Result<EncodeOptions, Error> {
        let (truncate, max_tokens) = match self.truncate_prompt_tokens {
            None => (self.truncate, None),
            Some(-1) => (self.truncate.or(Some(true)), None),
            Some(tokens) => match usize::try_from(tokens) {
                Ok(tokens) => (self.truncate.or(Some(true)), Some(tokens)),
                Err(_) => {
                    let problem = format!("is {tokens}; it must be -1 (the model's limit) or a number of tokens");
                    return Err(Error::Validation { field: "truncate_prompt_tokens", problem });
                }
            },
        };
        let Purpose { task, prompt } = self.prompt.choose(choices, ignore)?;
        Ok(EncodeOptions {
            truncate,
            max_tokens,
            max_document_tokens: self.max_tokens_per_doc.filter(|&tokens| tokens > 0),
            direction: self.truncation_direction.map(|direction| match direction {
                Direction::Left => TruncationDirection::Left,
                Direction::Right => TruncationDirection::Right,
            }),
            priority: self.priority.map(Priority::new),
            prompt,
            task,
            add_special_tokens: self.add_special_tokens.unwrap_or(true),
            field,
        })
    }
}
