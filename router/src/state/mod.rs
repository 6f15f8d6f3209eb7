//! State shared by all handlers.

pub(crate) mod api_keys;
pub(crate) mod call;
pub(crate) mod curl;
pub(crate) mod field_names;
pub(crate) mod holding;
pub(crate) mod ignored;
pub(crate) mod model_names;
pub(crate) mod registry;
pub(crate) mod reloading;
pub(crate) mod replaced;
pub(crate) mod request_id;
pub(crate) mod secret;
pub(crate) mod vector_ranges;

use self::api_keys::Keys;
use self::registry::{Registry, ServedModel};
use crate::telemetry::metrics::IN_FLIGHT;
use crate::telemetry::metrics_text::MetricsText;
use axum::body::Bytes;
use axum::http::HeaderValue;
use metrics::gauge;
use metrics_exporter_prometheus::PrometheusHandle;
use prefold_core::{ProcessQuotas, Task};
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

/// Default of `--payload-limit`, in bytes.
pub(crate) const PAYLOAD_LIMIT: usize = 32_000_000;

/// Default of `--client-timeout`, in seconds. Idle connections live as long: longer than the 60 s after which most
/// balancers close theirs, so that a balancer never sends a request into a connection that is being closed.
pub(crate) const CLIENT_TIMEOUT: u64 = 75;

/// Handle to the shared state.
#[derive(Clone)]
pub(crate) struct App(Arc<State>);

/// The models, what their requests share, and the settings and counters of HTTP.
pub(crate) struct State {
    pub(crate) models: Registry,
    /// Quotas of the process, which the engines of all models have.
    pub(crate) quotas: ProcessQuotas,
    pub(crate) http: HttpConfig,
    pub(crate) metrics: MetricsText,
    /// Unix time in seconds.
    pub(crate) started: u64,
    /// Requests whose answers are not completely written.
    pub(crate) unfinished: Arc<AtomicUsize>,
    /// A signal has come; balancers should send nothing more.
    pub(crate) is_stopping: AtomicBool,
}

impl Deref for App {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl App {
    /// Puts models behind HTTP. Their engines have these `quotas`. Connections count in `unfinished` the requests whose answers are not
    /// completely written.
    pub(crate) fn new(
        models: Registry,
        quotas: ProcessQuotas,
        http: HttpConfig,
        metrics: PrometheusHandle,
        unfinished: Arc<AtomicUsize>,
    ) -> Self {
        let (metrics, started) = (MetricsText::new(metrics), unix_time());
        let is_stopping = AtomicBool::new(false);
        Self(Arc::new(State { models, quotas, http, metrics, started, unfinished, is_stopping }))
    }
}

impl State {
    /// The text of `/metrics`. Its gauges are set only here, so that requests do not pay for them.
    pub(crate) fn metrics_text(&self) -> Bytes {
        gauge!(IN_FLIGHT).set(self.unfinished.load(Ordering::Relaxed) as f64);
        self.models.iter().for_each(|model| model.engine.record_quotas());
        self.metrics.text()
    }

    /// Logs address, models and settings, the page to begin with, and warnings about settings that may be unintended.
    pub(crate) fn log_ready(&self, address: &str, url: &str, public_port: Option<u16>) {
        for warning in self.models.iter().flat_map(|model| &model.engine.info().capabilities.warnings) {
            tracing::warn!("{warning}");
        }
        if let Some(port) = public_port.filter(|_| !self.http.api_keys.are_required()) {
            tracing::warn!(
                "no API key is set and the server listens on all interfaces: anyone who reaches port {port} can use it \
                 (--api-key, --hostname 127.0.0.1)"
            );
        }
        self.models.iter().for_each(|model| log_model(model, address));
        tracing::info!(url, "ready");
    }
}

fn log_model(model: &ServedModel, address: &str) {
    let ServedModel { engine, names, .. } = model;
    let model = engine.info();
    let tasks: Vec<&str> = model.capabilities.tasks().map(Task::as_str).collect();
    tracing::info!(
        address,
        model = names.served,
        tasks = tasks.join(", "),
        dtype = model.dtype,
        dtype_reason = model.dtype_reason,
        device = model.device,
        replicas = engine.replicas(),
        kernels = model.kernels,
        kernels_reason = model.kernels_reason,
        attention = model.attention,
        radix_mlp_threshold = decimal(engine.config().radix_mlp_threshold),
        "serving"
    );
}

/// Requests whose inputs may be folded with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum SharePrefixes {
    /// All of them.
    All,
    /// Those with one API key.
    Key,
}

/// Treatment of texts that are not Unicode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InvalidUnicode {
    /// U+FFFD takes the place of each such piece.
    Replace,
    /// The request is refused.
    Refuse,
}

/// Settings of HTTP.
#[derive(Debug, Clone)]
pub(crate) struct HttpConfig {
    /// Unix socket to which clients connect, instead of a port.
    pub(crate) unix_socket: Option<PathBuf>,
    /// Clients connect by TLS.
    pub(crate) is_tls: bool,
    /// Bytes per request body.
    pub(crate) payload_limit: usize,
    /// Time for a body to arrive.
    pub(crate) client_timeout: Duration,
    pub(crate) api_keys: Keys,
    pub(crate) share_prefixes: SharePrefixes,
    /// None: any origin.
    pub(crate) allowed_origins: Option<Vec<HeaderValue>>,
    /// Log lines carry a span per request.
    pub(crate) spans: bool,
    /// A forward pass that runs longer makes `/ready` fail.
    pub(crate) stall_timeout: Duration,
    /// `/docs` and the OpenAPI description need the API key.
    pub(crate) protect_docs: bool,
    /// `/metrics` needs the API key.
    pub(crate) protect_metrics: bool,
    /// Fields of a body that nothing reads are an error.
    pub(crate) strict_fields: bool,
    /// Treatment of texts that are not Unicode.
    pub(crate) invalid_unicode: InvalidUnicode,
    /// `/metrics` is served by `--prometheus-port` only.
    pub(crate) metrics_elsewhere: bool,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            unix_socket: None,
            is_tls: false,
            payload_limit: PAYLOAD_LIMIT,
            client_timeout: Duration::from_secs(CLIENT_TIMEOUT),
            api_keys: Keys::default(),
            share_prefixes: SharePrefixes::All,
            allowed_origins: None,
            spans: true,
            stall_timeout: Duration::from_secs(120),
            protect_docs: false,
            protect_metrics: false,
            strict_fields: false,
            invalid_unicode: InvalidUnicode::Replace,
            metrics_elsewhere: false,
        }
    }
}

/// Sixteen random hexadecimal digits.
pub(crate) fn random_id() -> String {
    // Every RandomState has random keys, so the hash of nothing is random.
    format!("{:016x}", RandomState::new().hash_one(()))
}

/// Unix time in seconds.
pub(crate) fn unix_time() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

/// The value as it was given, without the digits that the conversion of a float adds.
fn decimal(value: f32) -> f64 {
    (f64::from(value) * 1e6).round() / 1e6
}
