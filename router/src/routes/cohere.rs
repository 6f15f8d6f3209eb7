//! Cohere's embeddings and tokenizer routes: `/v1/embed`, `/v2/embed`, `/v1/tokenize`, `/v1/detokenize`.

use super::Result;
use super::kept::{Kept, keep};
use super::quantized::quantized;
use crate::state::call::{Call, Head};
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::cohere::{CohereInput, CohereInputObject, CohereMeta, CohereTruncate, EmbeddingTypes};
use crate::wire::element::Element;
use crate::wire::encode_fields::{Direction, EncodeFields};
use crate::wire::inputs::IdLists;
use crate::wire::json_writer::{split_around, text_steps};
use crate::wire::many::Many;
use crate::wire::pieces::{JsonText, framed, write_value};
use crate::wire::refused::Images;
use crate::wire::request_body::request_body;
use crate::wire::vectors::{EmbeddingType, JsonForm};
use prefold_core::{EmbedOptions, EncodeOptions, Error, Input, Prompt, TokenInfo};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use utoipa::ToSchema;

request_body! {
    /// Texts to embed, and options, with the fields of both versions of Cohere's API.
    pub(crate) struct CohereEmbedBody: model, prompt {
        /// Texts. Either `texts` or `inputs` is needed.
        #[schema(value_type = Option<Vec<String>>)]
        texts: Option<Many<String>>,
        /// Texts in parts.
        #[schema(value_type = Option<Vec<CohereInputObject>>)]
        inputs: Option<Many<CohereInput>>,
        /// Not supported.
        #[schema(ignore)]
        #[allow(dead_code, reason = "deserializing it refuses it")]
        images: Option<Images>,
        /// Element types of the vectors; the response has a list for each. Default: `float`; for `/v1/embed`, a list without the name of a type.
        #[schema(value_type = Option<Vec<EmbeddingType>>)]
        embedding_types: Option<EmbeddingTypes>,
        /// Number of leading values of each vector to keep, scaled to unit length again. Default: `dimensions` of `/info`.
        output_dimension: Option<usize>,
        /// Side of an input to truncate if it is too long; `NONE` refuses it. Default: `END`, or what `--auto-truncate` and the tokenizer
        /// config say.
        truncate: Option<CohereTruncate>,
        /// Maximum tokens of an input, at least 1. Default: the model's limit, which no larger number raises.
        max_tokens: Option<usize>,
    }
}

/// Vectors of one type, for `/v1/embed` without `embedding_types`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CohereFloats {
    id: String,
    /// `embeddings_floats`
    response_type: &'static str,
    embeddings: Vec<Vec<f32>>,
    /// The request's `texts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<String>>,
    meta: CohereMeta,
}

/// Vectors by type.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CohereByType {
    id: String,
    /// `embeddings_by_type`
    response_type: &'static str,
    embeddings: CohereEmbeddings,
    /// The request's `texts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<String>>,
    meta: CohereMeta,
}

/// For each type that was asked for, a vector for each input.
#[derive(Debug, Default, Serialize, ToSchema)]
struct CohereEmbeddings {
    #[serde(skip_serializing_if = "Option::is_none")]
    float: Option<Vec<Vec<f32>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    int8: Option<Vec<Vec<i8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uint8: Option<Vec<Vec<u8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<Vec<Vec<i8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ubinary: Option<Vec<Vec<u8>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<Vec<String>>,
}

/// Response of `/v1/embed`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: vectors are written one by one")]
pub(crate) enum CohereEmbedAnswer {
    Floats(CohereFloats),
    ByType(CohereByType),
}

/// Vectors of texts
///
/// For clients of Cohere (v1): without `embedding_types`, `embeddings` is a list of vectors.
#[utoipa::path(
    post, path = "/v1/embed", tag = "Cohere",
    request_body(content = CohereEmbedBody, example = json!({ "texts": ["How do I lock a file?", "Use flock."] })),
    responses((
        status = 200, description = "The vectors", body = CohereEmbedAnswer,
        headers(("x-embedding-range" = f32, description = "With `int8` and `uint8`: the value for which 127 (255) stands"))
    ))
)]
pub(crate) async fn embed_v1(head: Head, Json(body): Json<CohereEmbedBody>) -> Result {
    embed(head, body, "1").await
}

/// Vectors of texts
///
/// For clients of Cohere (v2): `embeddings` has a list of vectors for each type.
#[utoipa::path(
    post, path = "/v2/embed", tag = "Cohere",
    request_body(content = CohereEmbedBody, example = json!({ "texts": ["How do I lock a file?", "Use flock."], "embedding_types": ["float"] })),
    responses((
        status = 200, description = "The vectors", body = CohereByType,
        headers(("x-embedding-range" = f32, description = "With `int8` and `uint8`: the value for which 127 (255) stands"))
    ))
)]
pub(crate) async fn embed_v2(head: Head, Json(body): Json<CohereEmbedBody>) -> Result {
    embed(head, body, "2").await
}

