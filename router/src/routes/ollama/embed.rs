//! Vectors in Ollama's forms: `/api/embed` and the older `/api/embeddings`.

use super::options::{KeepAlive, OllamaOptions};
use crate::routes::Result;
use crate::state::call::{Call, Head};
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::encode_fields::EncodeFields;
use crate::wire::inputs::TextsOrNone;
use crate::wire::json_writer::{float_steps, split_around};
use crate::wire::pieces::{JsonText, framed};
use crate::wire::request_body::request_body;
use crate::wire::schema::TextsOrNoneSchema;
use prefold_core::{EmbedOptions, EncodeOptions, Error, Input, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

request_body! {
    /// Texts to embed, and options, named as in Ollama.
    pub(crate) struct OllamaEmbedBody: model, prompt {
        /// No text, `""` or an empty list has an empty list of vectors: clients load a model with it.
        #[schema(value_type = Option<TextsOrNoneSchema>)]
        input: Option<TextsOrNone>,
        /// Truncate texts that are too long instead of rejecting them. Default: `--auto-truncate`.
        truncate: Option<bool>,
        /// Number of leading values of each vector to keep, scaled to unit length again; 0 means the default, `dimensions` of `/info`.
        dimensions: Option<usize>,
        options: Option<OllamaOptions>,
        /// Accepted: the model stays loaded.
        #[allow(dead_code, reason = "deserializing it checks it")]
        keep_alive: Option<KeepAlive>,
    }
}

/// A list of vectors.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct OllamaVectors<'a> {
    model: &'a str,
    embeddings: Vec<Vec<f32>>,
    /// Nanoseconds.
    total_duration: u64,
    /// 0: the model is loaded already.
    load_duration: u64,
    /// Tokens of all texts after truncation, prompts included.
    prompt_eval_count: usize,
}

/// Vectors of texts
///
/// Ollama's embeddings, scaled to unit length.
#[utoipa::path(
    post, path = "/api/embed", tag = "Ollama", operation_id = "ollama_embed",
    request_body(content = OllamaEmbedBody, example = json!({ "model": "any", "input": ["How do I lock a file?", "Use flock."] })),
    responses((status = 200, description = "The vectors", body = OllamaVectors))
)]
pub(crate) async fn embed(head: Head, Json(mut body): Json<OllamaEmbedBody>) -> Result {
    let call = head.for_model(body.model.as_deref());
    let fields = EncodeFields { truncate: body.truncate, ..body.encode_fields() };
    let has_prompt = fields.prompt.prompt.is_some();
    let encode = encode_options(fields, "input", body.options.as_ref(), &call)?;
    let model = call.model.names.answered(body.model.as_deref())?;
    let texts = body.input.map(|input| input.0.into_vec()).unwrap_or_default();
    if texts.is_empty() && has_prompt {
        let problem =
            "missing; the field `prompt` is a prefix of each input here, and the text itself in /api/embeddings";
        return Err(Error::invalid("input", problem).into());
    }
    if texts.is_empty() && embeds(&call) {
        return Ok(Answer::free(&OllamaVectors { model, ..OllamaVectors::default() }));
    }
    let inputs = texts.into_iter().map(Input::Text).collect();
    let dimensions = body.dimensions.filter(|&dimensions| dimensions > 0);
    let options = EmbedOptions { encode, normalize: Some(true), dimensions };
    let answered = call.engine.embed(inputs, options).await?;
    let Response { usage, timings, .. } = &answered;
    let response = OllamaVectors {
        model,
        total_duration: u64::try_from(timings.total.as_nanos()).unwrap_or(u64::MAX),
        prompt_eval_count: usage.tokens,
        ..OllamaVectors::default()
    };
    Ok(Answer::json(answered, |vectors| {
        JsonText::around(&response, [("embeddings", JsonText::default().list_of(vectors, float_steps))])
    }))
}

request_body! {
    /// A text to embed, and options, named as in Ollama's older API.
    pub(crate) struct OllamaPromptBody: model {
        /// The text. Without one the vector is empty: clients load a model with it.
        prompt: Option<String>,
        options: Option<OllamaOptions>,
        /// Accepted: the model stays loaded.
        #[allow(dead_code, reason = "deserializing it checks it")]
        keep_alive: Option<KeepAlive>,
    }
}

/// One vector.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct OllamaVector {
    embedding: Vec<f32>,
}

/// Vector of a text
///
/// Ollama's older route. The vector has unit length only if the model's own modules scale it.
#[utoipa::path(
    post, path = "/api/embeddings", tag = "Ollama", operation_id = "ollama_embeddings",
    request_body(content = OllamaPromptBody, example = json!({ "model": "any", "prompt": "Use flock." })),
    responses((status = 200, description = "The vector", body = OllamaVector))
)]
pub(crate) async fn embeddings(head: Head, Json(mut body): Json<OllamaPromptBody>) -> Result {
    let call = head.for_model(body.model.as_deref());
    let encode = encode_options(body.encode_fields(), "prompt", body.options.as_ref(), &call)?;
    let text = body.prompt.unwrap_or_default();
    if text.is_empty() && embeds(&call) {
        return Ok(Answer::free(&OllamaVector::default()));
    }
    let options = EmbedOptions { encode, normalize: None, dimensions: None };
    let answered = call.engine.embed(vec![Input::Text(text)], options).await?;
    Ok(Answer::json(answered, |vectors| {
        let vector = vectors.into_iter().next().unwrap_or_default();
        let (before, after) = split_around(&OllamaVector::default(), "[]");
        JsonText::default().steps(framed(before, float_steps(vector), after))
    }))
}

/// Options of the texts in `field`. A context that is shorter than the model's truncates, or refuses, at its length.
fn encode_options(
    fields: EncodeFields,
    field: &'static str,
    options: Option<&OllamaOptions>,
    call: &Call,
) -> std::result::Result<EncodeOptions, Error> {
    let limit = call.engine.info().capabilities.max_input_length;
    let auto_truncate = call.engine.config().auto_truncate;
    let encode = fields.for_field(field, call)?;
    match options.and_then(|options| options.max_tokens(limit)) {
        None => Ok(encode),
        max_tokens => {
            call.sent.rename("truncate_prompt_tokens", "num_ctx");
            Ok(EncodeOptions { max_tokens, truncate: encode.truncate.or(Some(auto_truncate)), ..encode })
        }
    }
}

/// True if the model makes embeddings.
fn embeds(call: &Call) -> bool {
    call.engine.info().capabilities.embed.is_some()
}
