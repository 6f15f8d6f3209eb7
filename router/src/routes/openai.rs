//! OpenAI's embeddings, with the fields of Voyage, Jina, vLLM and Infinity.

use super::Result;
use super::quantized::quantized;
use crate::state::call::{Call, Head};
use crate::state::unix_time;
use crate::wire::accept::Accept;
use crate::wire::body::Json;
use crate::wire::element::{Element, Layout};
use crate::wire::inputs::Inputs;
use crate::wire::json_writer::split_around;
use crate::wire::pieces::{JsonText, framed};
use crate::wire::refused::{LateChunking, Multivector};
use crate::wire::request_body::request_body;
use crate::wire::schema::InputsSchema;
use crate::wire::usage::UsageBody;
use crate::wire::vectors::{EmbeddingType, EncodingFormat, JsonForm, OneEmbeddingType, VectorForm};
use prefold_core::{EmbedOptions, Error};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

request_body! {
    /// Inputs to embed, and options. Unlisted fields (`request_id`, ...) are ignored.
    pub(crate) struct EmbeddingsBody: model, truncation_side, input_tokens, prompt, vector_form, vllm {
        #[schema(value_type = InputsSchema)]
        input: Inputs,
        /// Number of leading values of each vector to keep, at least 1, scaled to unit length again. Default: `dimensions` of `/info`.
        #[serde(alias = "output_dimension")]
        dimensions: Option<usize>,
        /// Kind of the inputs. Infinity's client always sends it, with `dimensions` of 0, which means the default.
        modality: Option<Modality>,
        /// Voyage's element type. With `encoding_format` of `base64`, the integers' bytes. Default: `float`.
        output_dtype: Option<EmbeddingType>,
        /// Jina's element type, which decides the form too, whatever `encoding_format` is: `base64` gives strings, others lists.
        #[schema(value_type = Option<EmbeddingType>)]
        #[serde(alias = "encoding_type")]
        embedding_type: Option<OneEmbeddingType>,
        /// Scale vectors to unit length. False returns the output of pooling and dense layers, as `normalize` of `/embed` does. Default: true.
        #[serde(alias = "normalize", alias = "use_activation", alias = "activation")]
        normalized: Option<bool>,
        /// Jina's pooling of inputs that are read as one text; only false is supported.
        #[schema(value_type = Option<bool>)]
        #[allow(dead_code, reason = "deserializing it checks it")]
        late_chunking: Option<LateChunking>,
        /// Jina's vectors of tokens; only false is supported. `/pooling` returns them with the task `token_embed`.
        #[schema(value_type = Option<bool>)]
        #[allow(dead_code, reason = "deserializing it checks it")]
        return_multivector: Option<Multivector>,
    }
}

/// Kinds of inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Modality {
    Text,
}

/// A list of vectors.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EmbeddingsResponse<'a> {
    id: String,
    /// `list`
    object: &'static str,
    /// Unix time in seconds.
    created: u64,
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

/// A list of numbers (integers for `int8`, `uint8`, `binary` and `ubinary`), or the base64 of their bytes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
enum Vector<'a> {
    Float(&'a [f32]),
    #[allow(dead_code, reason = "written by `JsonForm`; serde writes it in tests only")]
    Base64(String),
}

impl EmbeddingsResponse<'_> {
    /// The response with `vectors` as its data. Serde writes all but the vectors, which go straight into the text.
    fn text(&self, form: JsonForm, vectors: Vec<Vec<f32>>) -> JsonText {
        let data = JsonText::default().list_of(vectors.into_iter().enumerate(), move |(index, vector)| {
            let embedding = Embedding { object: "embedding", index, embedding: Vector::Float(&[]) };
            let (before, after) = split_around(&embedding, "[]");
            framed(before, form.steps(vector), after)
        });
        JsonText::around(self, [("data", data)])
    }
}

