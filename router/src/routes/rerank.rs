//! Reranking in two forms: TEI's bare list, and one object for all other clients.

use super::Result;
use super::kept::keep;
use super::ranked::{Ranked, rank, scores_of};
use super::two_apis::{Apis, SharedBody, answered};
use crate::error::{ApiError, ErrorIn};
use crate::state::call::{Call, Head};
use crate::state::unix_time;
use crate::wire::answer::Answer;
use crate::wire::body::{Json, RawBody};
use crate::wire::cohere::{CohereMeta, RelevantSpans};
use crate::wire::documents::{Document, Documents};
use crate::wire::encode_fields::{Direction, EncodeFields};
use crate::wire::many::Many;
use crate::wire::pieces::JsonText;
use crate::wire::prompt::{TemplateValues, ignore};
use crate::wire::refused::RankFields;
use crate::wire::request_body::request_body;
use crate::wire::schema::{DocumentSchema, DocumentsSchema, TextSchema};
use crate::wire::usage::UsageBody;
use prefold_core::{Error, Rerank, RerankScore, Response, ScoreRequest};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

/// Documents per search unit, Cohere's billing unit.
const DOCUMENTS_OF_A_SEARCH_UNIT: usize = 100;

request_body! {
    /// A query and the documents to rank, with the fields of all clients.
    ///
    /// The list decides the form of the response: `texts` for TEI's, `documents` for all other clients.
    pub(crate) struct RerankBody: model, scoring, vllm {
        #[schema(value_type = DocumentSchema)]
        query: Document,
        /// For TEI's bare list.
        #[schema(value_type = Option<Vec<TextSchema>>, min_items = 1)]
        texts: Option<Many<String>>,
        /// For the object of Cohere, Jina, Voyage, vLLM and Infinity.
        #[schema(value_type = Option<DocumentsSchema>)]
        documents: Option<Documents>,
        /// Truncate documents that are too long instead of rejecting them. Default: `--auto-truncate`.
        #[serde(alias = "truncation")]
        truncate: Option<bool>,
        /// Side to truncate. Default: the tokenizer config's side, usually `right`.
        #[serde(alias = "truncation_side")]
        truncation_direction: Option<Direction>,
        /// Logits instead of probabilities.
        raw_scores: Option<bool>,
        /// With `texts`: return each text with its score.
        return_text: Option<bool>,
        /// Number of best documents to return; 0 means all, as in vLLM's and Infinity's APIs. Default: all.
        #[serde(alias = "top_k")]
        top_n: Option<usize>,
        /// With `documents`: return each document with its score, in `results` and in `data`. Default: in `results` only, and not on
        /// `/v2/rerank`.
        return_documents: Option<bool>,
        /// Cohere's fields of a document to read; only `["text"]` is supported.
        #[schema(value_type = Option<Vec<String>>)]
        #[allow(dead_code, reason = "deserializing it checks it")]
        rank_fields: Option<RankFields>,
        /// Cohere's passages of documents; only the mode `disabled` is supported.
        #[allow(dead_code, reason = "deserializing it checks it")]
        relevant_spans: Option<RelevantSpans>,
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
    meta: CohereMeta,
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

/// Documents in order of relevance, in two forms
///
/// With `texts`, the response is TEI's list of `index` and `score`; with `documents`, it is the response of
/// `/v1/rerank`. The score is the probability of "yes" for an LLM reranker, the sigmoid of the logit for a classifier
/// with one label, and the cosine similarity for an embedding model.
#[utoipa::path(
    post, path = "/rerank", tag = "Rerank",
    request_body(content = RerankBody, example = json!({ "query": "How do I lock a file?", "texts": ["Use flock.", "The tide comes in."] })),
    responses((status = 200, description = "The documents, the best first", content(
        (RerankAnswer = "application/json")
    )))
)]
pub(crate) async fn rerank(head: Head, body: RawBody) -> std::result::Result<Answer, ErrorIn> {
    answered(body, |body| rerank_either(head, body)).await
}

