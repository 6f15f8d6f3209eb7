//! vLLM's scores of pairs: `/v1/score`.

use super::Result;
use super::rerank::heeded_instruction;
use crate::state::call::Head;
use crate::state::unix_time;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::inputs::Texts;
use crate::wire::pieces::JsonText;
use crate::wire::request_body::request_body;
use crate::wire::schema::TextsSchema;
use crate::wire::usage::UsageBody;
use prefold_core::{LogitActivation, ScoreRequest};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

request_body! {
    /// Pairs to score: one query with each document, or queries and documents with equal indices.
    pub(crate) struct ScoreBody: model, truncation_side, scoring, vllm {
        /// Also `text_1` or `data_1`.
        #[schema(value_type = TextsSchema)]
        #[serde(alias = "text_1", alias = "data_1", alias = "query")]
        queries: Texts,
        /// Also `items`, `text_2` or `data_2`.
        #[schema(value_type = TextsSchema)]
        #[serde(alias = "text_2", alias = "data_2", alias = "items")]
        documents: Texts,
    }
}

/// A list of scores.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ScoreResponse {
    id: String,
    /// `list`
    object: &'static str,
    /// Unix time in seconds.
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
/// Scores in request order. They equal the scores of the rerank routes, except for a cross-encoder, which uses the
/// activation that it was trained with: `pair_activation` in `/info`.
#[utoipa::path(
    post, path = "/v1/score", tag = "vLLM",
    request_body(content = ScoreBody, example = json!({ "queries": "How do I lock a file?", "documents": ["Use flock.", "The tide comes in."] })),
    responses((status = 200, description = "A score for each pair", body = ScoreResponse))
)]
pub(crate) async fn score(head: Head, Json(mut body): Json<ScoreBody>) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    let model = call.model.names.answered(body.model.as_deref())?.to_owned();
    let encode = body.encode_fields().for_field("documents", &call)?;
    let instruction = heeded_instruction(body.instruction, body.chat_template_kwargs, &call)?;
    let request = ScoreRequest {
        queries: body.queries.0.into_vec(),
        query_field: "queries",
        documents: body.documents.0.into_vec(),
        instruction,
        encode,
    };
    let answered = call.engine.score(request).await?;
    let own = call.engine.info().capabilities.classify.as_ref().map(|classify| classify.pair_activation);
    let raw = body.use_activation == Some(false) || own == Some(LogitActivation::Identity);
    let response = ScoreResponse {
        id: call.response_id("score"),
        object: "list",
        created: unix_time(),
        model,
        data: Vec::new(),
        usage: answered.usage.into(),
    };
    Ok(Answer::json(answered, |scores| {
        let scores = scores.into_iter().enumerate().map(move |(index, score)| PairScore {
            index,
            object: "score",
            score: if raw { score.raw } else { score.score },
        });
        JsonText::around(&response, [("data", JsonText::default().values(scores))])
    }))
}
