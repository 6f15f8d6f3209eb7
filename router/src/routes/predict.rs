//! Classification as TEI (`/predict`) and vLLM (`/v1/classify`) ask for it.

use super::{Result, now, response_id};
use crate::answer::Answer;
use crate::app::App;
use crate::error::ApiError;
use crate::extract::{Direction, EncodeFields, Inputs, Json, RawBody, Sequences, parse};
use crate::schema::{InputsSchema, SequencesSchema};
use crate::usage::UsageBody;
use axum::extract::State;
use prefold_core::{ModelKind, Response, sigmoid, softmax};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What to classify.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct PredictBody {
    #[schema(value_type = SequencesSchema)]
    inputs: Sequences,
    /// Cut what is too long instead of refusing it; `--auto-truncate` when absent.
    truncate: Option<bool>,
    /// Which end to cut; right when absent.
    truncation_direction: Option<Direction>,
    /// One of the model's prompts, to put before each text.
    prompt_name: Option<String>,
    /// Logits in place of probabilities.
    raw_scores: Option<bool>,
}

/// A label and how likely it is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct Prediction {
    score: f32,
    label: String,
}

/// One list, or one for each input.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes the two answers of one route")]
#[serde(untagged)]
pub(crate) enum Predictions {
    Single(Vec<Prediction>),
    Batch(Vec<Vec<Prediction>>),
}

/// Labels of a text or pair
///
/// The likeliest first; a list of such lists for a batch. A flat list of two texts is a pair.
#[utoipa::path(
    post, path = "/predict", tag = "text-embeddings-inference", request_body = PredictBody,
    responses((status = 200, description = "The labels with their scores", body = Predictions))
)]
pub(crate) async fn predict(State(app): State<App>, Json(body): Json<PredictBody>) -> Result {
    let is_batch = body.inputs.is_batch;
    let (answered, predictions) = predict_all(&app, body).await?;
    Ok(match (is_batch, predictions.first()) {
        (false, Some(single)) => Answer::json(&answered, single),
        _ => Answer::json(&answered, &predictions),
    })
}

/// `POST /` of a classifier: with `parameters`, which Hugging Face's `InferenceClient` always sends, as its pipelines
/// answer, a list for each input even where there is one; `/predict` otherwise.
pub(crate) async fn predict_or_pipeline(State(app): State<App>, RawBody(body): RawBody) -> Result {
    let Some(Parameters { function_to_apply, top_k }) = parse::<Pipeline>(&body)?.parameters else {
        return predict(State(app), Json(parse(&body)?)).await;
    };
    let mut body: PredictBody = parse(&body)?;
    body.raw_scores = Some(body.raw_scores.unwrap_or(function_to_apply == Some(Function::None)));
    let (answered, mut predictions) = predict_all(&app, body).await?;
    predictions.iter_mut().for_each(|labels| labels.truncate(top_k.unwrap_or(usize::MAX)));
    Ok(Answer::json(&answered, &predictions))
}

/// What a pipeline's request has beside `inputs`.
#[derive(Debug, Deserialize)]
struct Pipeline {
    parameters: Option<Parameters>,
}

/// The parameters of a pipeline.
#[derive(Debug, Deserialize)]
struct Parameters {
    function_to_apply: Option<Function>,
    top_k: Option<usize>,
}

/// What makes scores of logits. Which of the first two is decided by the number of labels.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Function {
    Sigmoid,
    Softmax,
    None,
}

async fn predict_all(
    app: &App,
    body: PredictBody,
) -> std::result::Result<(Response<Vec<f32>>, Vec<Vec<Prediction>>), ApiError> {
    let PredictBody { inputs, truncate, truncation_direction, prompt_name, raw_scores } = body;
    let encode = EncodeFields { truncate, truncation_direction, prompt_name, ..Default::default() };
    let answered = app.engine.classify(inputs.inputs, encode.for_field("inputs")?).await?;
    let labels = labels(app);
    let predict = |logits: &Vec<f32>| predictions(logits, labels, raw_scores.unwrap_or(false));
    let predictions = answered.results.iter().map(predict).collect();
    Ok((answered, predictions))
}