impl SharedBody for RerankBody {
    fn apis(&self) -> Apis {
        Apis { tei: self.texts.is_some(), vllm: self.documents.is_some() }
    }
}

async fn rerank_either(head: Head, mut body: RerankBody) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    match (body.texts.take(), body.documents.take()) {
        (Some(texts), None) => rerank_texts(&call, body, texts).await,
        (None, Some(documents)) => rerank_documents(&call, body, documents, UNVERSIONED).await,
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
    post, path = "/v1/rerank", tag = "Rerank",
    request_body(content = RerankBody, example = json!({ "query": "How do I lock a file?", "documents": ["Use flock.", "The tide comes in."] })),
    responses((status = 200, description = "The documents, the best first", body = RerankResponse))
)]
pub(crate) async fn rerank_v1(head: Head, Json(body): Json<RerankBody>) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    rerank_versioned(&call, body, Form { version: "1", object: "list", returns_documents: true }).await
}

/// Documents in order of relevance
///
/// The same for clients of Cohere v2.
#[utoipa::path(
    post, path = "/v2/rerank", tag = "Rerank",
    request_body(content = RerankBody, example = json!({ "query": "How do I lock a file?", "documents": ["Use flock.", "The tide comes in."] })),
    responses((status = 200, description = "The documents, the best first", body = RerankResponse))
)]
pub(crate) async fn rerank_v2(head: Head, Json(body): Json<RerankBody>) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    rerank_versioned(&call, body, Form { version: "2", object: "list", returns_documents: false }).await
}

/// Differences between the responses of the routes.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// Version of Cohere's API.
    version: &'static str,
    object: &'static str,
    /// Default of `return_documents` for `results`: true as in Jina's and vLLM's APIs, false in the second version of Cohere's.
    returns_documents: bool,
}

/// Infinity's client accepts no other object.
const UNVERSIONED: Form = Form { version: "1", object: "rerank", returns_documents: true };

async fn rerank_versioned(call: &Call, mut body: RerankBody, form: Form) -> Result {
    match (body.documents.take(), body.texts.take()) {
        (Some(documents), None) => rerank_documents(call, body, documents, form).await,
        (Some(documents), Some(_)) => {
            ignore("texts", "this route reads `documents`", call)?;
            rerank_documents(call, body, documents, form).await
        }
        (None, Some(_)) => Err(invalid("documents", "is missing; `texts` is for /rerank")),
        (None, None) => Err(invalid("documents", "is missing")),
    }
}

async fn rerank_texts(call: &Call, body: RerankBody, texts: Many<String>) -> Result {
    body.return_documents.iter().try_for_each(|_| ignore("return_documents", "it is for `documents`", call))?;
    let (texts, kept) = keep(call, texts, body.return_text == Some(true)).await?;
    let (answered, order) = score(call, body, texts, "texts").await?;
    Ok(Answer::json(answered, |_| {
        scores_of(&order.into(), kept, |&Ranked { index, score }, text| TextScore { index, text, score })
    }))
}

async fn rerank_documents(call: &Call, body: RerankBody, documents: Documents, form: Form) -> Result {
    body.return_text.iter().try_for_each(|_| ignore("return_text", "it is for `texts`", call))?;
    let texts = documents.into_texts();
    let search_units = texts.len().div_ceil(DOCUMENTS_OF_A_SEARCH_UNIT);
    let model = call.model.names.answered(body.model.as_deref())?.to_owned();
    // Voyage's clients, which read `data`, get no documents by default.
    let in_data = body.return_documents == Some(true);
    let (texts, kept) = keep(call, texts, body.return_documents.unwrap_or(form.returns_documents)).await?;
    let (answered, order) = score(call, body, texts, "documents").await?;
    let response = RerankResponse {
        id: call.response_id("rerank"),
        object: form.object,
        created: unix_time(),
        model,
        results: Vec::new(),
        data: Vec::new(),
        usage: answered.usage.into(),
        meta: CohereMeta::of_search(form.version, search_units),
    };
    let order: Arc<[Ranked]> = order.into();
    Ok(Answer::json(answered, |_| {
        let results =
            scores_of(&order, kept.clone(), |ranked, text| scored(ranked, text.map(|text| TextObject { text })));
        let data = scores_of(&order, kept.filter(|_| in_data), scored);
        JsonText::around(&response, [("results", results), ("data", data)])
    }))
}

