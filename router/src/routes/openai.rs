//! OpenAI's routes: `/v1/embeddings`, `/v1/models`.

use super::Result;
use crate::error::ApiError;
use crate::state::App;
use crate::state::call::Head;
use crate::state::registry::ServedModel;
use crate::wire::accept::Accept;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::element::ElementType;
use crate::wire::inputs::Inputs;
use crate::wire::json_writer::split_around;
use crate::wire::pieces::{JsonText, framed};
use crate::wire::request_body::request_body;
use crate::wire::schema::InputsSchema;
use crate::wire::usage::UsageBody;
use crate::wire::vectors::{EncodingFormat, JsonVectors};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use prefold_core::{EmbedOptions, shown};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

request_body! {
    /// Inputs to embed, and options. Unlisted fields (`user`, `request_id`, ...) are ignored.
    pub(crate) struct EmbeddingsBody: model, truncation_side, input_tokens, prompt {
        #[schema(value_type = InputsSchema)]
        input: Inputs,
        /// Default: `float`.
        encoding_format: Option<EncodingFormat>,
        /// Number of leading values of each vector to keep, at least 1, scaled to unit length again. Default: `dimensions` of `/info`.
        #[serde(alias = "output_dimension")]
        dimensions: Option<usize>,
        /// Kind of the inputs. Infinity's client always sends it, with `dimensions` of 0, which means the default.
        modality: Option<Modality>,
        /// Voyage's element type; only `float` is supported.
        #[allow(dead_code, reason = "deserializing it checks it")]
        output_dtype: Option<OutputDtype>,
        /// Element type in base64 and binary responses. Default: `float32`.
        embed_dtype: Option<ElementType>,
        /// Byte order; only little-endian is supported.
        #[allow(dead_code, reason = "deserializing it checks it")]
        endianness: Option<Endianness>,
    }
}

/// Element types by Voyage's names. Others are rejected, because a client would misread the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum OutputDtype {
    Float,
}

/// Kinds of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Modality {
    Text,
}

/// Byte order of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Endianness {
    Little,
    /// The server's order, which is little-endian.
    Native,
}

/// A list of vectors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmbeddingsResponse<'a> {
    /// `list`
    object: &'static str,
    data: Vec<Embedding<'a>>,
    model: &'a str,
    usage: UsageBody,
}

/// One vector.
#[derive(Debug, Serialize, ToSchema)]
struct Embedding<'a> {
    /// `embedding`
    object: &'static str,
    /// Index of its input.
    index: usize,
    embedding: Vector<'a>,
}

/// A list of numbers, or the base64 of their bytes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Vector<'a> {
    Float(&'a [f32]),
    #[allow(dead_code, reason = "written by `JsonVectors`; serde writes it in tests only")]
    Base64(String),
}

impl EmbeddingsResponse<'_> {
    /// The response with `vectors` as its data. Serde writes all but the vectors, which go straight into the text.
    fn text(&self, format: JsonVectors, vectors: Vec<Vec<f32>>) -> JsonText {
        let data = JsonText::default().list_of(vectors.into_iter().enumerate(), move |(index, vector)| {
            let embedding = Embedding { object: "embedding", index, embedding: Vector::Float(&[]) };
            let (before, after) = split_around(&embedding, "[]");
            framed(before, format.steps(vector), after)
        });
        JsonText::around(self, [("data", data)])
    }
}

