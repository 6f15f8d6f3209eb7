//! OpenAI's routes: `/v1/embeddings`, `/v1/models`.

use super::Result;
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Direction, EncodeFields, Inputs, Json};
use crate::schema::InputsSchema;
use crate::usage::UsageBody;
use crate::vectors::{Accept, ElementType, EncodingFormat, JsonVectors};
use crate::wire::write_list;
use axum::extract::{Path, State};
use prefold_core::EmbedOptions;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// What to embed and how. Fields that are not listed (`user`, `priority`, ...) are ignored.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct EmbeddingsBody {
    #[schema(value_type = InputsSchema)]
    input: Inputs,
    /// Echoed. There is one model, so any name is taken for it.
    model: Option<String>,
    /// `float` when absent.
    encoding_format: Option<EncodingFormat>,
    /// Keep only the first values of each vector, and scale to unit length again; all when absent or 0 (which Infinity's
    /// client always sends).
    #[serde(alias = "output_dimension")]
    dimensions: Option<usize>,
    /// Voyage's; other types than `float` are not there.
    #[allow(dead_code, reason = "to be read is to be checked")]
    output_dtype: Option<OutputDtype>,
    /// The type of the values in base64 and in a binary answer; `float32` when absent.
    embed_dtype: Option<ElementType>,
    /// Little-endian is the only byte order.
    #[allow(dead_code, reason = "to be read is to be checked")]
    endianness: Option<Endianness>,
    /// Cut what is too long instead of refusing it; `--auto-truncate` when absent.
    #[serde(alias = "truncation")]
    truncate: Option<bool>,
    /// Cut each input to so many tokens; -1 to what the model takes.
    truncate_prompt_tokens: Option<i64>,
    /// Which end to cut; right when absent.
    truncation_side: Option<Direction>,
    /// Add the tokenizer's special tokens to texts; true when absent.
    add_special_tokens: Option<bool>,
}

/// The type of the values of a vector in Voyage's words. A client that asks for another takes the bytes for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OutputDtype {
    Float,
}

/// The order of the bytes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Endianness {
    Little,
    /// The server's, which is little-endian.
    Native,
}

/// A list of vectors.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "it is written by hand; this describes it")]
pub(crate) struct EmbeddingsResponse {
    /// `list`
    object: String,
    data: Vec<Embedding>,
    model: String,
    usage: UsageBody,
}

/// One vector.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "it is written by hand; this describes it")]
struct Embedding {
    /// `embedding`
    object: String,
    /// The place of its input.
    index: usize,
    embedding: Vector,
}

/// A list of numbers, or the base64 of their bytes.
#[derive(Debug, ToSchema)]
#[allow(dead_code, reason = "it is written by hand; this describes it")]
#[serde(untagged)]
enum Vector {
    Float(Vec<f32>),
    Base64(String),
}

/// Vectors of texts
///
/// OpenAI's embeddings. With `Accept: application/octet-stream` the answer is the vectors' values themselves, row by row
/// and little-endian, of the type `embed_dtype` (or the parameter `dtype` of the header).
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "OpenAI", request_body = EmbeddingsBody,
    responses((status = 200, description = "The vectors", content(
        (EmbeddingsResponse = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
pub(crate) async fn embeddings(State(app): State<App>, accept: Accept, Json(body): Json<EmbeddingsBody>) -> Result {
    let EmbeddingsBody { input, model, encoding_format, dimensions, embed_dtype, .. } = body;
    let dimensions = dimensions.filter(|&dimensions| dimensions > 0);
    let encode = EncodeFields {
        truncate: body.truncate,
        truncate_prompt_tokens: body.truncate_prompt_tokens,
        truncation_direction: body.truncation_side,
        add_special_tokens: body.add_special_tokens,
        ..Default::default()
    };
    let options = EmbedOptions { encode: encode.for_field("input")?, normalize: true, dimensions };
    let answered = app.engine.embed(input.0, options).await?;
    let element = embed_dtype.unwrap_or_default();
    if let Accept::Binary(asked) = accept {
        return Answer::binary(&answered, asked.unwrap_or(element));
    }
    let vectors = JsonVectors { format: encoding_format.unwrap_or_default(), element };
    if vectors.format == EncodingFormat::Base64 {
        element.check(&answered.results)?;
    }
    let model = Value::from(model.unwrap_or_else(|| app.names.served.clone()));
    // A struct of numbers, whose serialisation cannot fail.
    let usage = serde_json::to_string(&UsageBody::from(answered.usage)).unwrap_or_default();
    Ok(Answer::written(&answered, |out| {
        out.reserve(vectors.capacity(&answered.results));
        out.push_str(r#"{"object":"list","data":"#);
        write_list(out, answered.results.iter().enumerate(), |out, (index, vector)| {
            out.push_str(&format!(r#"{{"object":"embedding","index":{index},"embedding":"#));
            vectors.write(out, vector);
            out.push('}');
        });
        out.push_str(&format!(r#","model":{model},"usage":{usage}}}"#));
    }))
}

/// What is served.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelList {
    /// `list`
    object: &'static str,
    data: Vec<ModelObject>,
}

/// One of the names of the served model.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ModelObject {
    id: String,
    /// `model`
    object: &'static str,
    /// Seconds since 1970 when the server started.
    created: u64,
    /// `prefold`
    owned_by: &'static str,
    /// The model that the name stands for.
    root: String,
    /// Tokens of an input at most.
    max_model_len: usize,
}

/// The names of the served model
///
/// The first is the one that answers carry; all stand for the same model.
#[utoipa::path(
    get, path = "/v1/models", tag = "OpenAI", responses((status = 200, description = "The names", body = ModelList))
)]
pub(crate) async fn models(State(app): State<App>) -> Answer {
    let data = app.names.all().map(|name| model_object(&app, name)).collect();
    Answer::free(&ModelList { object: "list", data })
}

/// One name of the served model
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "OpenAI", params(("model" = String, Path, description = "A name")),
    responses(
        (status = 200, description = "The model", body = ModelObject),
        (status = 404, description = "The model has other names")
    )
)]
pub(crate) async fn model(State(app): State<App>, Path(name): Path<String>) -> Result {
    match app.names.all().find(|known| *known == name) {
        Some(name) => Ok(Answer::free(&model_object(&app, name))),
        None => Err(ApiError::UnknownModel { name, known: app.names.all().collect::<Vec<_>>().join(", ") }),
    }
}

fn model_object(app: &App, name: &str) -> ModelObject {
    ModelObject {
        id: name.to_owned(),
        object: "model",
        created: app.started,
        owned_by: "prefold",
        root: app.names.id.clone(),
        max_model_len: app.engine.info().max_input_length,
    }
}
