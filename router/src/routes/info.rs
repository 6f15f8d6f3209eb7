//! `/info` and `/metrics`.

use crate::error::ApiError;
use crate::state::App;
use crate::state::model_names::ModelNames;
use crate::state::vector_ranges::VectorRanges;
use crate::telemetry::version::{COMMIT, VERSION};
use crate::wire::answer::Answer;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prefold_core::{Capabilities, Embed, Engine, Int8Report, LogitActivation, ModelInfo, Rerank, Task, TaskProfile};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use utoipa::ToSchema;

/// TEI's fields, followed by ours.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Info<'a> {
    model_id: &'a str,
    /// Commit of a model on the hub, also without `--revision`.
    model_sha: Option<&'a str>,
    model_dtype: &'static str,
    served_model_name: &'a str,
    model_type: ModelType<'a>,
    // Null in process where nothing limits them; a server always has the limit.
    #[schema(value_type = usize)]
    max_concurrent_requests: Option<usize>,
    max_input_length: usize,
    max_batch_tokens: usize,
    max_batch_requests: Option<usize>,
    max_client_batch_size: usize,
    auto_truncate: bool,
    tokenization_workers: usize,
    version: &'static str,
    sha: Option<&'static str>,
    docker_label: Option<&'static str>,

    architecture: &'a str,
    dtype: &'static str,
    /// Reason for `dtype`.
    dtype_reason: &'a str,
    device: &'a str,
    /// Bytes that an input of `max_input_length` tokens takes in a forward pass, without the weights; linear in its length.
    longest_input_bytes: u64,
    /// Replicas that share the weights; each runs its own batches (`--cpu-replicas`).
    replicas: usize,
    /// Instruction set of the kernels.
    kernels: &'a str,
    /// Reason for `kernels`.
    kernels_reason: &'a str,
    /// Effect of int8 on each layer; null for models in other types.
    int8: Option<Int8<'a>>,
    attention: &'static str,
    radix_mlp_threshold: f32,
    radix_mlp_pad: usize,
    /// Values per vector if a request does not set `dimensions`; null if the model does not embed.
    dimensions: Option<usize>,
    /// Maximum values per vector: more than `dimensions` if the model's files truncate vectors (`truncate_dim`).
    max_dimensions: Option<usize>,
    /// Value for which 127 stands in int8 vectors of `dimensions` values, and 255 in uint8; null before the first request for such
    /// vectors, which measures it on built-in texts. The response header `x-embedding-range` has the value of each request.
    embedding_range: Option<f32>,
    /// Kind of score of the rerank routes: `probability` or `cosine_similarity`; null if the model does not rerank.
    rerank_scores: Option<&'static str>,
    /// Function from a classifier's logits to its scores: `sigmoid`, `softmax` or `identity`; null for other models.
    #[schema(value_type = Option<String>)]
    activation: Option<LogitActivation>,
    /// The same for `/v1/score`; null unless the model scores pairs.
    #[schema(value_type = Option<String>)]
    pair_activation: Option<LogitActivation>,
    prompts: Vec<&'a str>,
    /// Prompt before the texts of requests that select none; null if there is none.
    default_prompt: Option<&'a str>,
    /// Tasks with their own adapter, sub-model or length. The field `task` of the embedding routes selects one.
    tasks: Vec<&'a str>,
    /// Longest input of each task, if the limit depends on the task; `max_input_length` applies to texts without a
    /// task.
    max_input_lengths: BTreeMap<&'a str, usize>,
    /// Kinds of output that the model can compute: `embed`, `rerank`, `classify`, `classify-tokens`.
    answers: Vec<&'static str>,
    /// Reasons why answers or the device may differ from what is expected.
    warnings: &'a [String],
}

/// Effect of int8 on each linear layer.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Int8<'a> {
    /// Layers that stay in bfloat16, because their error would exceed `max_error` or `--int8-skip` names them. A fused
    /// layer (query, key and value; gate and up) has the name of its first matrix.
    kept_in_bfloat16: &'a [String],
    max_error: f64,
    /// Relative error that int8 causes in each layer's output, by layer name; null if the layer's weights or inputs are
    /// not finite.
    #[schema(value_type = BTreeMap<String, Option<f64>>)]
    errors: BTreeMap<&'a str, f64>,
}

impl<'a> Int8<'a> {
    fn new(report: &'a Int8Report) -> Self {
        Self {
            kept_in_bfloat16: &report.kept_in_bfloat16,
            max_error: report.max_error,
            errors: report.errors.iter().map(|(name, error)| (name.as_str(), *error)).collect(),
        }
    }
}