async fn embed(head: Head, mut body: CohereEmbedBody, version: &'static str) -> Result {
    let call = head.for_model(body.model.as_deref());
    let (field, texts) = body.take_texts()?;
    let encode = body.encode_options(field, &call)?;
    let CohereEmbedBody { embedding_types, output_dimension: dimensions, .. } = body;
    let types = embedding_types.unwrap_or_default();
    let lists = lists(types, dimensions, &call).await?;
    // The response repeats `texts`, not `inputs`.
    let (texts, kept) = keep(&call, texts, field == "texts").await?;
    let inputs = texts.into_vec().into_iter().map(Input::Text).collect();
    let answered = call.engine.embed(inputs, EmbedOptions { encode, normalize: Some(true), dimensions }).await?;
    let range = lists.iter().find_map(|(_, list)| list.element().range());
    let is_plain = version == "1" && types.iter().next().is_none();
    let meta = CohereMeta::of_tokens(version, answered.usage.tokens);
    let response = Embedded { id: call.response_id("embed"), kept, meta };
    let answer = Answer::json(answered, |vectors| {
        let vectors = Arc::new(vectors);
        if is_plain { response.floats(&vectors) } else { response.by_type(&vectors, &lists) }
    });
    Ok(answer.with_range(range))
}

impl CohereEmbedBody {
    /// The texts, and the name of the field that has them.
    ///
    /// # Errors
    /// [`Error::Validation`] for none, and for both fields.
    fn take_texts(&mut self) -> std::result::Result<(&'static str, Many<String>), Error> {
        match (self.texts.take(), self.inputs.take()) {
            (Some(texts), None) => Ok(("texts", texts)),
            (None, Some(inputs)) => {
                let texts: Vec<String> = inputs.into_vec().into_iter().map(|input| input.0).collect();
                Ok(("inputs", texts.into()))
            }
            (Some(_), Some(_)) => Err(Error::invalid("inputs", "cannot be combined with `texts`")),
            (None, None) => Err(Error::invalid("texts", "is missing; send either `texts` or `inputs`")),
        }
    }

    /// Options of encoding the texts in `field`.
    fn encode_options(&mut self, field: &'static str, call: &Call) -> std::result::Result<EncodeOptions, Error> {
        if self.max_tokens == Some(0) {
            return Err(Error::invalid("max_tokens", "is 0; it must be at least 1"));
        }
        let truncation_direction = match self.truncate {
            Some(CohereTruncate::Start) => Some(Direction::Left),
            Some(CohereTruncate::End) => Some(Direction::Right),
            Some(CohereTruncate::None) | None => None,
        };
        let truncate = self.truncate.map(|truncate| truncate != CohereTruncate::None);
        let options = EncodeFields { truncate, truncation_direction, ..self.encode_fields() }.for_field(field, call)?;
        let longest = call.engine.info().capabilities.max_input_length;
        Ok(EncodeOptions { max_tokens: self.max_tokens.map(|tokens| tokens.min(longest)), ..options })
    }
}

/// The lists of vectors to write: one for each of `types`, or floats if there are none.
async fn lists(
    types: EmbeddingTypes,
    dimensions: Option<usize>,
    call: &Call,
) -> std::result::Result<Vec<(EmbeddingType, JsonForm)>, Error> {
    let mut lists = Vec::new();
    for kind in types.iter() {
        let element = match kind.quantized() {
            Some(integers) => quantized(integers, dimensions, "embedding_types", call).await?,
            None => Element::default(),
        };
        lists.push((kind, kind.form(element)));
    }
    if lists.is_empty() {
        lists.push((EmbeddingType::Float, JsonForm::default()));
    }
    Ok(lists)
}

/// A response without its vectors.
struct Embedded {
    id: String,
    /// The texts to repeat.
    kept: Option<Arc<[String]>>,
    meta: CohereMeta,
}

impl Embedded {
    /// One list of vectors.
    fn floats(self, vectors: &Arc<Vec<Vec<f32>>>) -> JsonText {
        let Self { id, kept, meta } = self;
        let texts = kept.as_ref().map(|_| Vec::new());
        let response = CohereFloats { id, response_type: "embeddings_floats", embeddings: Vec::new(), texts, meta };
        let list = written(vectors, JsonForm::default());
        JsonText::around(&response, [("embeddings", list), ("texts", repeated(kept))])
    }

    /// A list of vectors for each type.
    fn by_type(self, vectors: &Arc<Vec<Vec<f32>>>, lists: &[(EmbeddingType, JsonForm)]) -> JsonText {
        let Self { id, kept, meta } = self;
        let texts = kept.as_ref().map(|_| Vec::new());
        let embeddings = CohereEmbeddings::of(lists.iter().map(|(kind, _)| *kind));
        let response = CohereByType { id, response_type: "embeddings_by_type", embeddings, texts, meta };
        let list = |kind: EmbeddingType| {
            let list = lists.iter().find(|(other, _)| *other == kind);
            list.map_or_else(JsonText::default, |(_, list)| written(vectors, *list))
        };
        // In the order of the fields; those that the response does not have are left out.
        let lists = [
            ("float", list(EmbeddingType::Float)),
            ("int8", list(EmbeddingType::Int8)),
            ("uint8", list(EmbeddingType::Uint8)),
            ("binary", list(EmbeddingType::Binary)),
            ("ubinary", list(EmbeddingType::Ubinary)),
            ("base64", list(EmbeddingType::Base64)),
            ("texts", repeated(kept)),
        ];
        JsonText::around(&response, lists)
    }
}

