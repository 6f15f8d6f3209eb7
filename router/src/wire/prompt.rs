//! Prompt and task of a request: by name, as a text, or by the type of its inputs.

use crate::state::call::Call;
use crate::state::ignored::Names;
use prefold_core::{Capabilities, Error, Prompt, Prompts, TaskProfile, shown};
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

/// Type of the inputs, as named by Voyage and Cohere. It selects the model's adapter or prompt of that name.
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
    const ALL: [Self; 4] = [Self::Query, Self::Document, Self::Classification, Self::Clustering];

    /// Names of the prompt or task in models' files, the best first. The last is Jina's task name; `doc` is from older
    /// examples of sentence-transformers.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["query", "search_query", "retrieval.query"],
            Self::Document => &["document", "passage", "corpus", "doc", "search_document", "retrieval.passage"],
            Self::Classification => &["classification"],
            Self::Clustering => &["clustering", "separation"],
        }
    }

    /// The type that a task implies.
    fn of_task(task: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|input_type| input_type.names().contains(&task))
    }
}

/// Type of the inputs as a request names it.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[serde(untagged)]
pub(crate) enum AskedType {
    /// A type that every model takes.
    Known(InputType),
    /// Name of one of the model's adapters or prompts, as in vLLM's API.
    OfModel(String),
}

impl<'de> Deserialize<'de> for AskedType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl From<String> for AskedType {
    fn from(name: String) -> Self {
        let known: StrDeserializer<'_, ValueError> = name.as_str().into_deserializer();
        InputType::deserialize(known).map_or(Self::OfModel(name), Self::Known)
    }
}

/// Values for vLLM's chat template.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub(crate) struct TemplateValues {
    /// Takes precedence over the field `instruction` of the request.
    pub(crate) instruction: Option<String>,
}

/// The prompts and the tasks of a model.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Choices<'a> {
    prompts: Option<&'a Prompts>,
    tasks: &'a [TaskProfile],
}

impl<'a> Choices<'a> {
    pub(crate) fn of(capabilities: &'a Capabilities) -> Self {
        let tasks = capabilities.embed.as_ref().map_or(&[][..], |embed| &embed.tasks);
        Self { prompts: capabilities.text_prompts(), tasks }
    }

    /// The first of these names that a task has, or else a prompt.
    fn find(self, names: &[&str]) -> Option<Purpose> {
        let tasks = || self.tasks.iter().map(|profile| &profile.task);
        let prompts = || self.prompts.iter().flat_map(|prompts| prompts.by_name.keys());
        let task = names.iter().find_map(|name| tasks().find(|known| known.eq_ignore_ascii_case(name)));
        if let Some(task) = task {
            return Some(Purpose { task: Some(task.clone()), prompt: None });
        }
        let prompt = names.iter().find_map(|name| prompts().find(|known| known.eq_ignore_ascii_case(name)));
        prompt.map(|prompt| Purpose { task: None, prompt: Some(Prompt::Named(prompt.clone())) })
    }
}

/// Purpose of a request's inputs: the task, which selects the adapter, and the prompt before them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Purpose {
    pub(crate) task: Option<String>,
    /// `None` for the task's, or the model's default.
    pub(crate) prompt: Option<Prompt>,
}

/// Fields that select the prompt (only one may be set) and the task.
#[derive(Debug, Default)]
pub(crate) struct PromptFields {
    /// A name from the model's prompts.
    pub(crate) prompt_name: Option<String>,
    /// The prompt itself.
    pub(crate) prompt: Option<String>,
    pub(crate) input_type: Option<AskedType>,
    /// Name of an adapter or, for a model without adapters, of a prompt.
    pub(crate) task: Option<String>,
}

impl PromptFields {
    /// The field that selects a prompt by another word than its name.
    pub(super) fn selector(&self) -> Option<&'static str> {
        match self {
            Self { prompt_name: None, prompt: None, input_type: Some(_), task: None } => Some("input_type"),
            Self { prompt_name: None, prompt: None, input_type: None, task: Some(_) } => Some("task"),
            _ => None,
        }
    }

    /// The purpose of the inputs. `ignore` gets each field that means nothing to the model, and the reason.
    ///
    /// # Errors
    /// [`Error::Validation`] if fields exclude each other, or the error of `ignore`.
    pub(crate) fn choose(
        self,
        choices: Choices<'_>,
        mut ignore: impl FnMut(&'static str, &str) -> Result<(), Error>,
    ) -> Result<Purpose, Error> {
        let Self { prompt_name, prompt, input_type, task } = self;
        let only_one =
            |field| Err(Error::invalid(field, "must be the only one of `prompt`, `prompt_name` and `input_type`"));
        let prompt = match (prompt_name, prompt, input_type) {
            (None, None, Some(_)) if task.is_some() => {
                return Err(Error::invalid("task", "must be the only one of `task` and `input_type`"));
            }
            (None, None, Some(AskedType::OfModel(name))) => {
                let found = choices.find(&[&name]);
                return found.ok_or_else(|| unknown_type(&name));
            }
            (None, None, Some(AskedType::Known(input_type))) => {
                let found = choices.find(input_type.names());
                if found.is_none() {
                    let name = input_type.names()[0];
                    ignore("input_type", &format!("the served model has no prompt called `{name}`"))?;
                }
                return Ok(found.unwrap_or_default());
            }
            (None, None, None) => None,
            (Some(name), None, None) => Some(Prompt::Named(name)),
            (None, Some(text), None) => Some(Prompt::Text(text)),
            (_, Some(_), _) => return only_one("prompt"),
            (Some(_), None, Some(_)) => return only_one("input_type"),
        };
        // The engine refuses a task that the model does not have.
        if task.is_none() || !choices.tasks.is_empty() {
            return Ok(Purpose { task, prompt });
        }
        let found = match (&prompt, task.as_deref()) {
            (None, Some(task)) => choices.find(&[task]).or_else(|| choices.find(InputType::of_task(task)?.names())),
            _ => None,
        };
        if found.is_none() {
            ignore("task", "the served model has no adapters, and no prompt for the task")?;
        }
        Ok(found.unwrap_or(Purpose { task: None, prompt }))
    }
}

fn unknown_type(name: &str) -> Error {
    let known = "expected `query`, `document`, `classification`, `clustering`, or the name of an adapter or prompt of the served model";
    Error::invalid("input_type", format!("is an unknown value `{}`: {known}", shown(name)))
}

/// Counts a field that means nothing to the model as ignored.
///
/// # Errors
/// [`Error::Validation`] with `--strict-fields`.
pub(crate) fn ignore(field: &'static str, problem: &str, call: &Call) -> Result<(), Error> {
    if call.http.strict_fields {
        return Err(Error::invalid(field, format!("has no effect: {problem} (--strict-fields)")));
    }
    call.ignored.add(Names::of(field));
    Ok(())
}
