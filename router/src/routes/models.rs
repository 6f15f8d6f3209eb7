//! Names of the served models, for clients of OpenAI and Cohere.

use super::{Result, without_slash};
use crate::error::ApiError;
use crate::state::App;
use crate::state::registry::ServedModel;
use crate::wire::answer::Answer;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use prefold_core::{Task, shown};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Owner of the models.
const OWNER: &str = "prefold";

/// The served model, in two lists: OpenAI's clients read `data`, Cohere's `models`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// `list`
    object: &'static str,
    data: Vec<ModelObject>,
    /// The same, but only those of the endpoint that the request asks for.
    models: Vec<ModelObject>,
}

/// One of the names of the served model.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct ModelObject {
    id: String,
    /// `model`
    object: &'static str,
    /// Unix time of the server's start in seconds.
    created: u64,
    /// `prefold`; at `/models` `infinity`.
    owned_by: &'static str,
    /// Id of the model behind the name.
    root: String,
    /// Maximum tokens of an input.
    max_model_len: usize,
    /// Equal to `id`, for Cohere's clients.
    name: String,
    /// Routes of Cohere's API that the model answers: `embed`, `rerank`.
    endpoints: Vec<&'static str>,
    /// The same for the first name; empty for others.
    default_endpoints: Vec<&'static str>,
    /// Equal to `max_model_len`.
    context_length: usize,
    /// Always false.
    finetuned: bool,
    /// Always false.
    is_deprecated: bool,
}

/// Cohere's selection of models.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Selection {
    endpoint: Option<String>,
    #[serde(default)]
    default_only: bool,
}

impl Selection {
    fn has(&self, model: &ModelObject) -> bool {
        let endpoints = if self.default_only { &model.default_endpoints } else { &model.endpoints };
        self.endpoint.as_ref().is_none_or(|endpoint| endpoints.contains(&endpoint.as_str()))
    }
}

/// The names of the served model
///
/// The first is the name in responses; all mean the same model.
#[utoipa::path(
    get, path = "/v1/models", tag = "OpenAI",
    params(
        ("endpoint" = Option<String>, Query, description = "Route of Cohere's API (`embed`, `rerank`) that the models in `models` answer"),
        ("default_only" = Option<bool>, Query, description = "With `endpoint`: only the first name")
    ),
    responses((status = 200, description = "The names", body = ModelList))
)]
pub(crate) async fn models(
    State(app): State<App>,
    selection: std::result::Result<Query<Selection>, QueryRejection>,
) -> Answer {
    // Other clients may send a query of their own.
    let Query(selection) = selection.unwrap_or_default();
    let data: Vec<_> = named(&app).map(|(name, model)| model_object(&app, model, name, OWNER)).collect();
    let models = data.iter().filter(|model| selection.has(model)).cloned().collect();
    Answer::free(&ModelList { object: "list", data, models })
}

/// One name of the served model
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "OpenAI", params(("model" = String, Path, description = "A name")),
    responses(
        (status = 200, description = "The model", body = ModelObject),
        (status = 404, description = "No model has this name")
    )
)]
pub(crate) async fn model(State(app): State<App>, name: std::result::Result<Path<String>, PathRejection>) -> Result {
    // No model has a name that is not UTF-8.
    let name = name.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name);
    let name = without_slash(&name);
    match app.models.named(name) {
        Some(model) => Ok(Answer::free(&model_object(&app, model, name, OWNER))),
        None => Err(unknown_model(&app, name)),
    }
}

/// The error for a name that no model has.
pub(super) fn unknown_model(app: &App, name: &str) -> ApiError {
    let known: Vec<&str> = named(app).map(|(name, _)| name).collect();
    ApiError::UnknownModel { name: shown(name), known: known.join(", ") }
}

/// All names, each with its model.
pub(super) fn named(app: &App) -> impl Iterator<Item = (&str, &ServedModel)> {
    app.models.iter().flat_map(|model| model.names.all().map(move |name| (name, &**model)))
}

pub(super) fn model_object(app: &App, model: &ServedModel, name: &str, owned_by: &'static str) -> ModelObject {
    let capabilities = &model.engine.info().capabilities;
    let endpoints = capabilities.tasks().filter_map(|task| match task {
        Task::Embed => Some("embed"),
        Task::Rerank => Some("rerank"),
        // Cohere's `classify` takes examples instead of a classifier.
        Task::Classify | Task::ClassifyTokens => None,
    });
    let endpoints: Vec<_> = endpoints.collect();
    let is_first = app.models.default().names.served == name;
    ModelObject {
        id: name.to_owned(),
        object: "model",
        created: app.started,
        owned_by,
        root: model.names.id.clone(),
        max_model_len: capabilities.max_input_length,
        name: name.to_owned(),
        default_endpoints: if is_first { endpoints.clone() } else { Vec::new() },
        endpoints,
        context_length: capabilities.max_input_length,
        finetuned: false,
        is_deprecated: false,
    }
}
