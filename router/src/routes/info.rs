//! What the server tells about itself: `/info`, `/metrics`.

use crate::answer::Answer;
use crate::app::App;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use prefold_core::{ModelKind, Pooling};
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// TEI's fields, and below them our own.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Info<'a> {
    model_id: &'a str,
    model_sha: Option<&'a str>,
    model_dtype: &'static str,
    served_model_name: &'a str,
    model_type: ModelType<'a>,
    max_concurrent_requests: usize,
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
    device: &'a str,
    attention: &'static str,
    radix_mlp_threshold: f32,
    radix_mlp_pad: usize,
    dimensions: Option<usize>,
    /// What the rerank routes answer with: `probability` or `cosine_similarity`; null when they do not answer.
    rerank_scores: Option<&'static str>,
    prompts: Vec<&'a str>,
}

/// What the model answers.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum ModelType<'a> {
    Embedding {
        /// How token states become one vector.
        #[schema(value_type = String)]
        pooling: Pooling,
    },
    Reranker(Labels<'a>),
    Classifier(Labels<'a>),
}

/// The names of the classes.
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
    /// As TEI names it: a classifier with a single label is a reranker.
    fn new(kind: &'a ModelKind) -> Self {
        match kind {
            ModelKind::Embedding { pooling, .. } => Self::Embedding { pooling: *pooling },
            ModelKind::Reranker => Self::Reranker(Labels::default()),
            ModelKind::Classifier { labels } if labels.len() == 1 => Self::Reranker(Labels::new(labels)),
            ModelKind::Classifier { labels } => Self::Classifier(Labels::new(labels)),
        }
    }
}

/// What is served, and its limits
#[utoipa::path(
    get, path = "/info", tag = "text-embeddings-inference",
    responses((status = 200, description = "The model and the limits", body = Info))
)]
pub(crate) async fn info(State(app): State<App>) -> Answer {
    let (model, engine) = (app.engine.info(), app.engine.config());
    let model_type = ModelType::new(&model.kind);
    Answer::free(&Info {
        model_id: &app.names.id,
        model_sha: None,
        model_dtype: model.dtype,
        served_model_name: &app.names.served,
        max_concurrent_requests: engine.max_concurrent_requests,
        max_input_length: model.max_input_length,
        max_batch_tokens: engine.max_batch_tokens,
        max_batch_requests: engine.max_batch_requests,
        max_client_batch_size: engine.max_client_batch_size,
        auto_truncate: engine.auto_truncate,
        tokenization_workers: engine.tokenization_workers,
        version: env!("CARGO_PKG_VERSION"),
        sha: None,
        docker_label: None,
        architecture: &model.model_type,
        dtype: model.dtype,
        device: &model.device,
        attention: model.attention,
        radix_mlp_threshold: engine.radix_mlp_threshold,
        radix_mlp_pad: engine.pad_to_multiple,
        dimensions: match model.kind {
            ModelKind::Embedding { dim, .. } => Some(dim),
            ModelKind::Reranker | ModelKind::Classifier { .. } => None,
        },
        rerank_scores: match model_type {
            ModelType::Embedding { .. } => Some("cosine_similarity"),
            ModelType::Reranker(_) => Some("probability"),
            ModelType::Classifier(_) => None,
        },
        model_type,
        prompts: app.engine.prompts().by_name.keys().map(String::as_str).collect(),
    })
}

/// Metrics in Prometheus' text format
#[utoipa::path(
    get, path = "/metrics", tag = "Server",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"))
)]
pub(crate) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics.render())
}
