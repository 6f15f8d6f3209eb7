//! Classification in the forms of TEI (`/predict`) and vLLM (`/v1/classify`).

use super::Result;
use crate::error::ApiError;
use crate::state::call::{Call, Head};
use crate::state::unix_time;
use crate::wire::answer::Answer;
use crate::wire::body::Json;
use crate::wire::encode_fields::EncodeFields;
use crate::wire::inputs::{Inputs, Sequences};
use crate::wire::json_writer::{float_steps, split_around};
use crate::wire::pieces::{JsonText, framed, list_steps, write_value};
use crate::wire::prompt::PromptFields;
use crate::wire::ranking::Ranking;
use crate::wire::refused::OwnLabels;
use crate::wire::request_body::request_body;
use crate::wire::schema::{InputsSchema, SequencesSchema};
use crate::wire::usage::UsageBody;
use prefold_core::{Capabilities, LogitActivation, Response};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use utoipa::ToSchema;

request_body! {
    /// Inputs to classify, and options.
    pub(crate) struct PredictBody: truncation {
        #[schema(value_type = SequencesSchema)]
        inputs: Sequences,
        /// Name of the model's prompt to put before each text.
        prompt_name: Option<String>,
        /// Logits instead of probabilities.
        raw_scores: Option<bool>,
        /// Parameters of Hugging Face's pipelines.
        parameters: Option<Parameters>,
    }
}

/// A label and its score.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Prediction<'a> {
    pub(crate) score: f32,
    #[schema(value_type = String)]
    pub(crate) label: Cow<'a, str>,
}

/// A list of labels, or one such list per input.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: labels are written one by one")]
pub(crate) enum Predictions<'a> {
    Single(Vec<Prediction<'a>>),
    Batch(Vec<Vec<Prediction<'a>>>),
}

/// Labels of a text or pair
///
/// Best score first; a list of such lists for a batch. A flat list of two texts is a pair. With `parameters`, which
/// Hugging Face's `InferenceClient` always sends, the response has the format of Hugging Face's pipelines: a list for
/// each input, even a single one.
#[utoipa::path(
    post, path = "/predict", tag = "text-embeddings-inference",
    request_body(content = PredictBody, example = json!({ "inputs": [["The tide comes in."], ["The tide goes out."]] })),
    responses((status = 200, description = "The labels with their scores", body = Predictions))
)]
pub(crate) async fn predict(head: Head, Json(mut body): Json<PredictBody>) -> Result {
    let call = head.for_default();
    let parameters = body.parameters.take();
    let is_batch = body.inputs.is_batch || parameters.is_some();
    let (answered, labelled) = classify_all(&call, body, parameters.unwrap_or_default()).await?;
    Ok(Answer::json(answered, |all| {
        if is_batch {
            JsonText::default().list_of(all, labelled)
        } else {
            all.into_iter().map(labelled).fold(JsonText::default(), JsonText::steps)
        }
    }))
}

/// Writer of a list, step by step.
type ListSteps = Box<dyn FnMut(&mut String) -> bool + Send>;

/// Parameters of a pipeline.
#[derive(Debug, Default, Deserialize, ToSchema)]
struct Parameters {
    /// `none` means `raw_scores`.
    function_to_apply: Option<Function>,
    /// Number of best labels. Default: all.
    top_k: Option<usize>,
    /// Not supported.
    #[schema(ignore)]
    #[allow(dead_code, reason = "deserializing it refuses it")]
    candidate_labels: Option<OwnLabels>,
}

/// Function from logits to scores. Default: the model's.
#[derive(Debug, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Function {
    Sigmoid,
    Softmax,
    None,
}

/// The logits of the inputs, and a function from an input's logits to the writer of its best labels. It writes label by label: there may be
/// tens of thousands.
async fn classify_all(
    call: &Call,
    mut body: PredictBody,
    parameters: Parameters,
) -> std::result::Result<(Response<Vec<f32>>, impl Fn(Vec<f32>) -> ListSteps + Send + use<>), ApiError> {
    let prompt = PromptFields { prompt_name: body.prompt_name.take(), ..Default::default() };
    let encode = EncodeFields { prompt, ..body.encode_fields() }.for_field("inputs", call)?;
    let answered = call.engine.classify(body.inputs.inputs.into_vec(), encode).await?;
    let top_k = parameters.top_k.unwrap_or(usize::MAX);
    let capabilities = Arc::clone(&call.engine.info().capabilities);
    let activation = match (body.raw_scores, parameters.function_to_apply) {
        (Some(true), _) | (None, Some(Function::None)) => LogitActivation::Identity,
        (_, Some(Function::Sigmoid)) => LogitActivation::Sigmoid,
        (_, Some(Function::Softmax)) => LogitActivation::Softmax,
        (_, Some(Function::None) | None) => activation(&capabilities),
    };
    Ok((answered, labelled(capabilities, activation, top_k)))
}

/// A function from an input's logits to the writer of its best labels.
fn labelled(
    capabilities: Arc<Capabilities>,
    activation: LogitActivation,
    top_k: usize,
) -> impl Fn(Vec<f32>) -> ListSteps + Send {
    move |logits: Vec<f32>| -> ListSteps {
        let capabilities = Arc::clone(&capabilities);
        let best = Ranking::of(activation.apply(&logits)).take(top_k);
        Box::new(list_steps(best, move |out, (index, score)| {
            write_value(out, &Prediction { score, label: label(labels(&capabilities), index) });
        }))
    }
}

