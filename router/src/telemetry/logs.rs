//! The log, and the `tracing` layers behind it.

use super::log_filter::{self, FilterError};
use super::log_writer::LOG;
use super::traces::{Exporter, TraceConfig};
use opentelemetry_otlp::ExporterBuildError;
use prefold_core::trace::TARGET;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::IsTerminal;
use thiserror::Error as ThisError;
use tracing::Metadata;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt, FilterFn, LevelFilter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Settings of logs and traces.
#[derive(Debug, Clone)]
pub(crate) struct TelemetryConfig {
    /// Log lines as JSON.
    pub(crate) json: bool,
    /// Log lines include the request's span.
    pub(crate) spans: bool,
    /// Directives for [`log_filter::parse`].
    pub(crate) filter: String,
    /// None: no traces are exported.
    pub(crate) traces: Option<TraceConfig>,
}

/// Errors of installing the log.
#[derive(Debug, ThisError)]
pub(crate) enum LogError {
    #[error("the log cannot be written: {0}")]
    Log(#[from] TryInitError),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("traces cannot be sent: {0}")]
    Traces(#[from] ExporterBuildError),
}

/// Sends log lines, panics included, to standard output, and spans to the collector, if any.
pub(crate) fn install(config: &TelemetryConfig) -> Result<Option<Exporter>, LogError> {
    let exporter = config.traces.as_ref().map(Exporter::start).transpose()?;
    let filter = log_filter::parse(&config.filter)?.and(no_spans_of_requests());
    let lines = tracing_subscriber::fmt::layer().with_writer(|| &LOG).with_ansi(std::io::stdout().is_terminal());
    let lines = if config.json {
        lines.json().flatten_event(true).with_current_span(config.spans).with_span_list(false).boxed()
    } else {
        lines.boxed()
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

/// Keeps exported spans out of the log. The filter states that it lowers no level: without this hint, every record of
/// every library would be built and filtered, and the tokenizer makes some for each character.
fn no_spans_of_requests() -> FilterFn {
    FilterFn::new((|metadata| metadata.target() != TARGET) as fn(&Metadata<'_>) -> bool)
        .with_max_level_hint(LevelFilter::TRACE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::Filter;

    #[test]
    fn libraries_build_no_records_that_nobody_reads() {
        for (directives, most) in [("info", LevelFilter::INFO), ("warn,request=debug", LevelFilter::DEBUG)] {
            let filter = log_filter::parse(directives).unwrap().and(no_spans_of_requests());
            assert_eq!(Filter::<Registry>::max_level_hint(&filter), Some(most), "{directives}");
        }
    }
}
