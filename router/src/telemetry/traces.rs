//! Traces for an OpenTelemetry collector: the exporter and the request span.
//!
//! The engine opens the spans within it (`prefold_core::trace`).

use super::rare_warning::RareWarning;
use axum::extract::Request;
use axum::http::{StatusCode, Uri};
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData};
use prefold_core::trace::TARGET;
use prefold_core::{Timings, Usage, without_credentials};
use std::time::{Duration, Instant};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// Timeout for sending the last spans at shutdown.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The collector of traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TraceConfig {
    /// URL, path included.
    pub(crate) endpoint: String,
    pub(crate) service_name: String,
}

/// Port on which collectors receive OTLP over gRPC.
const GRPC_PORT: u16 = 4317;

/// Logs the address that spans go to.
pub(crate) fn announce(config: &TraceConfig) {
    let endpoint = without_credentials(&config.endpoint);
    tracing::info!(endpoint, "traces are exported by OTLP over HTTP");
    if has_grpc_port(&config.endpoint) {
        tracing::warn!(
            "port {GRPC_PORT} usually receives OTLP over gRPC, and port 4318 OTLP over HTTP (--otlp-endpoint)"
        );
    }
}

fn has_grpc_port(endpoint: &str) -> bool {
    endpoint.parse::<Uri>().is_ok_and(|url| url.port_u16() == Some(GRPC_PORT))
}

/// Exports spans; [`Exporter::finish`] sends the last ones.
pub(crate) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts the exporter's thread. It sends nothing until there are spans.
    ///
    /// # Errors
    /// The HTTP client cannot be created.
    pub(crate) fn start(config: &TraceConfig) -> Result<Self, ExporterBuildError> {
        let otlp = SpanExporter::builder().with_http().with_endpoint(&config.endpoint).build()?;
        let exporter =
            Reporting { otlp, endpoint: without_credentials(&config.endpoint), failures: RareWarning::new() };
        let resource = Resource::builder().with_service_name(config.service_name.clone()).build();
        Ok(Self(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build()))
    }

    /// The `tracing` layer that passes spans of the target [`TARGET`] only.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("prefold"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_filter(Targets::new().with_target(TARGET, LevelFilter::DEBUG))
    }

    /// Sends the remaining spans, within [`FLUSH_TIMEOUT`].
    pub(crate) fn finish(self) {
        if let Err(error) = self.0.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// The exporter, whose failures are logged with the collector's address once a minute at most.
#[derive(Debug)]
struct Reporting {
    otlp: SpanExporter,
    endpoint: String,
    failures: RareWarning,
}

impl opentelemetry_sdk::trace::SpanExporter for Reporting {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        if let Err(error) = self.otlp.export(batch).await
            && let Some(failures) = self.failures.is_due(Instant::now())
        {
            tracing::warn!(endpoint = self.endpoint, %error, failures, spans, "traces are lost: the collector does not take them");
        }
        Ok(())
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.otlp.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.otlp.set_resource(resource);
    }
}

/// The span of a request, a child of the client's span if `traceparent` names one. Disabled when nothing is exported.
pub(crate) fn request_span(request: &Request, method: &str, route: &str, path: &str) -> Span {
    let span = tracing::debug_span!(
        target: TARGET,
        "request",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        url.path = path,
        http.response.status_code = Empty,
        error.message = Empty,
        tokens = Empty,
        computed_tokens = Empty,
        queue_ms = Empty,
        planning_ms = Empty,
        inference_ms = Empty,
    );
    if !span.is_disabled() {
        // Fails only if the span is not exported.
        drop(span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()))));
    }
    span
}

/// Fields of an answered request.
pub(crate) struct Outcome<'a> {
    pub(crate) status: StatusCode,
    pub(crate) usage: Option<Usage>,
    pub(crate) timings: Option<Timings>,
    pub(crate) error: Option<&'a dyn std::fmt::Display>,
}

/// Records the outcome in the request's span.
pub(crate) fn record(span: &Span, outcome: &Outcome<'_>) {
    if span.is_disabled() {
        return;
    }
    // i64 is the only integer type of OpenTelemetry; others would become strings.
    span.record("http.response.status_code", i64::from(outcome.status.as_u16()));
    if outcome.status.is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    if let Some(error) = outcome.error {
        span.record("error.message", tracing::field::display(error));
    }
    if let Some(usage) = outcome.usage {
        span.record("tokens", usage.tokens as i64);
        span.record("computed_tokens", usage.computed_tokens as i64);
    }
    if let Some(timings) = outcome.timings {
        for (field, time) in
            [("queue_ms", timings.queue), ("planning_ms", timings.planning), ("inference_ms", timings.inference)]
        {
            span.record(field, time.as_secs_f64() * 1e3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_grpc_is_told() {
        for (endpoint, is_grpc) in [
            ("http://collector:4317/v1/traces", true),
            ("https://user:secret@[::1]:4317/", true),
            ("http://collector:4318/v1/traces", false),
            ("http://collector/4317", false),
        ] {
            assert_eq!(has_grpc_port(endpoint), is_grpc, "{endpoint}");
        }
    }
}
