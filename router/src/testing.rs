//! An app over a scripted backend, with the tokenizer of a reference checkpoint.

use crate::state::{App, HttpConfig, ModelNames};
use crate::telemetry::metrics;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use prefold_core::{
    Backend, BackendError, Batch, Capabilities, Classify, Embed, Engine, EngineConfig, LoadedModel, ModelBackend,
    ModelInfo, Output, Pooling, PrefixBackend, Prompts, RadixPlan, RerankRecipe, StartError, TaskProfile, Wanted,
    YieldPoint,
};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokenizers::Tokenizer;
use tower::ServiceExt;

/// Width of the fake embeddings.
pub(crate) const DIM: usize = 8;

/// Behaviour of the backend.
#[derive(Clone)]
pub(crate) enum Mode {
    Answer,
    Fail,
    /// The device fails permanently.
    Lose,
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

    fn forward(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError> {
        match &self.mode {
            Mode::Answer => {}
            Mode::Fail => return Err(BackendError::Compute("the fake was told to fail".to_owned())),
            Mode::Lose => return Err(BackendError::DeviceLost("the fake was told to lose its device".to_owned())),
            Mode::Panic => panic!("the fake was told to panic"),
            Mode::Gate(gate) => gate.pass(),
        }
        let sequences = batch.wanted.iter().enumerate();
        let ids = |b: usize| &batch.ragged.input_ids()[batch.ragged.rows(b)];
        let output = |(b, &wanted): (usize, &Wanted)| match (self.answer(ids(b), wanted), batch.ragged.tasks()[b].0) {
            (Output::Embedding(mut vector), task @ 1..) => {
                vector[0] += 100.0 * f32::from(task);
                Output::Embedding(vector)
            }
            (output, _) => output,
        };
        Ok(sequences.map(output).collect())
    }
}

impl PrefixBackend for Fake {
    fn forward_compact(
        &mut self,
        batch: &Batch,
        _: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError> {
        self.forward(batch, yields)
    }
}

impl Fake {
    fn answer(&self, ids: &[u32], wanted: Wanted) -> Output {
        match wanted {
            Wanted::Tokens => {
                Output::Tokens { data: (1..=ids.len()).flat_map(|end| vector(&ids[..end])).collect(), dim: DIM }
            }
            Wanted::Embedding => Output::Embedding(vector(ids)),
            Wanted::Logits => Output::Logits(match &self.info.capabilities.classify {
                Some(classify) => vector(ids)[..classify.labels.len()].to_vec(),
                // Small, so that different logits are different probabilities.
                None => vec![0.5, vector(ids)[0].sin()],
            }),
        }
    }
}

/// A vector that depends on every token.
fn vector(ids: &[u32]) -> Vec<f32> {
    let value = |i: u32| ids.iter().map(|id| ((id * (i + 3)) % 17) as f32 - 7.5).sum::<f32>() / 4.0;
    (0..DIM as u32).map(value).collect()
}

pub(crate) fn embedding() -> Capabilities {
    let prompts = Prompts { by_name: [("query".to_owned(), "Query: ".to_owned())].into(), ..Prompts::default() };
    Capabilities::embedding(
        Embed { dim: DIM, token_dim: DIM, pooling: vec![Pooling::LastToken], prompts, ..Embed::default() },
        256,
    )
}

/// A model with an adapter for each of two tasks.
pub(crate) fn adapted() -> Capabilities {
    let profile = |task: &str, instruction: &str| TaskProfile {
        task: task.to_owned(),
        instruction: instruction.to_owned(),
        ..TaskProfile::default()
    };
    let mut capabilities = embedding();
    if let Some(embed) = &mut capabilities.embed {
        embed.tasks = vec![profile("retrieval.query", "Query: "), profile("separation", "")];
    }
    capabilities
}

pub(crate) fn reranker() -> Capabilities {
    Capabilities::prompted_reranker(RerankRecipe::builtin(RerankRecipe::QWEN3).unwrap().template, 256)
}

pub(crate) fn classifier(labels: &[&str]) -> Capabilities {
    let labels = labels.iter().map(|&label| label.to_owned()).collect();
    Capabilities::classifier(Classify::of_labels(labels, Prompts::default()), 256)
}

/// Settings of an app; change them before [`build`](Self::build).
pub(crate) struct Setup {
    pub(crate) capabilities: Capabilities,
    pub(crate) mode: Mode,
    pub(crate) engine: EngineConfig,
    pub(crate) http: HttpConfig,
}

impl Setup {
    pub(crate) fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            mode: Mode::Answer,
            engine: EngineConfig {
                max_batch_tokens: 4096,
                max_concurrent_requests: 64,
                max_client_batch_size: 32,
                tokenization_workers: 1,
                // The fake backend fails or waits as a test says.
                warmup_tokens: 0,
                ..EngineConfig::default()
            },
            http: HttpConfig { payload_limit: 100_000, ..HttpConfig::default() },
        }
    }

    pub(crate) fn build(self) -> App {
        self.try_build().unwrap()
    }

    /// The app, unless its settings are refused.
    pub(crate) fn try_build(self) -> Result<App, StartError> {
        let (capabilities, mode) = (self.capabilities.clone(), self.mode.clone());
        let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/qwen3-tiny/tokenizer.json");
        let info = ModelInfo {
            model_type: "fake".to_owned(),
            capabilities: Arc::new(capabilities),
            vocab_size: 1024,
            token_types: 0,
            dtype: "float32",
            dtype_reason: "for tests".to_owned(),
            kernels: "none".to_owned(),
            kernels_reason: "for tests".to_owned(),
            int8: None,
            input_memory: prefold_core::InputMemory { token: 1000, block_token: 10, block_tokens: 100 },
            further_parts: vec![],
            device: "cpu".to_owned(),
            attention: "ragged",
        };
        let tokenizer = Tokenizer::from_file(tokenizer).unwrap();
        self.try_over(LoadedModel {
            backend: ModelBackend::Prefix(Box::new(Fake { info, mode })),
            interrupting: None,
            replicas: Vec::new(),
            tokenizer,
            further_tokenizers: vec![],
        })
    }

    /// The app over a loaded model in place of the fake one.
    pub(crate) fn over(self, model: LoadedModel) -> App {
        self.try_over(model).unwrap()
    }

    fn try_over(self, model: LoadedModel) -> Result<App, StartError> {
        let names =
            ModelNames { id: "org/fake".to_owned(), served: "fake".to_owned(), aliases: vec!["org/fake".to_owned()] };
        let engine = Engine::new(model, self.engine)?;
        Ok(App::new(engine, names, self.http, metrics::install().unwrap(), Arc::default()))
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
    let response = crate::server::routing::router(app.clone()).oneshot(request).await.unwrap();
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
