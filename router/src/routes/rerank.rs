//! Reranking in two forms: TEI's bare list, and one object for all other clients.

use super::{Result, response_id};
use crate::error::ApiError;
use crate::state::call::Call;
use crate::state::unix_time;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::encode_fields::{Direction, EncodeFields};
use crate::wire::pieces::JsonText;
use crate::wire::prompt::ignore;
use crate::wire::schema::DocumentSchema;
use crate::wire::usage::UsageBody;
use prefold_core::{Error, Rerank, RerankScore, Response, ScoreRequest};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::sync::Arc;
use utoipa::ToSchema;

/// Documents per search unit, in which Cohere bills.
const DOCUMENTS_OF_A_SEARCH_UNIT: usize = 100;

/// A query and the documents to rank, with the fields of all clients.
///
/// The list decides the form of the response: `texts` for TEI's, `documents` for all other clients.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct RerankBody {
    query: String,
    /// For TEI's bare list.
    texts: Option<Vec<String>>,
    /// For the object of Cohere, Jina, Voyage, vLLM and Infinity.
    #[schema(value_type = Option<Vec<DocumentSchema>>)]
    documents: Option<Vec<Document>>,
    /// Truncate documents that are too long instead of rejecting them. Default: `--auto-truncate`.
    #[serde(alias = "truncation")]
    truncate: Option<bool>,
    /// Side to truncate. Default: that of the model's files, nearly always right.
    #[serde(alias = "truncation_side")]
    truncation_direction: Option<Direction>,
    /// Truncate each prompt or pair to this many tokens, at the expense of the document only; -1 is the model's limit.
    truncate_prompt_tokens: Option<i64>,
    /// Logits instead of probabilities.
    raw_scores: Option<bool>,
    /// False means `raw_scores`.
    #[serde(alias = "activation")]
    use_activation: Option<bool>,
    /// With `texts`: return each text with its score.
    return_text: Option<bool>,
    /// Any name is accepted, because there is one model; the response repeats it.
    model: Option<String>,
    /// Number of best documents to return, at least 1. Default: all.
    #[serde(alias = "top_k")]
    top_n: Option<usize>,
    /// With `documents`: return each document with its score.
    return_documents: Option<bool>,
    /// Meaning of relevance, for instruction-following models. Others ignore it, and the response's header `x-ignored-fields` names it.
    #[serde(alias = "instruct")]
    instruction: Option<String>,
    /// Priority among the requests of the same API key; lower goes first. The header `x-vllm-priority` comes before it.
    /// Default: 0.
    priority: Option<i64>,
}

/// A string or an object with `text`.
#[derive(Debug, PartialEq)]
struct Document(String);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(DocumentVisitor)
    }
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or an object with the field `text`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Document, E> {
        Ok(Document(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> std::result::Result<Document, A::Error> {
        #[derive(Deserialize)]
        struct Object {
            text: String,
        }
        Object::deserialize(MapAccessDeserializer::new(map)).map(|object| Document(object.text))
    }
}

/// An item of TEI's response.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TextScore {
    index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    score: f32,
}

/// Response for all clients: Cohere, Jina, vLLM and Infinity read `results`, Voyage reads `data`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RerankResponse {
    id: String,
    /// `list`; for `/rerank`, `rerank`.
    object: &'static str,
    /// Unix time in seconds.
    created: u64,
    model: String,
    /// Best score first.
    results: Vec<DocumentScore<TextObject>>,
    /// The same, with documents as strings.
    data: Vec<DocumentScore<String>>,
    usage: UsageBody,
    meta: Meta,
}

/// A document's score.
#[derive(Debug, Serialize, ToSchema)]
struct DocumentScore<T> {
    /// Index in the request.
    index: usize,
    relevance_score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<T>,
}

/// A document as an object.
#[derive(Debug, Serialize, ToSchema)]
struct TextObject {
    text: String,
}

/// Cohere's metadata.
#[derive(Debug, Serialize, ToSchema)]
struct Meta {
    api_version: ApiVersion,
    billed_units: BilledUnits,
}

/// Version of Cohere's API.
#[derive(Debug, Serialize, ToSchema)]
struct ApiVersion {
    version: &'static str,
}

/// Cohere's billing units.
#[derive(Debug, Serialize, ToSchema)]
struct BilledUnits {
    /// One per hundred documents.
    search_units: usize,
}