impl CohereEmbeddings {
    /// Empty lists of these types.
    fn of(types: impl Iterator<Item = EmbeddingType>) -> Self {
        types.fold(Self::default(), |lists, kind| match kind {
            EmbeddingType::Float => Self { float: Some(Vec::new()), ..lists },
            EmbeddingType::Int8 => Self { int8: Some(Vec::new()), ..lists },
            EmbeddingType::Uint8 => Self { uint8: Some(Vec::new()), ..lists },
            EmbeddingType::Binary => Self { binary: Some(Vec::new()), ..lists },
            EmbeddingType::Ubinary => Self { ubinary: Some(Vec::new()), ..lists },
            EmbeddingType::Base64 => Self { base64: Some(Vec::new()), ..lists },
        })
    }
}

/// One of the vectors that several lists of a response have.
struct Row {
    vectors: Arc<Vec<Vec<f32>>>,
    index: usize,
}

impl AsRef<[f32]> for Row {
    fn as_ref(&self) -> &[f32] {
        &self.vectors[self.index]
    }
}

fn written(vectors: &Arc<Vec<Vec<f32>>>, form: JsonForm) -> JsonText {
    let vectors = Arc::clone(vectors);
    JsonText::default().list_of(0..vectors.len(), move |index| form.steps(Row { vectors: Arc::clone(&vectors), index }))
}

fn repeated(kept: Option<Arc<[String]>>) -> JsonText {
    let Some(texts) = kept else { return JsonText::default() };
    JsonText::default().list_of(0..texts.len(), move |index| text_steps(Kept { texts: Arc::clone(&texts), index }))
}

/// A text to encode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CohereTokenizeBody {
    text: String,
    /// Any name is accepted, because there is one model.
    model: Option<String>,
}

/// Tokens of a text.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CohereTokenizeAnswer {
    /// Their ids.
    tokens: Vec<u32>,
    /// The pieces of the text that they stand for.
    token_strings: Vec<String>,
    meta: CohereMeta,
}

/// Tokens of a text
///
/// For clients of Cohere: without special tokens and without a prompt.
#[utoipa::path(
    post, path = "/v1/tokenize", tag = "Cohere",
    request_body(content = CohereTokenizeBody, example = json!({ "text": "Use flock." })),
    responses((status = 200, description = "The tokens", body = CohereTokenizeAnswer))
)]
pub(crate) async fn tokenize_v1(head: Head, Json(body): Json<CohereTokenizeBody>) -> Result {
    let call = head.for_model(body.model.as_deref());
    let options = EncodeOptions {
        // No prompt, even if the model has a default one.
        prompt: Some(Prompt::Text(String::new())),
        add_special_tokens: false,
        ..EncodeOptions::new("text")
    };
    let tokens = call.engine.tokenize(vec![body.text], options).await?;
    let tokens: Arc<Vec<TokenInfo>> = Arc::new(tokens.into_iter().next().unwrap_or_default());
    let [ids, strings] = [(); 2].map(|()| Arc::clone(&tokens));
    let ids = JsonText::default().list(0..tokens.len(), move |out, index| write_value(out, &ids[index].id));
    let strings = JsonText::default().list(0..tokens.len(), move |out, index| write_value(out, &strings[index].text));
    let answer = CohereTokenizeAnswer { tokens: Vec::new(), token_strings: Vec::new(), meta: CohereMeta::new("1") };
    let text = JsonText::around(&answer, [("tokens", ids), ("token_strings", strings)]);
    Ok(Answer::free_text(text, call.share))
}

/// Token ids to decode.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct CohereDetokenizeBody {
    #[schema(value_type = Vec<u32>)]
    tokens: IdLists,
    /// Any name is accepted, because there is one model.
    model: Option<String>,
}

/// Text of token ids.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CohereDetokenizeAnswer {
    text: String,
    meta: CohereMeta,
}

/// Text of token ids
///
/// For clients of Cohere: special tokens are left out.
#[utoipa::path(
    post, path = "/v1/detokenize", tag = "Cohere",
    request_body(content = CohereDetokenizeBody, example = json!({ "tokens": [1, 2, 3] })),
    responses((status = 200, description = "The text", body = CohereDetokenizeAnswer))
)]
pub(crate) async fn detokenize_v1(head: Head, Json(body): Json<CohereDetokenizeBody>) -> Result {
    let call = head.for_model(body.model.as_deref());
    let ids = body.tokens.only_list("tokens")?;
    let texts = call.engine.decode(vec![ids], true).await?;
    let text = texts.into_iter().next().unwrap_or_default();
    let answer = CohereDetokenizeAnswer { text: String::new(), meta: CohereMeta::new("1") };
    let (before, after) = split_around(&answer, "\"\"");
    Ok(Answer::free_text(JsonText::default().steps(framed(before, text_steps(text), after)), call.share))
}