/// What to classify; the fields of vLLM.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ClassifyBody {
    #[schema(value_type = InputsSchema)]
    input: Inputs,
    /// Echoed. There is one model, so any name is taken for it.
    model: Option<String>,
    /// False gives logits in place of probabilities.
    #[serde(alias = "activation")]
    use_activation: Option<bool>,
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

/// A list of classes.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ClassifyResponse {
    id: String,
    /// `list`
    object: &'static str,
    /// Seconds since 1970.
    created: u64,
    model: String,
    data: Vec<Classified>,
    usage: UsageBody,
}

/// An input's class.
#[derive(Debug, Serialize, ToSchema)]
struct Classified {
    index: usize,
    /// The likeliest.
    label: String,
    /// One for each label, in the model's order.
    probs: Vec<f32>,
    num_classes: usize,
}

/// Classes of texts
///
/// vLLM's classification: for each input the likeliest label, and the probabilities of all.
#[utoipa::path(
    post, path = "/v1/classify", tag = "vLLM", request_body = ClassifyBody,
    responses((status = 200, description = "A class for each input", body = ClassifyResponse))
)]
pub(crate) async fn classify(State(app): State<App>, Json(body): Json<ClassifyBody>) -> Result {
    let encode = EncodeFields {
        truncate: body.truncate,
        truncate_prompt_tokens: body.truncate_prompt_tokens,
        truncation_direction: body.truncation_side,
        add_special_tokens: body.add_special_tokens,
        ..Default::default()
    };
    let answered = app.engine.classify(body.input.0, encode.for_field("input")?).await?;
    let raw = body.use_activation == Some(false);
    let labels = labels(&app);
    let classified = |(index, logits): (usize, &Vec<f32>)| {
        let probs = scores(logits, raw);
        let likeliest = (0..probs.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0);
        Classified { index, label: label(labels, likeliest), num_classes: probs.len(), probs }
    };
    let response = ClassifyResponse {
        id: response_id("classify"),
        object: "list",
        created: now(),
        model: body.model.unwrap_or_else(|| app.names.served.clone()),
        data: answered.results.iter().enumerate().map(classified).collect(),
        usage: answered.usage.into(),
    };
    Ok(Answer::json(&answered, &response))
}

/// The names of the classes; none unless the model is a classifier.
fn labels(app: &App) -> &[String] {
    match &app.engine.info().kind {
        ModelKind::Classifier { labels } => labels,
        ModelKind::Embedding { .. } | ModelKind::Reranker => &[],
    }
}

fn label(labels: &[String], index: usize) -> String {
    labels.get(index).cloned().unwrap_or_else(|| format!("LABEL_{index}"))
}

fn scores(logits: &[f32], raw: bool) -> Vec<f32> {
    match logits {
        _ if raw => logits.to_vec(),
        [logit] => vec![sigmoid(*logit)],
        _ => softmax(logits),
    }
}

fn predictions(logits: &[f32], labels: &[String], raw: bool) -> Vec<Prediction> {
    let scores = scores(logits, raw).into_iter().enumerate();
    let mut predictions: Vec<_> =
        scores.map(|(index, score)| Prediction { score, label: label(labels, index) }).collect();
    predictions.sort_by(|a, b| b.score.total_cmp(&a.score));
    predictions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_probabilities_unless_raw() {
        let labels = ["no".to_owned(), "yes".to_owned()];
        let raw = predictions(&[-1.0, 2.0], &labels, true);
        assert_eq!(raw[0], Prediction { score: 2.0, label: "yes".to_owned() });
        let soft = predictions(&[-1.0, 2.0], &labels, false);
        assert!((soft[0].score + soft[1].score - 1.0).abs() < 1e-6 && soft[0].label == "yes");
        assert_eq!(predictions(&[0.0], &labels, false), [Prediction { score: 0.5, label: "no".to_owned() }]);
        assert_eq!(predictions(&[0.0, 1.0, 2.0], &labels, false)[0].label, "LABEL_2");
    }
}
