//! Traces for an OpenTelemetry collector: the exporter, and the span of a request.
//!
//! The spans inside are the engine's (`prefold_core::trace`).

use crate::config::TraceConfig;
use axum::extract::Request;
use axum::http::StatusCode;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prefold_core::trace::TARGET;
use prefold_core::{Timings, Usage};
use std::time::Duration;
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// How long the last spans may take on their way out.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Sends spans away. The last ones leave with [`Exporter::finish`].
pub(crate) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts the exporter's thread. Nothing is sent before there are spans.
    ///
    /// # Errors
    /// The HTTP client cannot be made.
    pub(crate) fn start(config: &TraceConfig) -> Result<Self, ExporterBuildError> {
        let exporter = SpanExporter::builder().with_http().with_endpoint(&config.endpoint).build()?;
        let resource = Resource::builder().with_service_name(config.service_name.clone()).build();
        Ok(Self(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build()))
    }

    /// Takes the spans that are meant for traces, and no others.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    {
        tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("prefold"))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_filter(filter_fn(|metadata| metadata.target() == TARGET))
    }

    /// Sends what is left, as far as the collector takes it in time.
    pub(crate) fn finish(self) {
        if let Err(error) = self.0.shutdown_with_timeout(FLUSH_TIMEOUT) {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}

/// The span of a request, under the client's own where `traceparent` names one. Disabled when nothing is exported.
pub(crate) fn request_span(request: &Request, route: &str) -> Span {
    let method = request.method().as_str();
    let span = tracing::debug_span!(
        target: TARGET,
        "request",
        otel.name = format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        url.path = crate::observe::shown(request.uri().path()),
        http.response.status_code = Empty,
        error.message = Empty,
        tokens = Empty,
        computed_tokens = Empty,
        queue_ms = Empty,
        planning_ms = Empty,
        inference_ms = Empty,
    );
    if !span.is_disabled() {
        // Fails only where the span is not exported.
        drop(span.set_parent(TraceContextPropagator::new().extract(&HeaderExtractor(request.headers()))));
    }
    span
}

/// What is known of a request when it has been answered.
pub(crate) struct Outcome<'a> {
    pub(crate) status: StatusCode,
    pub(crate) usage: Option<Usage>,
    pub(crate) timings: Option<Timings>,
    pub(crate) error: Option<&'a dyn std::fmt::Display>,
}

/// Adds how the request ended.
pub(crate) fn record(span: &Span, outcome: &Outcome<'_>) {
    if span.is_disabled() {
        return;
    }
    // Of whole numbers OpenTelemetry knows i64 alone; others would become texts.
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
