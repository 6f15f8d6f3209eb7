//! What every request passes, once for all routes: errors get their body, answers their headers, and the log and the
//! metrics their line.
//!
//! Each request writes one log line with the target `request`, so `--log-level info,request=off` silences them. The
//! level is `warn` when the server is at fault, `debug` for what monitors ask all the time, `info` otherwise.

use crate::answer::Cost;
use crate::app::App;
use crate::error::{ApiError, Dialect};
use crate::traces::{self, Outcome};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tracing::Instrument;

const REQUESTS: &str = "prefold_http_requests";
const DURATION: &str = "prefold_http_request_duration";
const IN_FLIGHT: &str = "prefold_http_requests_in_flight";

/// Characters of a path that are shown.
const MAX_SHOWN: usize = 256;

/// The label `status` of a request whose client left before the answer.
const DROPPED: &str = "dropped";

/// Registers the metrics of this layer with the recorder that is installed.
pub(crate) fn describe() {
    describe_counter!(REQUESTS, Unit::Count, "HTTP requests by route and status (`dropped`: the client left)");
    describe_histogram!(DURATION, Unit::Seconds, "From the request's head to the answer, by route");
    describe_gauge!(IN_FLIGHT, Unit::Count, "HTTP requests that are being answered");
    gauge!(IN_FLIGHT).set(0.0);
}

/// The layer.
pub(crate) async fn observe(State(app): State<App>, mut request: Request, next: Next) -> Response {
    let exchange = Exchange::new(&app, &request);
    // Held until the answer is made, because what a body says is held that long.
    let held = Arc::new(app.buffered.hold());
    request.extensions_mut().insert(Arc::clone(&held));
    let dialect = Dialect::of(request.uri().path());
    let (method, path) = (request.method().clone(), shown(request.uri().path()));
    let span = match app.http.spans {
        true => tracing::info_span!("request", %method, path),
        false => tracing::Span::none(),
    };
    let trace = match is_monitor(&method, &path) {
        true => tracing::Span::none(),
        false => traces::request_span(&request, &exchange.route),
    };
    let mut response = next.run(request).instrument(trace.clone()).instrument(span).await;
    drop(held);

    let lost = response.status() == StatusCode::NOT_FOUND;
    let error = response.extensions_mut().remove::<ApiError>();
    // What a library answers for a path below its own has no body of ours.
    let error = error.or_else(|| lost.then(|| ApiError::NotFound(path.clone())));
    if let Some(error) = &error {
        response = error.render(dialect);
    }
    let elapsed = exchange.start.elapsed();
    let cost = response.extensions_mut().remove::<Cost>();
    if let Some(cost) = &cost {
        cost.write_headers(response.headers_mut(), &app.engine.info().device, elapsed);
    }
    let status = response.status();
    let (usage, timings) = cost.map(|cost| (cost.usage, cost.timings)).unzip();
    let said = error.as_ref().map(|error| error as &dyn std::fmt::Display);
    traces::record(&trace, &Outcome { status, usage, timings, error: said });
    log(&Line { method: &method, path: &path, status, elapsed, cost, error });
    exchange.finish(status, elapsed);
    app.buffered.hold_answer(response).await
}

/// A path as messages show it: its beginning, if a client sent one that no route has.
pub(crate) fn shown(path: &str) -> String {
    match path.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &path[..end]),
        None => path.to_owned(),
    }
}

/// A request under way; also counted when it is dropped half way.
struct Exchange<'a> {
    app: &'a App,
    /// The route's pattern and never the path, which clients choose.
    route: String,
    start: Instant,
    finished: bool,
}

impl<'a> Exchange<'a> {
    fn new(app: &'a App, request: &Request) -> Self {
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched.map_or("unmatched", MatchedPath::as_str).to_owned();
        gauge!(IN_FLIGHT).set(app.in_flight.fetch_add(1, Ordering::Relaxed) as f64 + 1.0);
        Self { app, route, start: Instant::now(), finished: false }
    }

    fn finish(mut self, status: StatusCode, elapsed: Duration) {
        self.finished = true;
        counter!(REQUESTS, "route" => self.route.clone(), "status" => status.as_str().to_owned()).increment(1);
        histogram!(DURATION, "route" => self.route.clone()).record(elapsed);
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        gauge!(IN_FLIGHT).set(self.app.in_flight.fetch_sub(1, Ordering::Relaxed) as f64 - 1.0);
        if !self.finished {
            counter!(REQUESTS, "route" => self.route.clone(), "status" => DROPPED).increment(1);
            tracing::debug!(target: "request", route = self.route, "the client left before the answer");
        }
    }
}

/// What the log says of a request.
struct Line<'a> {
    method: &'a Method,
    path: &'a str,
    status: StatusCode,
    elapsed: Duration,
    cost: Option<Cost>,
    error: Option<ApiError>,
}

fn log(line: &Line<'_>) {
    let &Line { method, path, status, elapsed, cost, ref error } = line;
    let milliseconds = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
    let timings = cost.map(|cost| cost.timings);
    let usage = cost.map(|cost| cost.usage);
    macro_rules! write_line {
        ($level:ident) => {
            tracing::$level!(
                target: "request",
                %method,
                path,
                status = status.as_u16(),
                total_ms = milliseconds(elapsed),
                tokens = usage.map(|usage| usage.tokens),
                tokenization_ms = timings.map(|timings| milliseconds(timings.tokenization)),
                queue_ms = timings.map(|timings| milliseconds(timings.queue)),
                planning_ms = timings.map(|timings| milliseconds(timings.planning)),
                inference_ms = timings.map(|timings| milliseconds(timings.inference)),
                compaction_ratio = usage.map(|usage| (usage.compaction_ratio() * 1e4).round() / 1e4),
                error = error.as_ref().map(tracing::field::display),
            )
        };
    }
    let ours = status.is_server_error() || status == StatusCode::FAILED_DEPENDENCY;
    match is_monitor(method, path) {
        _ if ours => write_line!(warn),
        true => write_line!(debug),
        false => write_line!(info),
    }
}

/// What is asked all the time, and not by users.
fn is_monitor(method: &Method, path: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && matches!(path, "/" | "/health" | "/ready" | "/ping" | "/metrics")
}