impl<'a> Info<'a> {
    /// Model and limits of an engine whose model has these names and, if they have been measured, these ranges.
    pub(crate) fn new(served: &'a Engine, names: &'a ModelNames, ranges: Option<&VectorRanges>) -> Self {
        let (model, engine) = (served.info(), served.config());
        let max_concurrent_requests = served.process_quotas().requests().limit();
        let Capabilities { embed, rerank, classify, max_input_length, .. } = &*model.capabilities;
        let prompts = model.capabilities.text_prompts();
        Self {
            model_id: &names.id,
            model_sha: model.commit.as_deref(),
            model_dtype: model.dtype,
            served_model_name: &names.served,
            max_concurrent_requests: Some(max_concurrent_requests).filter(|&limit| limit < usize::MAX),
            max_input_length: *max_input_length,
            max_batch_tokens: engine.max_batch_tokens,
            max_batch_requests: engine.max_batch_requests,
            max_client_batch_size: engine.max_client_batch_size,
            auto_truncate: engine.auto_truncate,
            tokenization_workers: engine.tokenization_workers,
            version: VERSION,
            sha: COMMIT,
            docker_label: None,
            architecture: &model.model_type,
            dtype: model.dtype,
            dtype_reason: &model.dtype_reason,
            kernels: &model.kernels,
            kernels_reason: &model.kernels_reason,
            int8: model.int8.as_ref().map(Int8::new),
            device: &model.device,
            longest_input_bytes: model.input_memory.bytes(*max_input_length),
            replicas: served.replicas(),
            attention: model.attention,
            radix_mlp_threshold: engine.radix_mlp_threshold,
            radix_mlp_pad: engine.radix_mlp_pad,
            dimensions: embed.as_ref().map(Embed::default_dim),
            max_dimensions: embed.as_ref().map(|embed| embed.dim),
            embedding_range: embed.as_ref().and_then(|embed| ranges?.known(embed.default_dim())),
            rerank_scores: rerank.as_ref().map(Rerank::score_meaning),
            activation: classify.as_ref().map(|classify| classify.activation),
            pair_activation: classify.as_ref().filter(|_| rerank.is_some()).map(|classify| classify.pair_activation),
            model_type: ModelType::new(&model.capabilities),
            prompts: prompts.iter().flat_map(|prompts| prompts.by_name.keys()).map(String::as_str).collect(),
            default_prompt: prompts.and_then(|prompts| prompts.default.as_deref()),
            tasks: embed.iter().flat_map(Embed::task_names).collect(),
            max_input_lengths: max_input_lengths(model),
            answers: model.capabilities.tasks().map(Task::as_str).collect(),
            warnings: &model.capabilities.warnings,
        }
    }
}

/// Longest input of each task, for a model with sub-models or limits per task.
fn max_input_lengths(model: &ModelInfo) -> BTreeMap<&str, usize> {
    let tasks = || model.capabilities.embed.iter().flat_map(|embed| &embed.tasks);
    let differ = model.sub_models.len() > 1 || tasks().any(|task| task.max_input_length.is_some());
    let longest = |task: &TaskProfile| {
        let of_part = model.sub_models.iter().nth(task.sub_model)?.max_input_length;
        Some(task.max_input_length.map_or(of_part, |of_task| of_task.min(of_part)))
    };
    tasks().filter(|_| differ).filter_map(|task| Some((task.task.as_str(), longest(task)?))).collect()
}

/// Kind of the model.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ModelType<'a> {
    Embedding {
        /// Pooling of token states into one vector. Several modes, whose vectors are concatenated, are separated by commas.
        pooling: String,
    },
    Reranker(Labels<'a>),
    Classifier(Labels<'a>),
}

/// Names of the classes.
#[derive(Debug, Default, Serialize, ToSchema)]
struct Labels<'a> {
    /// The keys are numbers.
    #[schema(value_type = BTreeMap<String, String>)]
    id2label: BTreeMap<usize, &'a str>,
    label2id: BTreeMap<&'a str, usize>,
}

impl<'a> Labels<'a> {
    fn new(labels: &'a [String]) -> Self {
        Self {
            id2label: labels.iter().map(String::as_str).enumerate().collect(),
            label2id: labels.iter().map(String::as_str).zip(0..).collect(),
        }
    }
}

impl<'a> ModelType<'a> {
    /// The model's own task, as TEI names it: a classifier with a single label is a reranker.
    fn new(capabilities: &'a Capabilities) -> Self {
        let Capabilities { embed, rerank, classify, classify_tokens, .. } = capabilities;
        let of_tokens = classify_tokens.as_ref().map(|classify| &classify.labels);
        let labels = classify.as_ref().map(|classify| &classify.labels).or(of_tokens);
        let labels = labels.map(|labels| Labels::new(labels)).unwrap_or_default();
        match (embed, rerank) {
            (Some(embed), _) => {
                let modes: Vec<String> = embed.pooling.iter().map(ToString::to_string).collect();
                Self::Embedding { pooling: modes.join(",") }
            }
            (None, Some(_)) => Self::Reranker(labels),
            (None, None) => Self::Classifier(labels),
        }
    }
}

/// Model and limits
#[utoipa::path(
    get, path = "/info", tag = "text-embeddings-inference",
    responses((status = 200, description = "The model and the limits", body = Info))
)]
pub(crate) async fn info(State(app): State<App>) -> Response {
    let model = Arc::clone(app.models.default());
    let number = usize::from(model.ranges.are_known());
    let text = match model.info[number].get() {
        Some(text) => text.clone(),
        // May have tens of thousands of labels: written once, on a thread that serves no connections, and shared.
        None => {
            let make = move || {
                let info = || json(&Info::new(&model.engine, &model.names, Some(&model.ranges).filter(|_| number > 0)));
                model.info[number].get_or_init(info).clone()
            };
            match tokio::task::spawn_blocking(make).await {
                Ok(text) => text,
                Err(_) => return ApiError::Panic.into_response(),
            }
        }
    };
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

fn json(info: &Info<'_>) -> Bytes {
    // Serialization of our own structs into memory cannot fail.
    serde_json::to_vec(info).unwrap_or_default().into()
}

/// Version of the server.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Version {
    version: &'static str,
}

/// Version of the server
///
/// The version of prefold, for clients of vLLM and Ollama.
#[utoipa::path(
    get, path = "/version", tag = "Server", responses((status = 200, description = "The version", body = Version))
)]
pub(crate) async fn version() -> Answer {
    Answer::free(&Version { version: VERSION })
}

/// Metrics in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", tag = "Server",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics_text())
}