request_body! {
    /// Inputs to classify, and options, named as in vLLM.
    pub(crate) struct ClassifyBody: model, truncation_side, input_tokens, vllm {
        #[schema(value_type = InputsSchema)]
        input: Inputs,
        /// False: logits instead of probabilities.
        #[serde(alias = "activation")]
        use_activation: Option<bool>,
        /// Infinity's field, which its client always sends: the response has Infinity's form. True returns logits.
        raw_scores: Option<bool>,
        /// Labels of Jina's classification: not supported.
        #[schema(ignore)]
        #[allow(dead_code, reason = "deserializing it refuses it")]
        labels: Option<OwnLabels>,
        /// Classifier of Jina's API: not supported.
        #[schema(ignore)]
        #[allow(dead_code, reason = "deserializing it refuses it")]
        classifier_id: Option<OwnLabels>,
    }
}

/// A list of classes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClassifyResponse {
    id: String,
    /// `list`
    object: &'static str,
    /// Unix time in seconds.
    created: u64,
    model: String,
    data: Vec<Classified>,
    usage: UsageBody,
}

/// The class of an input.
#[derive(Debug, Serialize, ToSchema)]
struct Classified {
    index: usize,
    /// The most probable label.
    label: String,
    /// A probability per label, in the model's order.
    probs: Vec<f32>,
    num_classes: usize,
}

/// Infinity's list of labels for each input, the best first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InfinityClasses<'a> {
    /// `classify`
    object: &'static str,
    data: Vec<Vec<Prediction<'a>>>,
    model: String,
    usage: UsageBody,
    id: String,
    /// Unix time in seconds.
    created: u64,
}

/// The two forms of the response.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "described only: labels are written one by one")]
pub(crate) enum ClassifyAnswer<'a> {
    Classes(ClassifyResponse),
    Labels(InfinityClasses<'a>),
}

/// Classes of texts
///
/// vLLM's classification: the most probable label of each input, and the probabilities of all labels. With `raw_scores`
/// Infinity's: all labels of each input with their scores, the best first.
#[utoipa::path(
    post, path = "/v1/classify", tag = "vLLM",
    request_body(content = ClassifyBody, example = json!({ "input": ["The tide comes in.", "The tide goes out."] })),
    responses((status = 200, description = "The classes of each input", body = ClassifyAnswer))
)]
pub(crate) async fn classify(head: Head, Json(mut body): Json<ClassifyBody>) -> Result {
    let call = head.for_model_and_id(body.model.as_deref(), body.request_id.as_deref());
    let model = call.model.names.answered(body.model.as_deref())?.to_owned();
    let encode = body.encode_fields().for_field("input", &call)?;
    let answered = call.engine.classify(body.input.0.into_vec(), encode).await?;
    let capabilities = Arc::clone(&call.engine.info().capabilities);
    let activation = match (body.use_activation, body.raw_scores) {
        (Some(false), _) | (_, Some(true)) => LogitActivation::Identity,
        _ => activation(&capabilities),
    };
    let (created, usage) = (unix_time(), answered.usage.into());
    if body.raw_scores.is_some() {
        let (object, data, id) = ("classify", Vec::new(), call.response_id("infinity"));
        let response = InfinityClasses { object, data, model, usage, id, created };
        return Ok(Answer::json(answered, |all| {
            let data = JsonText::default().list_of(all, labelled(capabilities, activation, usize::MAX));
            JsonText::around(&response, [("data", data)])
        }));
    }
    let classified = move |(index, logits): (usize, Vec<f32>)| {
        let probs = activation.apply(&logits);
        let likeliest = (0..probs.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
        let label = label(labels(&capabilities), likeliest).into_owned();
        let (before, after) =
            split_around(&Classified { index, num_classes: probs.len(), probs: Vec::new(), label }, "[]");
        framed(before, float_steps(probs), after)
    };
    let response =
        ClassifyResponse { id: call.response_id("classify"), object: "list", created, model, data: Vec::new(), usage };
    Ok(Answer::json(answered, |all| {
        let data = JsonText::default().list_of(all.into_iter().enumerate(), classified);
        JsonText::around(&response, [("data", data)])
    }))
}

/// Names of the classes; none unless the model is a classifier.
pub(crate) fn labels(capabilities: &Capabilities) -> &[String] {
    capabilities.classify.as_ref().map_or(&[], |classify| &classify.labels)
}

fn label(labels: &[String], index: usize) -> Cow<'_, str> {
    labels.get(index).map_or_else(|| format!("LABEL_{index}").into(), Into::into)
}

/// The model's function from logits to scores.
pub(crate) fn activation(capabilities: &Capabilities) -> LogitActivation {
    capabilities.classify.as_ref().map_or(LogitActivation::Softmax, |classify| classify.activation)
}

/// The labels with their scores, the best first.
pub(crate) fn predictions<'l>(
    logits: &[f32],
    labels: &'l [String],
    activation: LogitActivation,
) -> impl Iterator<Item = Prediction<'l>> + use<'l> {
    Ranking::of(activation.apply(logits)).map(|(index, score)| Prediction { score, label: label(labels, index) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_probabilities_unless_raw() {
        let labels = ["no".to_owned(), "yes".to_owned()];
        let predictions = |logits: &[f32], activation| predictions(logits, &labels, activation).collect::<Vec<_>>();
        let raw = predictions(&[-1.0, 2.0], LogitActivation::Identity);
        assert_eq!(raw[0], Prediction { score: 2.0, label: "yes".into() });
        let soft = predictions(&[-1.0, 2.0], LogitActivation::Softmax);
        assert!((soft[0].score + soft[1].score - 1.0).abs() < 1e-6 && soft[0].label == "yes");
        assert_eq!(predictions(&[0.0], LogitActivation::Sigmoid), [Prediction { score: 0.5, label: "no".into() }]);
        assert_eq!(predictions(&[0.0, 1.0, 2.0], LogitActivation::Softmax)[0].label, "LABEL_2");
    }
}
