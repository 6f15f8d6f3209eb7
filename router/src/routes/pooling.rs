//! vLLM's pooled outputs of any task: `/pooling`.

use super::Result;
use super::predict::activation;
use crate::state::call::{Call, Head};
use crate::state::unix_time;
use crate::wire::accept::Accept;
use crate::wire::body::Json;
use crate::wire::element::{Element, Layout};
use crate::wire::inputs::Inputs;
use crate::wire::json_writer::{float_steps, split_around};
use crate::wire::pieces::{JsonText, framed, steps_of_list};
use crate::wire::request_body::request_body;
use crate::wire::schema::InputsSchema;
use crate::wire::usage::UsageBody;
use crate::wire::vectors::{JsonForm, VectorForm};
use prefold_core::{
    Capabilities, EmbedOptions, EncodeOptions, Error, Input, LogitActivation, Pauses, Response, TokenVectors,
};
use serde::{Deserialize, Serialize};
use std::num::NonZero;
use utoipa::ToSchema;

request_body! {
    /// Inputs of the model, and options, named as in vLLM.
    pub(crate) struct PoolingBody: model, truncation_side, input_tokens, vector_form, vllm {
        #[schema(value_type = InputsSchema)]
        input: Inputs,
        /// Output for each input. Default: `embed` if the model embeds, else `classify`.
        task: Option<PoolingTask>,
        /// With `embed`: number of leading values of each vector to keep, scaled to unit length again. Default: `dimensions` of `/info`.
        dimensions: Option<usize>,
        /// False: vectors that are not scaled to unit length; logits instead of probabilities.
        #[serde(alias = "activation")]
        use_activation: Option<bool>,
    }
}

/// Kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PoolingTask {
    /// A vector.
    Embed,
    /// A probability for each label.
    Classify,
    /// A vector for each token.
    TokenEmbed,
    /// A probability for each token and label; only `/predict_tokens` answers it.
    TokenClassify,
}

/// A list of outputs.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PoolingResponse<'a> {
    id: String,
    /// `list`
    object: &'static str,
    /// Unix time in seconds.
    created: u64,
    model: &'a str,
    data: Vec<PoolingItem>,
    usage: UsageBody,
}

/// The output for an input.
#[derive(Debug, Serialize, ToSchema)]
struct PoolingItem {
    index: usize,
    /// `pooling`
    object: &'static str,
    data: PoolingData,
}

/// Values of an input: a list, a list for each token, or the base64 of all their bytes.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: values are written one by one")]
enum PoolingData {
    Vector(Vec<f32>),
    Rows(Vec<Vec<f32>>),
    Base64(String),
}

/// Outputs of inputs, by task
///
/// vLLM's route for all outputs of a model: vectors, label probabilities, or a vector for each token.
#[utoipa::path(
    post, path = "/pooling", tag = "vLLM",
    request_body(content = PoolingBody, example = json!({ "input": ["How do I lock a file?", "Use flock."] })),
    responses((status = 200, description = "An output for each input", content(
        (PoolingResponse = "application/json"), (Vec<u8> = "application/octet-stream")
    )))
)]
pub(crate) async fn pooling(head: Head, accept: Accept, Json(mut body): Json<PoolingBody>) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    let encode = body.encode_fields().for_field("input", &call)?;
    let PoolingBody {
        input, model, encoding_format, embed_dtype, endianness, task, dimensions, use_activation, ..
    } = body;
    let model = call.model.names.answered(model.as_deref())?;
    let asked = if let Accept::Binary(asked) = accept { asked } else { None };
    let element = Element::Float(asked.or(embed_dtype).unwrap_or_default());
    let layout = Layout { element, endianness: endianness.unwrap_or_default() };
    let form = VectorForm::new(accept, encoding_format, layout);
    form.check(input.0.len())?;
    form.ignore_byte_fields(embed_dtype, endianness, &call)?;
    let options =
        Options { task: task.unwrap_or_else(|| own_task(&call)), dimensions, activated: use_activation != Some(false) };
    let (answered, width) = pooled(&call, input.0.into_vec(), encode, options).await?;
    let response = PoolingResponse {
        id: call.response_id("pooling"),
        object: "list",
        created: unix_time(),
        model,
        data: Vec::new(),
        usage: answered.usage.into(),
    };
    let id = response.id.clone();
    form.answer(answered, width, (id, model), |form, results| {
        let data = JsonText::default().list_of(results.into_iter().enumerate(), move |(index, values)| {
            let item = PoolingItem { index, object: "pooling", data: PoolingData::Vector(Vec::new()) };
            let (before, after) = split_around(&item, "[]");
            framed(before, steps(form, width, values), after)
        });
        JsonText::around(&response, [("data", data)])
    })
    .await
}

/// Writer of an input's values.
fn steps(
    form: JsonForm,
    width: Option<NonZero<usize>>,
    values: Vec<f32>,
) -> Box<dyn FnMut(&mut String) -> bool + Send> {
    match (form, width) {
        (JsonForm::List(_), Some(width)) => {
            let rows = (0..values.len() / width).map(move |row| values[row * width.get()..][..width.get()].to_vec());
            Box::new(steps_of_list(rows, float_steps))
        }
        (form, _) => form.steps(values),
    }
}

/// The task of requests that name none.
fn own_task(call: &Call) -> PoolingTask {
    match &*call.engine.info().capabilities {
        Capabilities { embed: Some(_), .. } => PoolingTask::Embed,
        Capabilities { classify_tokens: Some(_), .. } => PoolingTask::TokenClassify,
        _ => PoolingTask::Classify,
    }
}

/// Options of a request, checked.
struct Options {
    task: PoolingTask,
    dimensions: Option<usize>,
    /// Vectors of unit length, or probabilities.
    activated: bool,
}

/// The values of each input, and the width of their rows if they have one for each token.
async fn pooled(
    call: &Call,
    inputs: Vec<Input>,
    encode: EncodeOptions,
    Options { task, dimensions, activated }: Options,
) -> std::result::Result<(Response<Vec<f32>>, Option<NonZero<usize>>), Error> {
    if dimensions.is_some() && task != PoolingTask::Embed {
        return Err(Error::invalid("dimensions", "needs the task `embed`"));
    }
    match task {
        PoolingTask::Embed => {
            let options = EmbedOptions { encode, normalize: Some(activated), dimensions };
            Ok((call.engine.embed(inputs, options).await?, None))
        }
        PoolingTask::Classify => {
            let activation =
                if activated { activation(&call.engine.info().capabilities) } else { LogitActivation::Identity };
            let (mut answered, mut pauses) = (call.engine.classify(inputs, encode).await?, Pauses::default());
            for logits in &mut answered.results {
                *logits = activation.apply(logits);
                pauses.after(logits.len()).await;
            }
            Ok((answered, None))
        }
        PoolingTask::TokenEmbed => {
            let (mut answered, mut pauses) = (call.engine.embed_tokens(inputs, encode).await?, Pauses::default());
            for vectors in answered.results.iter_mut().filter(|_| activated) {
                vectors.normalize();
                pauses.after(vectors.len()).await;
            }
            let width = answered.results.first().and_then(|vectors| NonZero::new(vectors.dim()));
            let Response { results, usage, timings, share } = answered;
            let results = results.into_iter().map(TokenVectors::into_values).collect();
            Ok((Response { results, usage, timings, share }, width))
        }
        PoolingTask::TokenClassify => {
            Err(Error::invalid("task", "is `token_classify`, which /predict_tokens answers and /pooling does not"))
        }
    }
}
