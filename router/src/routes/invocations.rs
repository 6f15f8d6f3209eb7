//! `/invocations`: the route of a body's own API, as on SageMaker.

use super::Result;
use super::openai::{EmbeddingsBody, EmbeddingsResponse, embeddings};
use super::pooling::{PoolingBody, PoolingResponse, pooling};
use super::predict::{ClassifyAnswer, ClassifyBody, classify};
use super::rerank::{RerankAnswer, RerankBody, rerank, rerank_v1};
use super::score::{ScoreBody, ScoreResponse, score};
use super::task::{TaskAnswer, TaskBody, own_task};
use crate::error::{ApiError, ErrorIn};
use crate::state::App;
use crate::state::call::Head;
use crate::wire::accept::Accept;
use crate::wire::body::{Json, RawBody};
use crate::wire::refused::Messages;
use axum::extract::State;
use prefold_core::{Capabilities, Error};
use serde::Deserialize;
use serde::de::IgnoredAny;
use utoipa::ToSchema;

/// Body of one of the routes of vLLM or text-embeddings-inference; its fields decide which.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes read")]
#[serde(untagged)]
enum InvocationBody {
    Embeddings(EmbeddingsBody),
    Classify(ClassifyBody),
    Pooling(PoolingBody),
    Rerank(RerankBody),
    Score(ScoreBody),
    Task(TaskBody),
}

/// Response of one of these routes.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes what the routes write")]
#[serde(untagged)]
enum InvocationAnswer<'a> {
    Embeddings(EmbeddingsResponse<'a>),
    Classify(ClassifyAnswer<'a>),
    Pooling(PoolingResponse<'a>),
    Rerank(RerankAnswer),
    Score(ScoreResponse),
    Task(TaskAnswer<'a>),
}

/// Fields that decide.
#[derive(Deserialize)]
struct Fields {
    model: Option<String>,
    input: Option<IgnoredAny>,
    inputs: Option<IgnoredAny>,
    query: Option<IgnoredAny>,
    texts: Option<IgnoredAny>,
    #[allow(dead_code, reason = "deserializing it refuses it")]
    messages: Option<Messages>,
    #[serde(alias = "text_1", alias = "data_1")]
    queries: Option<IgnoredAny>,
}

/// The route that fits the body
///
/// The route of SageMaker's endpoints. The fields of the body decide which route answers it: `input` is for
/// `/v1/embeddings`, `/v1/classify` or `/pooling`, `inputs` for `/`, `query` for `/rerank`, `queries` for `/v1/score`.
#[utoipa::path(
    post, path = "/invocations", tag = "vLLM", request_body = InvocationBody,
    responses((status = 200, description = "The response of that route", content(
        (InvocationAnswer = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
pub(crate) async fn invocations(State(app): State<App>, head: Head, accept: Accept, mut body: RawBody) -> Result {
    let fields: Fields = body.probe().await?;
    let model = app.models.asked(fields.model.as_deref());
    let capabilities = &model.engine.info().capabilities;
    // This route's errors have one form.
    let plain = |ErrorIn { error, .. }| error;
    match fields {
        Fields { inputs: Some(_), .. } => own_task(&app, head, accept, body).await.map_err(plain),
        Fields { query: Some(_), texts: Some(_), .. } => rerank(head, body).await.map_err(plain),
        Fields { input: Some(_), .. } => match &**capabilities {
            Capabilities { embed: Some(_), .. } => embeddings(head, accept, Json(body.parse().await?)).await,
            Capabilities { classify: Some(_), .. } => classify(head, Json(body.parse().await?)).await,
            _ => pooling(head, accept, Json(body.parse().await?)).await,
        },
        Fields { query: Some(_), .. } => rerank_v1(head, Json(body.parse().await?)).await,
        Fields { queries: Some(_), .. } => score(head, Json(body.parse().await?)).await,
        Fields { .. } => {
            let problem = "is missing, and so are `inputs`, `query` and `queries`; one of them decides what is done";
            Err(ApiError::Engine(Error::invalid("input", problem)))
        }
    }
}