/// Documents in order of relevance, in two forms
///
/// With `texts` the response is TEI's list of `index` and `score`; with `documents` it is that of `/v1/rerank`. Scores
/// are the probability of "yes" of an LLM reranker, the sigmoid of the score of a classifier with one label, and the
/// cosine of query and document of an embedding model.
#[utoipa::path(
    post, path = "/rerank", tag = "Rerank", request_body = RerankBody,
    responses((status = 200, description = "The documents, the best first", content(
        (RerankAnswer = "application/json")
    )))
)]
pub(crate) async fn rerank(app: Call, Json(mut body): Json<RerankBody>) -> Result {
    match (body.texts.take(), body.documents.take()) {
        (Some(texts), None) => rerank_texts(&app, body, texts).await,
        (None, Some(documents)) => rerank_documents(&app, body, documents, UNVERSIONED).await,
        (Some(_), Some(_)) => {
            Err(invalid("documents", "cannot be combined with `texts`: send either `texts` or `documents`"))
        }
        (None, None) => Err(invalid("texts", "is missing; send either `texts` or `documents`")),
    }
}

/// The two forms of the response.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: scores are written one by one")]
pub(crate) enum RerankAnswer {
    Texts(Vec<TextScore>),
    Documents(RerankResponse),
}

/// Documents in order of relevance
///
/// For clients of Cohere (v1), Jina, Voyage, vLLM and Infinity.
#[utoipa::path(
    post, path = "/v1/rerank", tag = "Rerank", request_body = RerankBody,
    responses((status = 200, description = "The documents, the best first", body = RerankResponse))
)]
pub(crate) async fn rerank_v1(app: Call, Json(body): Json<RerankBody>) -> Result {
    rerank_versioned(&app, body, Form { version: "1", object: "list" }).await
}

/// Documents in order of relevance
///
/// The same for clients of Cohere v2.
#[utoipa::path(
    post, path = "/v2/rerank", tag = "Rerank", request_body = RerankBody,
    responses((status = 200, description = "The documents, the best first", body = RerankResponse))
)]
pub(crate) async fn rerank_v2(app: Call, Json(body): Json<RerankBody>) -> Result {
    rerank_versioned(&app, body, Form { version: "2", object: "list" }).await
}

/// Differences between the responses of the routes.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// Version of Cohere's API.
    version: &'static str,
    object: &'static str,
}

/// Infinity's client accepts no other object.
const UNVERSIONED: Form = Form { version: "1", object: "rerank" };

async fn rerank_versioned(app: &Call, mut body: RerankBody, form: Form) -> Result {
    match body.documents.take() {
        Some(documents) => rerank_documents(app, body, documents, form).await,
        None => Err(invalid("documents", "is missing")),
    }
}

async fn rerank_texts(app: &Call, body: RerankBody, texts: Vec<String>) -> Result {
    let kept = body.return_text.unwrap_or(false).then(|| app.copies_of(&texts)).transpose()?;
    let (answered, order) = score(app, body, texts, "texts").await?;
    let lines = order.into_iter().map(move |Ranked { index, score }| TextScore {
        index,
        text: kept.as_ref().map(|texts| texts[index].clone()),
        score,
    });
    Ok(Answer::json(answered, |_| JsonText::default().values(lines)))
}

async fn rerank_documents(app: &Call, body: RerankBody, documents: Vec<Document>, form: Form) -> Result {
    let texts: Vec<String> = documents.into_iter().map(|document| document.0).collect();
    let search_units = texts.len().div_ceil(DOCUMENTS_OF_A_SEARCH_UNIT);
    let kept = body.return_documents.unwrap_or(false).then(|| app.copies_of(&texts)).transpose()?;
    let model = body.model.clone().unwrap_or_else(|| app.names.served.clone());
    let (answered, order) = score(app, body, texts, "documents").await?;
    let response = RerankResponse {
        id: response_id("rerank"),
        object: form.object,
        created: unix_time(),
        model,
        results: Vec::new(),
        data: Vec::new(),
        usage: answered.usage.into(),
        meta: Meta { api_version: ApiVersion { version: form.version }, billed_units: BilledUnits { search_units } },
    };
    let order: Arc<[Ranked]> = order.into();
    Ok(Answer::json(answered, |_| {
        let results = scores_of(&order, kept.clone(), |text| TextObject { text });
        JsonText::around(&response, [("results", results), ("data", scores_of(&order, kept, |text| text))])
    }))
}

/// The list of scores, each with its document if documents are returned.
fn scores_of<T: Serialize>(
    order: &Arc<[Ranked]>,
    kept: Option<Arc<[String]>>,
    document: impl Fn(String) -> T + Send + 'static,
) -> JsonText {
    let order = Arc::clone(order);
    JsonText::default().values((0..order.len()).map(move |rank| {
        let ranked = order[rank];
        ranked.document(kept.as_ref().map(|texts| document(texts[ranked.index].clone())))
    }))
}

/// A document and its score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ranked {
    pub(crate) index: usize,
    pub(crate) score: f32,
}

impl Ranked {
    fn document<T>(&self, document: Option<T>) -> DocumentScore<T> {
        DocumentScore { index: self.index, relevance_score: self.score, document }
    }
}

