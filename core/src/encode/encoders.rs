//! Encoders of a model's sub-models; most models have a single one.

use super::encoder::Encoder;
use super::options::{Choices, ResolvedOptions};
use crate::error::Error;
use crate::non_empty::NonEmpty;
use crate::request::EncodeOptions;

/// An encoder for each sub-model. Shared by the tokenization workers.
pub(crate) struct Encoders(NonEmpty<Encoder>);

impl Encoders {
    pub(crate) fn new(encoders: NonEmpty<Encoder>) -> Self {
        Self(encoders)
    }

    /// The encoder of inputs without a task.
    pub(crate) fn first(&self) -> &Encoder {
        self.0.first()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Encoder> {
        self.0.iter()
    }

    fn sub_model(&self, index: usize) -> &Encoder {
        self.0.get(index).unwrap_or(self.0.first())
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
        self.sub_model(choices.sub_model(options.task.as_deref())).resolve(options, choices)
    }

    /// The encoder of the inputs of a request with these options.
    pub(crate) fn of(&self, options: &ResolvedOptions) -> &Encoder {
        self.sub_model(options.sub_model)
    }
}