/// Vectors of texts
///
/// OpenAI's embeddings. With `Accept: application/octet-stream` or the `encoding_format` `bytes_only` the response is the
/// vectors' values, row by row, in the type `embed_dtype` (or the parameter `dtype` of the header), or the integers of
/// `output_dtype`; with `bytes` the header `metadata` describes them.
#[utoipa::path(
    post, path = "/v1/embeddings", tag = "OpenAI",
    request_body(content = EmbeddingsBody, example = json!({ "input": ["How do I lock a file?", "Use flock."] })),
    responses((
        status = 200, description = "The vectors",
        content((EmbeddingsResponse = "application/json"), (Vec<u8> = "application/octet-stream")),
        headers(("x-embedding-range" = f32, description = "With `int8` and `uint8`: the value for which 127 (255) stands"))
    ))
)]
pub(crate) async fn embeddings(head: Head, accept: Accept, Json(mut body): Json<EmbeddingsBody>) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    let encode = body.encode_fields().for_field("input", &call)?;
    body.dimensions = body.dimensions.filter(|&dimensions| dimensions > 0 || body.modality.is_none());
    if let Accept::Binary(Some(asked)) = accept {
        body.embed_dtype = Some(asked);
    }
    let form = vector_form(&body, accept, &call).await?;
    let EmbeddingsBody { input, model, dimensions, normalized, embed_dtype, endianness, .. } = body;
    form.check(input.0.len())?;
    form.ignore_byte_fields(embed_dtype, endianness, &call)?;
    let model = call.model.names.answered(model.as_deref())?;
    let options = EmbedOptions { encode, normalize: Some(normalized.unwrap_or(true)), dimensions };
    let answered = call.engine.embed(input.0.into_vec(), options).await?;
    let (id, created, usage) = (call.response_id("embd"), unix_time(), answered.usage.into());
    let response = EmbeddingsResponse { id: id.clone(), object: "list", created, data: Vec::new(), model, usage };
    form.answer(answered, None, (id, model), |form, vectors| response.text(form, vectors)).await
}

/// Form of the vectors.
///
/// # Errors
/// [`Error::Validation`] for fields that contradict each other or are not supported; the errors of [`quantized`].
async fn vector_form(body: &EmbeddingsBody, accept: Accept, call: &Call) -> std::result::Result<VectorForm, Error> {
    let &EmbeddingsBody { dimensions, output_dtype, embed_dtype, normalized, .. } = body;
    let embedding_type = body.embedding_type.map(|one| one.0);
    let endianness = body.endianness.unwrap_or_default();
    let (field, asked, format) = match (embedding_type, output_dtype) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("output_dtype", "must be the only one of `embedding_type` and `output_dtype`"));
        }
        (Some(asked), None) => ("embedding_type", Some(asked), Some(asked.format())),
        (None, Some(EmbeddingType::Base64)) => ("output_dtype", output_dtype, Some(EncodingFormat::Base64)),
        (None, asked) => ("output_dtype", asked, body.encoding_format),
    };
    let Some(kind) = asked.and_then(EmbeddingType::quantized) else {
        let element = Element::Float(embed_dtype.unwrap_or_default());
        return Ok(VectorForm::new(accept, format, Layout { element, endianness }));
    };
    if embed_dtype.is_some() {
        let of_floats = if matches!(accept, Accept::Binary(Some(_))) { "accept" } else { "embed_dtype" };
        return Err(Error::invalid(of_floats, format!("is for floats, and `{field}` asks for {}", kind.as_str())));
    }
    if normalized == Some(false) && !kind.is_packed() {
        let problem = format!("cannot be false with {}, whose range is that of vectors of unit length", kind.as_str());
        return Err(Error::invalid("normalized", problem));
    }
    let element = quantized(kind, dimensions, field, call).await?;
    Ok(VectorForm::new(accept, format, Layout { element, endianness }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::element::{BinaryPieces, ElementType};
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use prefold_core::Usage;

    /// OpenAPI describes the types; clients get the writer's output.
    #[test]
    fn the_writer_writes_what_serde_writes() {
        let vectors = [vec![0.25, -1.0e-7, 3.0], vec![], vec![f32::MIN_POSITIVE]];
        let usage = Usage { characters: 9, tokens: 7, computed_tokens: 5, truncated_inputs: 0, foreign_inputs: 0 };
        let base64 = |element| {
            move |vector: &Vec<f32>| {
                Vector::Base64(STANDARD.encode(
                    BinaryPieces::new(vec![vector.clone()], Element::Float(element)).next().unwrap_or_default(),
                ))
            }
        };
        let float = |vector: &Vec<f32>| Vector::Float(vector.clone().leak());
        type Typed = Box<dyn Fn(&Vec<f32>) -> Vector<'static>>;
        let coded = |element: ElementType| JsonForm::Base64(element.into());
        let forms: [(JsonForm, Typed); 3] = [
            (JsonForm::default(), Box::new(float)),
            (coded(ElementType::Float32), Box::new(base64(ElementType::Float32))),
            (coded(ElementType::Bfloat16), Box::new(base64(ElementType::Bfloat16))),
        ];
        for (form, typed) in forms {
            let response = |data| EmbeddingsResponse {
                id: "embd-1".to_owned(),
                object: "list",
                created: 5,
                data,
                model: "a \"[]\" \n",
                usage: usage.into(),
            };
            let text = response(Vec::new()).text(form, vectors.to_vec());
            let written = String::from_utf8(text.flatten().collect()).unwrap();
            let data = vectors.iter().enumerate();
            let data = data.map(|(index, vector)| Embedding { object: "embedding", index, embedding: typed(vector) });
            let by_serde = serde_json::to_string(&response(data.collect())).unwrap();
            assert_eq!(written, by_serde, "{form:?}");
        }
    }
}
