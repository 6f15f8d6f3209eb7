//! `POST /` in the description: the model's own task, under the address that hosted inference endpoints have.

use super::embed::{EmbedBody, SimilarityBody};
use super::predict::{PredictBody, Predictions};
use super::rerank::{RerankAnswer, RerankBody};
use utoipa::ToSchema;

/// What the route of the model's task takes: `/embed` or `/similarity`, `/rerank`, or `/predict`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes read")]
#[serde(untagged)]
enum TaskBody {
    Embed(EmbedBody),
    Similarity(SimilarityBody),
    Rerank(RerankBody),
    Predict(PredictBody),
}

/// What the route of the model's task answers.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes write")]
#[serde(untagged)]
enum TaskAnswer {
    Vectors(Vec<Vec<f32>>),
    Similarities(Vec<f32>),
    Rerank(RerankAnswer),
    Predict(Predictions),
}

/// The model's own task
///
/// As hosted inference endpoints are called: an embedding model answers as `/embed` does, or as `/similarity` where
/// `inputs` is an object; a reranker as `/rerank`; a classifier as `/predict`.
#[utoipa::path(
    post, path = "/", tag = "text-embeddings-inference", request_body = TaskBody,
    responses((status = 200, description = "What that route answers", content(
        (TaskAnswer = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
#[allow(dead_code, reason = "it is only described: which handler stands here depends on the model")]
pub(crate) fn task() {}
