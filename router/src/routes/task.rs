//! `POST /`: the model's own task, as on hosted inference endpoints.

use super::embed::{EmbedBody, SimilarityBody, embed_or_compare};
use super::predict::{PredictBody, Predictions, predict};
use super::predict_tokens::{PredictTokensBody, TokenPredictions, predict_tokens};
use super::rerank::{RerankAnswer, RerankBody, rerank};
use crate::state::App;
use axum::extract::{Request, State};
use axum::handler::Handler;
use axum::response::Response;
use prefold_core::Task;
use std::pin::Pin;
use utoipa::ToSchema;

/// Body of the task's own route: `/embed` or `/similarity`, `/rerank`, `/predict`, or `/predict_tokens`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes read")]
#[serde(untagged)]
enum TaskBody {
    Embed(EmbedBody),
    Similarity(SimilarityBody),
    Rerank(RerankBody),
    Predict(PredictBody),
    PredictTokens(PredictTokensBody),
}

/// Response of the task's own route.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes write")]
#[serde(untagged)]
enum TaskAnswer<'a> {
    Vectors(Vec<Vec<f32>>),
    Similarities(Vec<f32>),
    Rerank(RerankAnswer),
    Predict(Predictions<'a>),
    PredictTokens(TokenPredictions<'a>),
}

/// The model's own task
///
/// The route of hosted inference endpoints: an embedding model answers like `/embed`, or like `/similarity` if `inputs`
/// is an object; a reranker like `/rerank`; a classifier like `/predict`; a token classifier like `/predict_tokens`.
#[utoipa::path(
    post, path = "/", tag = "text-embeddings-inference", request_body = TaskBody,
    responses((status = 200, description = "The response of that route", content(
        (TaskAnswer = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
pub(crate) fn task(State(app): State<App>, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send>> {
    let own = app.models.default().engine.info().capabilities.tasks().next();
    match own {
        Some(Task::Embed) | None => embed_or_compare.call(request, app),
        Some(Task::Rerank) => rerank.call(request, app),
        Some(Task::Classify) => predict.call(request, app),
        Some(Task::ClassifyTokens) => predict_tokens.call(request, app),
    }
}
