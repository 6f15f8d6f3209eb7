//! From a checked configuration to something that answers.

use crate::Wrap;
use crate::buffered::Buffered;
use crate::config::{DefaultPrompt, HttpConfig, ModelNames};
use metrics_exporter_prometheus::PrometheusHandle;
use prefold_backends::{LoadError, LoadOptions};
use prefold_core::{Engine, EngineConfig, Error, LoadedModel, ModelKind, Prompts};
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use thiserror::Error as ThisError;

/// What all handlers share.
#[derive(Clone)]
pub(crate) struct App(Arc<State>);

/// The engine and what the HTTP side needs beside it.
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) names: ModelNames,
    pub(crate) http: HttpConfig,
    pub(crate) metrics: PrometheusHandle,
    /// Seconds since 1970.
    pub(crate) started: u64,
    /// Requests that are being answered.
    pub(crate) in_flight: AtomicUsize,
    /// The bodies of all requests.
    pub(crate) buffered: Arc<Buffered>,
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl App {
    /// Puts an engine behind HTTP.
    pub(crate) fn new(engine: Engine, names: ModelNames, http: HttpConfig, metrics: PrometheusHandle) -> Self {
        let started = crate::routes::now();
        let buffered = Buffered::new(http.max_buffered_bytes);
        Self(Arc::new(State { engine, names, http, metrics, started, in_flight: AtomicUsize::new(0), buffered }))
    }
}

impl State {
    /// Writes the one line that says what is served where.
    pub(crate) fn log_ready(&self, address: SocketAddr) {
        let model = self.engine.info();
        let kind = match &model.kind {
            ModelKind::Embedding { .. } => "embedding",
            ModelKind::Reranker => "reranker",
            ModelKind::Classifier { .. } => "classifier",
        };
        tracing::info!(
            %address,
            model = self.names.served,
            kind,
            dtype = model.dtype,
            device = model.device,
            attention = model.attention,
            radix_mlp_threshold = %self.engine.config().radix_mlp_threshold,
            "ready"
        );
    }
}

/// Why there is no engine. What lies beneath is in the message already, and not said again as its source.
#[derive(Debug, ThisError)]
pub(crate) enum StartError {
    #[error("the model could not be loaded: {0}")]
    Load(LoadError),
    #[error("`--default-prompt-name {name}`: the model has {known}")]
    UnknownPrompt { name: String, known: String },
    #[error("`--rerank-instruction`: the model is not told in words what relevant means")]
    NoInstruction,
    #[error("the engine could not start: {0}")]
    Engine(Error),
}

/// What is said in place of the model's own words.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) default_prompt: Option<DefaultPrompt>,
    pub(crate) rerank_instruction: Option<String>,
}

/// Loads the model and starts its engine. Blocks for as long as that takes.
pub(crate) fn start_engine(
    load: &LoadOptions,
    wrap: Wrap,
    changes: Changes,
    config: EngineConfig,
) -> Result<Engine, StartError> {
    let mut model: LoadedModel = prefold_backends::load(load).map_err(StartError::Load)?;
    model.backend = wrap(model.backend);
    if let Some(prompt) = changes.default_prompt {
        model.prompts.default = Some(resolve_prompt(prompt, &model.prompts)?);
    }
    if let Some(instruction) = changes.rerank_instruction {
        let template = model.template.as_mut().ok_or(StartError::NoInstruction)?;
        template.default_instruction = Some(instruction);
    }
    Engine::new(model, config).map_err(StartError::Engine)
}

fn resolve_prompt(prompt: DefaultPrompt, prompts: &Prompts) -> Result<String, StartError> {
    match prompt {
        DefaultPrompt::Text(text) => Ok(text),
        DefaultPrompt::Named(name) => prompts.by_name.get(&name).cloned().ok_or_else(|| {
            let names: Vec<_> = prompts.by_name.keys().map(|name| format!("`{name}`")).collect();
            let known =
                if names.is_empty() { "no prompts".to_owned() } else { format!("the prompts {}", names.join(", ")) };
            StartError::UnknownPrompt { name, known }
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_found_by_name() {
        let mut prompts = Prompts::default();
        let named = |name: &str| DefaultPrompt::Named(name.to_owned());
        let error = resolve_prompt(named("query"), &prompts).unwrap_err().to_string();
        assert!(error.contains("query") && error.contains("no prompts"), "{error}");
        prompts.by_name.insert("query".to_owned(), "Query: ".to_owned());
        prompts.by_name.insert("document".to_owned(), String::new());
        assert_eq!(resolve_prompt(named("query"), &prompts).unwrap(), "Query: ");
        let error = resolve_prompt(named("passage"), &prompts).unwrap_err().to_string();
        assert!(error.contains("`document`, `query`"), "{error}");
        assert_eq!(resolve_prompt(DefaultPrompt::Text("x".to_owned()), &prompts).unwrap(), "x");
    }
}