/// Scores the texts and ranks the best `top_n`.
async fn score(
    app: &Call,
    body: RerankBody,
    documents: Vec<String>,
    field: &'static str,
) -> std::result::Result<(Response<RerankScore>, Vec<Ranked>), ApiError> {
    let RerankBody {
        query, truncate, truncation_direction, truncate_prompt_tokens, instruction, top_n, priority, ..
    } = body;
    check_top_n(top_n)?;
    heed_instruction(instruction.as_ref(), app)?;
    let raw = body.raw_scores.unwrap_or(false) || body.use_activation == Some(false);
    let encode =
        EncodeFields { truncate, truncation_direction, truncate_prompt_tokens, priority, ..Default::default() };
    let encode = encode.for_field(field, app)?;
    let request = ScoreRequest { queries: vec![query], query_field: "query", documents, instruction, encode };
    let answered = app.engine.score(request).await?;
    let order = rank(&answered.results, raw, top_n);
    Ok((answered, order))
}

/// Counts an instruction as an ignored field where the model is not told in words what relevant means.
///
/// # Errors
/// [`Error::Validation`] with `--strict-fields`.
pub(super) fn heed_instruction(instruction: Option<&String>, call: &Call) -> std::result::Result<(), Error> {
    let capabilities = &call.engine.info().capabilities;
    let problem = match &capabilities.rerank {
        Some(Rerank::Cosine) => "the served model reranks by the cosine of query and document",
        Some(Rerank::Pair) => "the served model is a cross-encoder, which takes no instruction",
        Some(Rerank::Prompt(template)) if !template.takes_instruction() => {
            "the prompt of the rerank recipe has no place for it"
        }
        Some(Rerank::Prompt(_)) | None => return Ok(()),
    };
    instruction.map_or(Ok(()), |_| ignore("instruction", problem, call))
}

/// # Errors
/// [`Error::Validation`] if no document is asked for.
pub(crate) fn check_top_n(top_n: Option<usize>) -> std::result::Result<(), Error> {
    if top_n == Some(0) {
        return Err(Error::invalid("top_n", "is 0; it must be at least 1"));
    }
    Ok(())
}

/// Best score first; equal scores keep the order of the request.
pub(crate) fn rank(scores: &[RerankScore], raw: bool, top_n: Option<usize>) -> Vec<Ranked> {
    let score = |score: &RerankScore| if raw { score.raw } else { score.score };
    // Always by the raw score: probabilities may round to the same value where logits differ.
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].raw.total_cmp(&scores[a].raw));
    order.truncate(top_n.unwrap_or(usize::MAX));
    order.into_iter().map(|index| Ranked { index, score: score(&scores[index]) }).collect()
}

fn invalid(field: &'static str, problem: &str) -> ApiError {
    Error::Validation { field, problem: problem.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scores(values: &[f32]) -> Vec<RerankScore> {
        values.iter().map(|&raw| RerankScore { raw, score: prefold_core::sigmoid(raw) }).collect()
    }

    fn order(ranked: &[Ranked]) -> Vec<usize> {
        ranked.iter().map(|ranked| ranked.index).collect()
    }

    #[test]
    fn the_best_come_first_and_equals_keep_their_order() {
        let scores = scores(&[0.5, 2.0, -1.0, 2.0, 0.5]);
        assert_eq!(order(&rank(&scores, false, None)), [1, 3, 0, 4, 2]);
        assert_eq!(order(&rank(&scores, false, Some(2))), [1, 3]);
        assert_eq!(order(&rank(&scores, false, Some(9))).len(), 5);
        assert_eq!(rank(&scores, true, Some(1)), [Ranked { index: 1, score: 2.0 }]);
        assert_eq!(rank(&scores, false, Some(1))[0].score, prefold_core::sigmoid(2.0));
    }

    #[test]
    fn saturated_probabilities_are_still_in_order() {
        let scores = scores(&[30.0, 40.0, 35.0]);
        assert!(scores.iter().all(|score| score.score == 1.0));
        assert_eq!(order(&rank(&scores, false, None)), [1, 2, 0]);
    }

    #[test]
    fn bodies_of_all_clients_parse() {
        let body: RerankBody = serde_json::from_value(json!({
            "model": "m", "query": "q", "documents": ["a", { "text": "b", "title": "t" }], "top_k": 1,
            "return_documents": true, "instruct": "i", "rank_fields": ["text"], "max_tokens_per_doc": 4096,
            "truncation": false, "priority": 0
        }))
        .unwrap();
        assert_eq!(body.documents.unwrap(), [Document("a".to_owned()), Document("b".to_owned())]);
        assert_eq!((body.top_n, body.truncate), (Some(1), Some(false)));
        assert_eq!(body.instruction.as_deref(), Some("i"));
        let error = serde_json::from_value::<RerankBody>(json!({ "query": "q", "documents": [5] })).unwrap_err();
        assert!(error.to_string().contains("a string or an object with the field `text`"), "{error}");
    }
}
