//! Infinity's list of models with their figures: `/models`.

use super::models::{ModelObject, model_object, named};
use crate::state::App;
use crate::state::registry::ServedModel;
use crate::wire::answer::Answer;
use axum::extract::State;
use prefold_core::{Engine, Task};
use serde::Serialize;
use utoipa::ToSchema;

/// Infinity's client accepts no other owner.
const OWNER: &str = "infinity";

/// The names of the served model, with figures.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FiguredModels {
    /// `list`
    object: &'static str,
    data: Vec<FiguredModel>,
}

/// One of the names, with the model's figures.
#[derive(Debug, Serialize, ToSchema)]
struct FiguredModel {
    #[serde(flatten)]
    model: ModelObject,
    /// `prefold`
    backend: &'static str,
    /// Kinds of output, as `answers` of `/info`.
    capabilities: Vec<&'static str>,
    stats: Figures,
}

/// Load of the server.
#[derive(Debug, Serialize, ToSchema)]
struct Figures {
    /// `queue_absolute` divided by `--max-queued-inputs`.
    queue_fraction: f64,
    /// Waiting inputs.
    queue_absolute: usize,
    /// Requests that are not answered yet.
    results_pending: usize,
    /// Maximum inputs of a request that are processed together.
    batch_size: usize,
}

impl Figures {
    fn of(engine: &Engine) -> Self {
        let [requests, inputs, ..] = engine.quotas();
        let config = engine.config();
        Self {
            queue_fraction: inputs.held() as f64 / inputs.limit().max(1) as f64,
            queue_absolute: inputs.held(),
            results_pending: requests.held(),
            batch_size: config.max_client_batch_size.min(config.max_batch_requests.unwrap_or(usize::MAX)),
        }
    }
}

/// The names of the served model, with figures
///
/// As `/v1/models`, with what Infinity's client reads: what the model can do, and the load of the server.
#[utoipa::path(
    get, path = "/models", tag = "Infinity", operation_id = "infinity_models",
    responses((status = 200, description = "The names and the figures", body = FiguredModels))
)]
pub(crate) async fn models(State(app): State<App>) -> Answer {
    let figured = |(name, model): (&str, &ServedModel)| FiguredModel {
        model: model_object(&app, model, name, OWNER),
        backend: "prefold",
        capabilities: model.engine.info().capabilities.tasks().map(Task::as_str).collect(),
        stats: Figures::of(&model.engine),
    };
    Answer::free(&FiguredModels { object: "list", data: named(&app).map(figured).collect() })
}
