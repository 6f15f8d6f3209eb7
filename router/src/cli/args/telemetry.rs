//! Flags of logs, metrics and traces.

use super::values::{boolean, port};

/// Flags of logs, metrics and traces.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Telemetry")]
pub(crate) struct TelemetryArgs {
    /// Write log lines as JSON
    #[arg(long, env, value_parser = boolean)]
    pub(crate) json_output: bool,

    /// Port that serves /metrics instead of --port
    #[arg(long, env, value_parser = port)]
    pub(crate) prometheus_port: Option<u16>,

    /// OpenTelemetry collector that receives traces by OTLP over HTTP, for example http://localhost:4318. A URL without
    /// a path gets /v1/traces
    #[arg(long, env)]
    pub(crate) otlp_endpoint: Option<String>,

    /// Service name in traces
    #[arg(long, env, default_value = "prefold")]
    pub(crate) otlp_service_name: String,

    /// Leave the request's span out of log lines
    #[arg(long, env, value_parser = boolean)]
    pub(crate) disable_spans: bool,

    /// Log filter: `level` or `target=level`, separated by commas; `info,request=off` silences the line of each
    /// request. RUST_LOG overrides it
    #[arg(long, env, default_value = "info")]
    pub(crate) log_level: String,

    /// The log filter under the name that Rust programs use
    #[arg(long, env, hide = true)]
    pub(crate) rust_log: Option<String>,
}
