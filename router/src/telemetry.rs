//! Where log lines, spans and metrics go.

use crate::config::TelemetryConfig;
use crate::log_filter::{self, FilterError};
use crate::traces::Exporter;
use metrics::{describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use opentelemetry_otlp::ExporterBuildError;
use prefold_core::ModelInfo;
use prefold_core::trace::TARGET;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use thiserror::Error as ThisError;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How often samples of histograms are folded into their buckets when nobody asks for /metrics.
const UPKEEP_PERIOD: Duration = Duration::from_secs(5);

const SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
];

/// Tokens, sequences: powers of two.
const COUNTS: &[f64] = &[
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0,
    65536.0, 131_072.0,
];

const RATIOS: &[f64] =
    &[0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0];

/// Why there is no log.
#[derive(Debug, ThisError)]
pub(crate) enum LogError {
    #[error("the log cannot be written: {0}")]
    Log(#[from] TryInitError),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("traces cannot be sent: {0}")]
    Traces(#[from] ExporterBuildError),
}

/// Sends log lines to standard output, and panics among them; spans to a collector where there is one.
pub(crate) fn install_log(config: &TelemetryConfig) -> Result<Option<Exporter>, LogError> {
    let exporter = config.traces.as_ref().map(Exporter::start).transpose()?;
    let filter = log_filter::parse(&config.filter)?;
    let filter = filter.and(filter_fn(|metadata| metadata.target() != TARGET));
    let lines = tracing_subscriber::fmt::layer().with_ansi(std::io::stdout().is_terminal());
    let lines = match config.json {
        true => lines.json().flatten_event(true).with_current_span(config.spans).with_span_list(false).boxed(),
        false => lines.boxed(),
    };
    let spans = exporter.as_ref().map(Exporter::layer);
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).try_init()?;
    std::panic::set_hook(Box::new(|panic| {
        let backtrace = Backtrace::capture();
        let captured = backtrace.status() == BacktraceStatus::Captured;
        tracing::error!(target: "panic", backtrace = captured.then(|| tracing::field::display(backtrace)), "{panic}");
    }));
    Ok(exporter)
}

/// Collects metrics from the first call on. What it returns renders those of the whole process.
pub(crate) fn install_metrics() -> Result<PrometheusHandle, BuildError> {
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let full = |name: &str| Matcher::Full(name.to_owned());
    let handle = PrometheusBuilder::new()
        .set_buckets(COUNTS)?
        .set_buckets_for_metric(Matcher::Suffix("duration".to_owned()), SECONDS)?
        .set_buckets_for_metric(full("te_radix_mlp_compression_ratio"), RATIOS)?
        .set_buckets_for_metric(full("prefold_request_tokenization_share"), RATIOS)?
        .install_recorder()?;
    prefold_core::metrics::describe();
    crate::observe::describe();
    gauge!("te_queue_size").set(0.0);
    gauge!("prefold_queue_tokens").set(0.0);
    Ok(installed.insert(handle).clone())
}

/// Puts what is served among the metrics.
pub(crate) fn record_build(model: &ModelInfo, served_name: &str) {
    describe_gauge!("prefold_build_info", "Always 1; what runs is in the labels");
    let labels = [
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("model", served_name.to_owned()),
        ("device", model.device.clone()),
        ("dtype", model.dtype.to_owned()),
    ];
    gauge!("prefold_build_info", &labels).set(1.0);
}

/// Keeps the memory of histograms bounded; never ends.
pub(crate) async fn keep_up(handle: PrometheusHandle) {
    let mut interval = tokio::time::interval(UPKEEP_PERIOD);
    loop {
        interval.tick().await;
        handle.run_upkeep();
    }
}
