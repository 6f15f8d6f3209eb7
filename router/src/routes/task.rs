//! `POST /`: the model's own task, as on hosted inference endpoints.

use super::embed::{EmbedBody, SimilarityBody, embed_or_compare};
use super::predict::{PredictBody, Predictions, predict};
use super::predict_tokens::{PredictTokensBody, TokenPredictions, predict_tokens};
use super::rerank::{RerankAnswer, RerankBody, rerank};
use crate::error::ErrorIn;
use crate::state::App;
use crate::state::call::Head;
use crate::wire::accept::Accept;
use crate::wire::answer::Answer;
use crate::wire::body::{Json, RawBody};
use axum::extract::State;
use prefold_core::Task;
use utoipa::ToSchema;

/// Body of the task's own route: `/embed` or `/similarity`, `/rerank`, `/predict`, or `/predict_tokens`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes read")]
#[serde(untagged)]
pub(super) enum TaskBody {
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
pub(super) enum TaskAnswer<'a> {
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
pub(crate) async fn task(
    State(app): State<App>,
    head: Head,
    accept: Accept,
    body: RawBody,
) -> std::result::Result<Answer, ErrorIn> {
    own_task(&app, head, accept, body).await
}

/// The response of the default model's own route.
pub(super) async fn own_task(
    app: &App,
    head: Head,
    accept: Accept,
    mut body: RawBody,
) -> std::result::Result<Answer, ErrorIn> {
    let own = app.models.default().engine.info().capabilities.tasks().next();
    match own {
        Some(Task::Embed) | None => Ok(embed_or_compare(head, accept, body).await?),
        Some(Task::Rerank) => rerank(head, body).await,
        Some(Task::Classify) => Ok(predict(head, Json(body.parse().await?)).await?),
        Some(Task::ClassifyTokens) => Ok(predict_tokens(head, Json(body.parse().await?)).await?),
    }
}