fn scored<T>(ranked: &Ranked, document: Option<T>) -> DocumentScore<T> {
    DocumentScore { index: ranked.index, relevance_score: ranked.score, document }
}

/// Scores the texts and ranks the best `top_n`.
async fn score(
    call: &Call,
    mut body: RerankBody,
    documents: Many<String>,
    field: &'static str,
) -> std::result::Result<(Response<RerankScore>, Vec<Ranked>), ApiError> {
    let shared = body.encode_fields();
    let RerankBody { query, truncate, truncation_direction, instruction, chat_template_kwargs, top_n, .. } = body;
    let instruction = heeded_instruction(instruction, chat_template_kwargs, call)?;
    let raw = body.raw_scores.unwrap_or(false) || body.use_activation == Some(false);
    if raw && call.engine.info().capabilities.rerank == Some(Rerank::Cosine) {
        let field = if body.raw_scores == Some(true) { "raw_scores" } else { "use_activation" };
        ignore(field, "the served model reranks by the cosine of query and document", call)?;
    }
    let encode = EncodeFields { truncate, truncation_direction, ..shared }.for_field(field, call)?;
    let request = ScoreRequest {
        queries: vec![query.0],
        query_field: "query",
        documents: documents.into_vec(),
        instruction,
        encode,
    };
    let answered = call.engine.score(request).await?;
    let order = rank(&answered.results, raw, top_n.filter(|&count| count > 0)).await;
    Ok((answered, order))
}

/// The instruction of a request, which counts as an ignored field if the model takes none.
///
/// # Errors
/// [`Error::Validation`] with `--strict-fields`.
pub(super) fn heeded_instruction(
    instruction: Option<String>,
    values: Option<TemplateValues>,
    call: &Call,
) -> std::result::Result<Option<String>, Error> {
    let of_template = values.and_then(|values| values.instruction);
    if of_template.is_some() {
        call.sent.rename("instruction", "chat_template_kwargs.instruction");
    }
    let instruction = of_template.or(instruction);
    let capabilities = &call.engine.info().capabilities;
    let problem = match &capabilities.rerank {
        Some(Rerank::Cosine) => "the served model reranks by the cosine of query and document",
        Some(Rerank::Pair) => "the served model is a cross-encoder, which takes no instruction",
        Some(Rerank::Prompt(template)) if !template.takes_instruction() => {
            "the prompt of the rerank recipe has no place for it"
        }
        Some(Rerank::Prompt(_)) | None => return Ok(instruction),
    };
    instruction.iter().try_for_each(|_| ignore("instruction", problem, call))?;
    Ok(instruction)
}

fn invalid(field: &'static str, problem: &str) -> ApiError {
    Error::Validation { field, problem: problem.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bodies_of_all_clients_parse() {
        let body: RerankBody = serde_json::from_value(json!({
            "model": "m", "query": "q", "documents": ["a", { "text": "b", "title": "t" }], "top_k": 1,
            "return_documents": true, "instruct": "i", "rank_fields": ["text"], "max_tokens_per_doc": 4096,
            "truncation": false, "priority": 0
        }))
        .unwrap();
        assert_eq!(body.documents.unwrap().into_texts().into_vec(), ["a", "b"]);
        assert_eq!((body.top_n, body.truncate), (Some(1), Some(false)));
        assert_eq!(body.instruction.as_deref(), Some("i"));
        let error = serde_json::from_value::<RerankBody>(json!({ "query": "q", "documents": [5] })).unwrap_err();
        assert!(error.to_string().contains("a string or an object with the field `text`"), "{error}");
    }
}