/// Vectors of texts
///
/// OpenAI's embeddings. With `Accept: application/octet-stream` the response is the vectors' values, row by row and
/// little-endian, in the type `embed_dtype` (or the parameter `dtype` of the header).
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "OpenAI", request_body = EmbeddingsBody,
    responses((status = 200, description = "The vectors", content(
        (EmbeddingsResponse = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
pub(crate) async fn embeddings(head: Head, accept: Accept, Json(mut body): Json<EmbeddingsBody>) -> Result {
    let call = head.for_model(body.model.as_deref());
    let encode = body.encode_fields();
    let EmbeddingsBody { input, model, encoding_format, dimensions, embed_dtype, .. } = body;
    let dimensions = dimensions.filter(|&dimensions| dimensions > 0 || body.modality.is_none());
    let model = call.model.names.answered(model.as_deref())?;
    let options = EmbedOptions { encode: encode.for_field("input", &call)?, normalize: Some(true), dimensions };
    let answered = call.engine.embed(input.0.into_vec(), options).await?;
    let element = embed_dtype.unwrap_or_default();
    if let Accept::Binary(asked) = accept {
        return Answer::binary(answered, asked.unwrap_or(element)).await;
    }
    let vectors = JsonVectors { format: encoding_format.unwrap_or_default(), element };
    if vectors.format == EncodingFormat::Base64 {
        element.check(&answered.results).await?;
    }
    let response = EmbeddingsResponse { object: "list", data: Vec::new(), model, usage: answered.usage.into() };
    Ok(Answer::json(answered, |results| response.text(vectors, results)))
}

/// The served model.
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
    /// Unix time of the server's start in seconds.
    created: u64,
    /// `prefold`
    owned_by: &'static str,
    /// Id of the model behind the name.
    root: String,
    /// Maximum tokens of an input.
    max_model_len: usize,
}

/// The names of the served model
///
/// The first is the name in responses; all mean the same model.
#[utoipa::path(
    get, path = "/v1/models", tag = "OpenAI", responses((status = 200, description = "The names", body = ModelList))
)]
pub(crate) async fn models(State(app): State<App>) -> Answer {
    let data = named(&app).map(|(name, model)| model_object(&app, model, name)).collect();
    Answer::free(&ModelList { object: "list", data })
}

/// One name of the served model
#[utoipa::path(
    get, path = "/v1/models/{model}", tag = "OpenAI", params(("model" = String, Path, description = "A name")),
    responses(
        (status = 200, description = "The model", body = ModelObject),
        (status = 404, description = "No model has this name")
    )
)]
pub(crate) async fn model(State(app): State<App>, name: std::result::Result<Path<String>, PathRejection>) -> Result {
    // No model has a name that is not UTF-8.
    let name = name.map_or_else(|_| char::REPLACEMENT_CHARACTER.to_string(), |Path(name)| name);
    match app.models.named(&name) {
        Some(model) => Ok(Answer::free(&model_object(&app, model, &name))),
        None => {
            let known: Vec<&str> = named(&app).map(|(name, _)| name).collect();
            Err(ApiError::UnknownModel { name: shown(&name), known: known.join(", ") })
        }
    }
}

/// All names, each with its model.
fn named(app: &App) -> impl Iterator<Item = (&str, &ServedModel)> {
    app.models.iter().flat_map(|model| model.names.all().map(move |name| (name, &**model)))
}

fn model_object(app: &App, model: &ServedModel, name: &str) -> ModelObject {
    ModelObject {
        id: name.to_owned(),
        object: "model",
        created: app.started,
        owned_by: "prefold",
        root: model.names.id.clone(),
        max_model_len: model.engine.info().capabilities.max_input_length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::element::BinaryPieces;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use prefold_core::Usage;

    /// OpenAPI describes the types; clients get the writer's output.
    #[test]
    fn the_writer_writes_what_serde_writes() {
        let vectors = [vec![0.25, -1.0e-7, 3.0], vec![], vec![f32::MIN_POSITIVE]];
        let usage = Usage { characters: 9, tokens: 7, computed_tokens: 5, truncated_inputs: 0 };
        let base64 = |element| {
            move |vector: &Vec<f32>| {
                Vector::Base64(
                    STANDARD.encode(BinaryPieces::new(vec![vector.clone()], element).next().unwrap_or_default()),
                )
            }
        };
        let float = |vector: &Vec<f32>| Vector::Float(vector.clone().leak());
        type Typed = Box<dyn Fn(&Vec<f32>) -> Vector<'static>>;
        let forms: [(EncodingFormat, ElementType, Typed); 3] = [
            (EncodingFormat::Float, ElementType::Float32, Box::new(float)),
            (EncodingFormat::Base64, ElementType::Float32, Box::new(base64(ElementType::Float32))),
            (EncodingFormat::Base64, ElementType::Bfloat16, Box::new(base64(ElementType::Bfloat16))),
        ];
        for (format, element, typed) in forms {
            let response =
                |data| EmbeddingsResponse { object: "list", data, model: "a \"[]\" \n", usage: usage.into() };
            let text = response(Vec::new()).text(JsonVectors { format, element }, vectors.to_vec());
            let written = String::from_utf8(text.flatten().collect()).unwrap();
            let data = vectors.iter().enumerate();
            let data = data.map(|(index, vector)| Embedding { object: "embedding", index, embedding: typed(vector) });
            let by_serde = serde_json::to_string(&response(data.collect())).unwrap();
            assert_eq!(written, by_serde, "{format:?} {element:?}");
        }
    }
}
