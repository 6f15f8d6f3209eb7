//! Prompt of a request: by name, as a text, or by the type of its inputs.

use crate::state::call::Call;
use crate::state::ignored::Names;
use prefold_core::{Error, Prompt, Prompts};
use serde::Deserialize;
use utoipa::ToSchema;

/// Type of the inputs, by the names of Voyage and Cohere. It selects the model's prompt of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputType {
    #[serde(alias = "search_query")]
    Query,
    #[serde(alias = "search_document", alias = "passage")]
    Document,
    Classification,
    Clustering,
}

impl InputType {
    /// Names that models give the prompt, the best first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["query", "search_query"],
            Self::Document => &["document", "passage", "search_document"],
            Self::Classification => &["classification"],
            Self::Clustering => &["clustering"],
        }
    }

    /// The model's prompt for this type.
    pub(crate) fn prompt(self, prompts: &Prompts) -> Option<Prompt> {
        let known = |name: &&str| prompts.by_name.keys().find(|known| known.eq_ignore_ascii_case(name));
        self.names().iter().find_map(known).cloned().map(Prompt::Named)
    }
}

/// Fields that select a prompt; one of them at most.
#[derive(Debug, Default)]
pub(crate) struct PromptFields {
    /// A name from the model's prompts.
    pub(crate) prompt_name: Option<String>,
    /// The prompt itself.
    pub(crate) prompt: Option<String>,
    pub(crate) input_type: Option<InputType>,
}

impl PromptFields {
    /// The prompt, of a type that of `by_type`; `None` for the model's default.
    ///
    /// # Errors
    /// [`Error::Validation`] if several fields are given, or what `by_type` reports.
    pub(crate) fn choose(
        self,
        by_type: impl FnOnce(InputType) -> Result<Option<Prompt>, Error>,
    ) -> Result<Option<Prompt>, Error> {
        let Self { prompt_name, prompt, input_type } = self;
        match (prompt_name, prompt, input_type) {
            (None, None, None) => Ok(None),
            (Some(name), None, None) => Ok(Some(Prompt::Named(name))),
            (None, Some(text), None) => Ok(Some(Prompt::Text(text))),
            (None, None, Some(input_type)) => by_type(input_type),
            (_, Some(_), _) => {
                Err(Error::invalid("prompt", "send only one of `prompt`, `prompt_name` and `input_type`"))
            }
            (Some(_), None, Some(_)) => {
                Err(Error::invalid("input_type", "send only one of `prompt`, `prompt_name` and `input_type`"))
            }
        }
    }
}

/// The prompt of a type in a request. A type for which the model has no prompt counts as an ignored field.
///
/// # Errors
/// [`Error::Validation`] for such a type with `--strict-fields`.
pub(super) fn by_type(input_type: InputType, call: &Call) -> Result<Option<Prompt>, Error> {
    let prompt = call.engine.info().capabilities.text_prompts().and_then(|prompts| input_type.prompt(prompts));
    if prompt.is_none() {
        if call.http.strict_fields {
            let problem =
                format!("the served model has no prompt called `{}` (--strict-fields)", input_type.names()[0]);
            return Err(Error::invalid("input_type", problem));
        }
        call.ignored.add(Names::of("input_type"));
    }
    Ok(prompt)
}
