//! Encoders of a model's sub-models; most models have a single one.

use super::encoder::Encoder;
use super::options::{Choices, ResolvedOptions};
use crate::error::Error;
use crate::request::EncodeOptions;

/// An encoder for each sub-model. Shared by the tokenization workers.
pub(crate) struct Encoders {
    /// Encoder of inputs without a task.
    first: Encoder,
    others: Vec<Encoder>,
}

impl Encoders {
    pub(crate) fn new(first: Encoder, others: Vec<Encoder>) -> Self {
        Self { first, others }
    }

    /// The encoder of inputs without a task.
    pub(crate) fn first(&self) -> &Encoder {
        &self.first
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Encoder> {
        std::iter::once(&self.first).chain(&self.others)
    }

    fn part(&self, index: usize) -> &Encoder {
        index.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.first)
    }

    /// Resolved options of a request, which may choose one of these prompts and tasks, within the limits of the selected sub-model.
    ///
    /// # Errors
    /// [`Error::Validation`] if the options do not fit the model.
    pub(crate) fn resolve<'a>(
        &self,
        options: &EncodeOptions,
        choices: impl Into<Choices<'a>>,
    ) -> Result<ResolvedOptions, Error> {
        let choices = choices.into();
        self.part(choices.part(options.task.as_deref())).resolve(options, choices)
    }

    /// The encoder of the inputs of a request with these options.
    pub(crate) fn of(&self, options: &ResolvedOptions) -> &Encoder {
        self.part(options.part)
    }
}
