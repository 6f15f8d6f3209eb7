//! An app over a scripted backend, with the tokenizer of a reference checkpoint.

use crate::state::model_names::ModelNames;
use crate::state::registry::{Registry, ServedModel};
use crate::state::{App, HttpConfig};
use crate::telemetry::metrics;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use prefold_core::testing::{self, FakeBackend, Fate};
use prefold_core::{
    Capabilities, Classify, Embed, Engine, EngineConfig, InputMemory, LoadedModel, ModelInfo, NonEmpty, ProcessLimits,
    ProcessQuotas, Prompts, StartError, TaskProfile, TokenLimits,
};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tower::ServiceExt;

/// Width of the fake embeddings.
pub(crate) const DIM: usize = 8;

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

    pub(crate) fn close(&self) {
        *self.open.lock().unwrap() = false;
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

pub(crate) fn embedding() -> Capabilities {
    let prompts = Prompts { by_name: [("query".to_owned(), "Query: ".to_owned())].into(), ..Prompts::default() };
    Capabilities::embedding(Embed { prompts, ..testing::embed(DIM) }, 256)
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
    Capabilities::prompted_reranker(testing::qwen3_template(), 256)
}

pub(crate) fn classifier(labels: &[&str]) -> Capabilities {
    let labels = labels.iter().map(|&label| label.to_owned()).collect();
    Capabilities::classifier(Classify::of_labels(labels, Prompts::default()), 256)
}

/// Settings of an app; change them before [`build`](Self::build).
pub(crate) struct Setup {
    pub(crate) capabilities: Capabilities,
    pub(crate) device: &'static str,
    pub(crate) fate: Fate,
    /// Answers when the gate is open.
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) engine: EngineConfig,
    pub(crate) limits: ProcessLimits,
    pub(crate) http: HttpConfig,
}

impl Setup {
    pub(crate) fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            device: "cpu",
            fate: Fate::Answer,
            gate: None,
            engine: EngineConfig { max_batch_tokens: 4096, tokenization_workers: 1, ..testing::config() },
            limits: testing::process_limits(),
            http: HttpConfig { payload_limit: 100_000, ..HttpConfig::default() },
        }
    }

    pub(crate) fn build(self) -> App {
        self.try_build().unwrap()
    }

    /// The app, unless its settings are refused.
    pub(crate) fn try_build(self) -> Result<App, StartError> {
        let model = self.fake();
        self.try_over(model)
    }

    /// The app over a loaded model in place of the fake one.
    pub(crate) fn over(self, model: LoadedModel) -> App {
        self.try_over(model).unwrap()
    }

    fn fake(&self) -> LoadedModel {
        let input_memory = InputMemory { token: 1000, block_token: 10, block_tokens: 100 };
        let max_input_length = self.capabilities.max_input_length;
        let info = testing::info(self.capabilities.clone(), max_input_length);
        let (fate, gate) = (self.fate, self.gate.clone());
        let backend = FakeBackend::scripted(
            ModelInfo {
                sub_models: NonEmpty::one(TokenLimits { vocab_size: 1024, ..*info.limits() }),
                input_memory,
                device: self.device.to_owned(),
                ..info
            },
            move |_, _, _| {
                gate.iter().for_each(|gate| gate.pass());
                Ok(fate)
            },
        );
        testing::model(backend, testing::tokenizer("qwen3-tiny"))
    }

    fn try_over(self, model: LoadedModel) -> Result<App, StartError> {
        let quotas = ProcessQuotas::new(self.limits)?;
        let engine = Engine::new(model, self.engine, quotas.clone())?;
        Ok(app(Registry::one(engine, names("fake")), quotas, self.http))
    }
}

/// An app of two models, `fake` and `second`, with the limits and the HTTP settings of the first.
pub(crate) fn with_second(first: Setup, second: Setup) -> App {
    let quotas = ProcessQuotas::new(first.limits).unwrap();
    let http = first.http.clone();
    let models = [(first, "fake"), (second, "second")].map(|(setup, name)| {
        let engine = Engine::new(setup.fake(), setup.engine, quotas.clone()).unwrap();
        Arc::new(ServedModel::new(engine, names(name)))
    });
    app(Registry::new(NonEmpty::collect(models).unwrap()), quotas, http)
}

fn app(models: Registry, quotas: ProcessQuotas, http: HttpConfig) -> App {
    App::new(models, quotas, http, metrics::install().unwrap(), Arc::default())
}

/// The name, and `org/` before it as the id.
fn names(name: &str) -> ModelNames {
    let id = format!("org/{name}");
    ModelNames { id: id.clone(), served: name.to_owned(), aliases: vec![id] }
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
