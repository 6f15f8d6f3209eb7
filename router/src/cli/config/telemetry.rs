//! Settings of logs and traces, from the flags.

use super::error::ConfigError;
use crate::cli::args::TelemetryArgs;
use crate::telemetry::log_filter;
use crate::telemetry::logs::TelemetryConfig;
use crate::telemetry::traces::TraceConfig;
use axum::http::Uri;

/// The config of logs and traces.
///
/// # Errors
/// The log filter or the collector's URL is malformed.
pub(super) fn telemetry_config(args: TelemetryArgs) -> Result<TelemetryConfig, ConfigError> {
    let filter = args.rust_log.filter(|directives| !directives.is_empty()).unwrap_or(args.log_level);
    if let Err(source) = log_filter::parse(&filter) {
        return Err(ConfigError::LogFilter { directives: filter, source });
    }
    let traces = match args.otlp_endpoint {
        Some(url) => Some(TraceConfig { endpoint: collector(url)?, service_name: args.otlp_service_name }),
        None => None,
    };
    Ok(TelemetryConfig { json: args.json_output, spans: !args.disable_spans, filter, traces })
}

/// A collector's URL with the path for traces.
fn collector(url: String) -> Result<String, ConfigError> {
    let parsed = url.parse::<Uri>().ok();
    match parsed.as_ref().map(|parsed| (parsed.scheme_str(), parsed.path())) {
        Some((Some("http" | "https"), "/" | "")) => Ok(format!("{}/v1/traces", url.trim_end_matches('/'))),
        Some((Some("http" | "https"), _)) => Ok(url),
        _ => Err(ConfigError::Collector(url)),
    }
}
