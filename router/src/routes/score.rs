//! vLLM's scores of pairs: `/v1/score`.

use super::{Result, now, response_id};
use crate::answer::Answer;
use crate::app::App;
use crate::extract::{Direction, EncodeFields, Json, Texts};
use crate::schema::TextsSchema;
use crate::usage::UsageBody;
use axum::extract::State;
use prefold_core::ScoreRequest;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Pairs to score: one query with each document, or the queries and the documents at the same places.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ScoreBody {
    /// Also `text_1` or `data_1`.
    #[schema(value_type = TextsSchema)]
    #[serde(alias = "text_1", alias = "data_1", alias = "query")]
    queries: Texts,
    /// Also `items`, `text_2` or `data_2`.
    #[schema(value_type = TextsSchema)]
    #[serde(alias = "text_2", alias = "data_2", alias = "items")]
    documents: Texts,
    /// Echoed. There is one model, so any name is taken for it.
    model: Option<String>,
    /// False gives logits in place of probabilities.
    #[serde(alias = "activation")]
    use_activation: Option<bool>,
    /// Cut what is too long instead of refusing it; `--auto-truncate` when absent.
    #[serde(alias = "truncation")]
    truncate: Option<bool>,
    /// Cut each pair to so many tokens; -1 to what the model takes.
    truncate_prompt_tokens: Option<i64>,
    /// Which end to cut; right when absent.
    truncation_side: Option<Direction>,
    /// What relevant means, for models that are told in words.
    #[serde(alias = "instruct")]
    instruction: Option<String>,
}

/// A list of scores.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScoreResponse {
    id: String,
    /// `list`
    object: &'static str,
    /// Seconds since 1970.
    created: u64,
    model: String,
    /// In the order of the documents.
    data: Vec<PairScore>,
    usage: UsageBody,
}

/// A pair's score.
#[derive(Debug, Serialize, ToSchema)]
struct PairScore {
    index: usize,
    /// `score`
    object: &'static str,
    score: f32,
}

/// Scores of pairs
///
/// The same scores as those of the rerank routes, in the order of the request.
#[utoipa::path(
    post, path = "/v1/score", tag = "vLLM", request_body = ScoreBody,
    responses((status = 200, description = "A score for each pair", body = ScoreResponse))
)]
pub(crate) async fn score(State(app): State<App>, Json(body): Json<ScoreBody>) -> Result {
    let encode = EncodeFields {
        truncate: body.truncate,
        truncate_prompt_tokens: body.truncate_prompt_tokens,
        truncation_direction: body.truncation_side,
        ..Default::default()
    };
    let request = ScoreRequest {
        queries: body.queries.0,
        query_field: "queries",
        documents: body.documents.0,
        instruction: body.instruction,
        encode: encode.for_field("documents")?,
    };
    let answered = app.engine.score(request).await?;
    let raw = body.use_activation == Some(false);
    let scores = answered.results.iter().enumerate();
    let response = ScoreResponse {
        id: response_id("score"),
        object: "list",
        created: now(),
        model: body.model.unwrap_or_else(|| app.names.served.clone()),
        data: scores
            .map(|(index, score)| PairScore {
                index,
                object: "score",
                score: if raw { score.raw } else { score.score },
            })
            .collect(),
        usage: answered.usage.into(),
    };
    Ok(Answer::json(&answered, &response))
}
