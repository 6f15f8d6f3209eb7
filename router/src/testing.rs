//! An app over a backend that does as it is told, with the tokenizer of a reference checkpoint.

use crate::app::App;
use crate::config::{HttpConfig, ModelNames};
use crate::telemetry;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use prefold_core::{
    Backend, BackendError, Batch, Engine, EngineConfig, LoadedModel, ModelInfo, ModelKind, Output, Pooling, Prompts,
    RerankRecipe, Scheduling, Wanted,
};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokenizers::Tokenizer;
use tower::ServiceExt;

/// Width of the fake embeddings.
pub(crate) const DIM: usize = 8;

/// What the backend does with a batch.
#[derive(Clone)]
pub(crate) enum Mode {
    Answer,
    Fail,
    Panic,
    /// Answers when the gate is open.
    Gate(Arc<Gate>),
}

/// Holds the backend back.
#[derive(Default)]
pub(crate) struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    reached: AtomicBool,
}

impl Gate {
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    /// Waits until a batch stands before the gate.
    pub(crate) async fn reached(&self) {
        while !self.reached.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn pass(&self) {
        self.reached.store(true, Ordering::SeqCst);
        drop(self.opened.wait_while(self.open.lock().unwrap(), |open| !*open).unwrap());
    }
}

struct Fake {
    info: ModelInfo,
    mode: Mode,
}

impl Backend for Fake {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<Output>, BackendError> {
        match &self.mode {
            Mode::Answer => {}
            Mode::Fail => return Err(BackendError::Compute("the fake was told to fail".to_owned())),
            Mode::Panic => panic!("the fake was told to panic"),
            Mode::Gate(gate) => gate.pass(),
        }
        let sequences = batch.wanted.iter().enumerate();
        Ok(sequences.map(|(b, &wanted)| self.answer(&batch.ragged.input_ids()[batch.ragged.rows(b)], wanted)).collect())
    }
}

impl Fake {
    fn answer(&self, ids: &[u32], wanted: Wanted) -> Output {
        match (&self.info.kind, wanted) {
            (_, Wanted::Tokens) => {
                Output::Tokens { data: (1..=ids.len()).flat_map(|end| vector(&ids[..end])).collect(), dim: DIM }
            }
            (ModelKind::Embedding { .. }, Wanted::Pooled) => Output::Embedding(vector(ids)),
            // Small, so that different logits are different probabilities.
            (ModelKind::Reranker, Wanted::Pooled) => Output::Logits(vec![0.5, vector(ids)[0].sin()]),
            (ModelKind::Classifier { labels }, Wanted::Pooled) => Output::Logits(vector(ids)[..labels.len()].to_vec()),
        }
    }
}

/// A vector that depends on every token.
fn vector(ids: &[u32]) -> Vec<f32> {
    let value = |i: u32| ids.iter().map(|id| ((id * (i + 3)) % 17) as f32 - 7.5).sum::<f32>() / 4.0;
    (0..DIM as u32).map(value).collect()
}

pub(crate) fn embedding() -> ModelKind {
    ModelKind::Embedding { dim: DIM, pooling: Pooling::LastToken }
}

pub(crate) fn classifier(labels: &[&str]) -> ModelKind {
    ModelKind::Classifier { labels: labels.iter().map(|&label| label.to_owned()).collect() }
}

/// What an app is made of; change it before [`build`](Self::build).
pub(crate) struct Setup {
    pub(crate) kind: ModelKind,
    pub(crate) mode: Mode,
    pub(crate) engine: EngineConfig,
    pub(crate) http: HttpConfig,
}

impl Setup {
    pub(crate) fn new(kind: ModelKind) -> Self {
        Self {
            kind,
            mode: Mode::Answer,
            engine: EngineConfig {
                max_batch_tokens: 4096,
                max_batch_ragged_tokens: None,
                max_batch_requests: None,
                max_concurrent_requests: 64,
                max_queued_tokens: 100_000,
                max_queued_inputs: 10_000,
                max_client_batch_size: 32,
                scheduling: Scheduling::Prefix,
                radix_mlp_threshold: 0.95,
                pad_to_multiple: 1,
                tokenization_workers: 1,
                auto_truncate: true,
            },
            http: HttpConfig { payload_limit: 100_000, ..HttpConfig::default() },
        }
    }

    pub(crate) fn build(self) -> App {
        let Self { kind, mode, engine, http } = self;
        let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/qwen3-tiny/tokenizer.json");
        let info = ModelInfo {
            model_type: "fake".to_owned(),
            kind,
            vocab_size: 1024,
            max_input_length: 256,
            token_dim: DIM,
            dtype: "float32",
            device: "cpu".to_owned(),
            attention: "ragged",
        };
        let template =
            (info.kind == ModelKind::Reranker).then(|| RerankRecipe::builtin(RerankRecipe::QWEN3).unwrap().template);
        let by_name = [("query".to_owned(), "Query: ".to_owned())].into();
        let model = LoadedModel {
            backend: Box::new(Fake { info, mode }),
            tokenizer: Tokenizer::from_file(tokenizer).unwrap(),
            prompts: Prompts { by_name, default: None },
            template,
        };
        let names =
            ModelNames { id: "org/fake".to_owned(), served: "fake".to_owned(), aliases: vec!["org/fake".to_owned()] };
        App::new(Engine::new(model, engine).unwrap(), names, http, telemetry::install_metrics().unwrap())
    }
}

/// A response that has been read.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) bytes: Vec<u8>,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/json", "{}", self.body);
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    /// A header as a number.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.headers[name].to_str().unwrap().parse().unwrap()
    }
}

pub(crate) async fn send(app: &App, request: Request<Body>) -> Got {
    let response = crate::server::router(app.clone()).oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8_lossy(&body).into_owned();
    Got { status: parts.status, headers: parts.headers, body: text, bytes: body.into() }
}

pub(crate) async fn get(app: &App, path: &str) -> Got {
    send(app, Request::get(path).body(Body::empty()).unwrap()).await
}

pub(crate) async fn post(app: &App, path: &str, body: impl ToString) -> Got {
    send(app, Request::post(path).body(Body::from(body.to_string())).unwrap()).await
}

/// The JSON of an answer with status 200.
pub(crate) async fn ask(app: &App, path: &str, body: Value) -> Value {
    let got = post(app, path, &body).await;
    assert_eq!(got.status, 200, "{path} {body}: {}", got.body);
    got.json()
}
