//! TEI's embedding routes: `/embed`, `/embed_all`, `/similarity`.

use super::Result;
use crate::state::call::Head;
use crate::wire::accept::Accept;
use crate::wire::answer::Answer;
use crate::wire::body::{Json, RawBody};
use crate::wire::inputs::Inputs;
use crate::wire::json_writer::{float_steps, write_float};
use crate::wire::many::Many;
use crate::wire::pieces::{JsonText, steps_of_list};
use crate::wire::request_body::request_body;
use crate::wire::schema::{InputsSchema, TextSchema};
use prefold_core::{EmbedOptions, Input, TokenVectors};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use utoipa::ToSchema;

request_body! {
    /// Inputs to embed, and options.
    pub(crate) struct EmbedBody: truncation, prompt {
        #[schema(value_type = InputsSchema)]
        inputs: Inputs,
        /// Scale vectors to unit length. False returns the output of pooling and dense layers, even if the model's own
        /// modules end with Normalize. Default: true.
        normalize: Option<bool>,
        /// Number of leading values of each vector to keep, scaled to unit length again. Default: `dimensions` of `/info`.
        #[schema(minimum = 1)]
        dimensions: Option<usize>,
    }
}

/// Vectors of texts
///
/// A list of vectors, also for a single input. With `Accept: application/octet-stream` the response is the vectors'
/// values, row by row and little-endian: four bytes each, or two with `;dtype=float16` or `;dtype=bfloat16`.
#[utoipa::path(
    post, path = "/embed", tag = "text-embeddings-inference",
    request_body(content = EmbedBody, example = json!({ "inputs": ["How do I lock a file?", "Use flock."] })),
    responses((status = 200, description = "The vectors", content(
        (Vec<Vec<f32>> = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
pub(crate) async fn embed(head: Head, accept: Accept, Json(mut body): Json<EmbedBody>) -> Result {
    let call = head.for_default();
    let encode = body.encode_fields().for_field("inputs", &call)?;
    let EmbedBody { inputs, normalize, dimensions, .. } = body;
    let options = EmbedOptions { encode, normalize: Some(normalize.unwrap_or(true)), dimensions };
    let answered = call.engine.embed(inputs.0.into_vec(), options).await?;
    match accept {
        Accept::Json => Ok(Answer::json(answered, |vectors| JsonText::default().list_of(vectors, float_steps))),
        Accept::Binary(element) => Answer::binary(answered, element.unwrap_or_default().into(), None, None).await,
    }
}

request_body! {
    /// Inputs to embed token by token.
    pub(crate) struct EmbedAllBody: truncation, prompt {
        #[schema(value_type = InputsSchema)]
        inputs: Inputs,
    }
}

/// A vector for each token
///
/// The final states of the tokens of each input, neither pooled nor scaled.
#[utoipa::path(
    post, path = "/embed_all", tag = "text-embeddings-inference",
    request_body(content = EmbedAllBody, example = json!({ "inputs": "Use flock." })),
    responses((status = 200, description = "For each input, a vector for each token", body = Vec<Vec<Vec<f32>>>))
)]
pub(crate) async fn embed_all(head: Head, Json(mut body): Json<EmbedAllBody>) -> Result {
    let call = head.for_default();
    let encode = body.encode_fields().for_field("inputs", &call)?;
    let answered = call.engine.embed_tokens(body.inputs.0.into_vec(), encode).await?;
    Ok(Answer::json(answered, |inputs| {
        let inputs = inputs.into_iter().map(TokenVectors::into_rows);
        JsonText::default().list_of(inputs, |rows| steps_of_list(rows, float_steps))
    }))
}

/// A sentence and the sentences to compare it with.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct SimilarityBody {
    inputs: SimilarityInputs,
    parameters: Option<SimilarityParameters>,
}

/// The sentences.
#[derive(Debug, Deserialize, ToSchema)]
struct SimilarityInputs {
    #[schema(value_type = TextSchema)]
    source_sentence: String,
    #[schema(value_type = Vec<TextSchema>, min_items = 1)]
    sentences: Many<String>,
}

request_body! {
    /// Tokenization options.
    #[derive(Default)]
    struct SimilarityParameters: truncation, prompt {}
}

/// Cosine similarities of one sentence with others
#[utoipa::path(
    post, path = "/similarity", tag = "text-embeddings-inference",
    request_body(content = SimilarityBody, example = json!({ "inputs": { "source_sentence": "How do I lock a file?", "sentences": ["Use flock.", "The tide comes in."] } })),
    responses((status = 200, description = "The cosine similarity of the source sentence with each other sentence", body = Vec<f32>))
)]
pub(crate) async fn similarity(head: Head, Json(body): Json<SimilarityBody>) -> Result {
    let call = head.for_default();
    let SimilarityInputs { source_sentence, sentences } = body.inputs;
    let (field, got, limit) = ("sentences", sentences.len(), call.engine.config().max_request_inputs());
    if got == 0 {
        let problem = "is empty, at least one sentence is needed".to_owned();
        return Err(prefold_core::Error::Empty { field, problem }.into());
    }
    if got > limit {
        return Err(prefold_core::Error::BatchTooLarge { field, got, limit }.into());
    }
    let encode = body.parameters.unwrap_or_default().encode_fields().for_field("sentences", &call)?;
    let options = EmbedOptions { encode, normalize: Some(true), dimensions: None };
    let source = ("source_sentence", Input::Text(source_sentence));
    let sentences = sentences.into_vec().into_iter().map(Input::Text).collect();
    let answered = call.engine.embed_with(Some(source), sentences, options).await?;
    Ok(Answer::json(answered, |vectors| {
        let mut others = vectors.into_iter();
        let source = others.next().unwrap_or_default();
        // Computed as they are written, vector by vector.
        JsonText::default().list(others, move |out, other| write_float(out, dot(&source, &other)))
    }))
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>() as f32
}

/// `POST /` of an embedding model: `/similarity` if `inputs` is an object, else `/embed`. Hosted inference endpoints
/// answer both at one URL.
pub(crate) async fn embed_or_compare(head: Head, accept: Accept, mut body: RawBody) -> Result {
    match body.probe::<Probe>().await {
        Ok(Probe { inputs: Some(AnyObject) }) => similarity(head, Json(body.parse().await?)).await,
        Ok(Probe { inputs: None }) | Err(_) => embed(head, accept, Json(body.parse().await?)).await,
    }
}

/// The type of `inputs`.
#[derive(Deserialize)]
struct Probe {
    inputs: Option<AnyObject>,
}

/// An object with any fields.
struct AnyObject;

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(AnyObjectVisitor)
    }
}

struct AnyObjectVisitor;

impl<'de> Visitor<'de> for AnyObjectVisitor {
    type Value = AnyObject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<AnyObject, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(AnyObject)
    }
}
