//! The layer that finishes every response: body of an error, cost headers, log line, metrics, trace.
//!
//! Each request writes one log line with the target `request`, so `--log-level info,request=off` silences them. Its
//! level is `warn` when the server is at fault, `debug` for requests of monitors, `info` otherwise.

use crate::error::{ApiError, Dialect};
use crate::routes::table::{self, Kind};
use crate::routes::without_slash;
use crate::state::App;
use crate::state::api_keys::KeyOwner;
use crate::state::call::ChosenModel;
use crate::state::field_names::SentNames;
use crate::state::holding::Route;
use crate::state::ignored::{IGNORED, IgnoredFields};
use crate::state::replaced::{REPLACED, ReplacedText};
use crate::state::request_id::{REQUEST_ID, RequestId};
use crate::telemetry::metrics::{DURATION, REFUSED, REQUESTS, UNMATCHED};
use crate::telemetry::rare_warning::RareWarning;
use crate::telemetry::traces::{self, Outcome};
use crate::wire::cost::Cost;
use axum::extract::{MatchedPath, Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use metrics::{counter, histogram};
use prefold_core::shown;
use std::time::{Duration, Instant};
use tracing::{Instrument, Span};

/// Label `status` of a request whose client left before the response.
const DROPPED: &str = "dropped";

/// Runs the request and finishes its response. The request goes on to the handler before anything waits.
pub(crate) fn observe(
    State(app): State<App>,
    mut request: Request,
    next: Next,
) -> impl Future<Output = Response> + Send {
    let exchange = Exchange::new(app, &request);
    request.extensions_mut().insert(exchange.id.clone());
    request.extensions_mut().insert(exchange.ignored.clone());
    request.extensions_mut().insert(exchange.sent.clone());
    request.extensions_mut().insert(exchange.replaced.clone());
    request.extensions_mut().insert(exchange.chosen.clone());
    let (method, path) = (&exchange.method, &exchange.path);
    let span =
        if exchange.app.http.spans { tracing::info_span!("request", method, path) } else { tracing::Span::none() };
    let trace = if is_monitor(method, path) {
        tracing::Span::none()
    } else {
        traces::request_span(&request, method, &exchange.route, path)
    };
    let response = next.run(request).instrument(trace.clone()).instrument(span);
    async move { exchange.finish(response.await, &trace) }
}

/// A request until its response is made; counted even if it is dropped before.
struct Exchange {
    app: App,
    method: String,
    path: String,
    dialect: Dialect,
    /// The route's pattern; the path would be an unbounded label.
    route: String,
    id: RequestId,
    ignored: IgnoredFields,
    sent: SentNames,
    replaced: ReplacedText,
    chosen: ChosenModel,
    start: Instant,
    finished: bool,
}

impl Exchange {
    fn new(app: App, request: &Request) -> Self {
        let matched = request.extensions().get::<MatchedPath>();
        let route = matched.map_or(UNMATCHED, |path| without_slash(path.as_str())).to_owned();
        let (method, path) = (shown(request.method().as_str()), shown(request.uri().path()));
        let dialect = table::dialect_of(request.uri().path());
        let id = RequestId::of(request.headers());
        Self {
            app,
            method,
            path,
            dialect,
            route,
            id,
            ignored: IgnoredFields::default(),
            sent: SentNames::default(),
            replaced: ReplacedText::default(),
            chosen: ChosenModel::default(),
            start: Instant::now(),
            finished: false,
        }
    }

    /// Error body, cost headers, trace, log line and metrics.
    fn finish(mut self, mut response: Response, trace: &Span) -> Response {
        let owner = response.extensions_mut().remove::<KeyOwner>();
        let sent = self.sent.all();
        let error = response.extensions_mut().remove::<ApiError>().map(|error| error.in_names(&sent));
        if let Some(error) = &error {
            let of_body = response.extensions_mut().remove::<Dialect>();
            response = error.render(of_body.unwrap_or(self.dialect));
        }
        let elapsed = self.start.elapsed();
        let cost = response.extensions_mut().remove::<Cost>();
        let model = self.chosen.get().unwrap_or_else(|| self.app.models.default());
        if let Some(cost) = &cost {
            cost.write_headers(response.headers_mut(), &model.engine.info().device, elapsed);
        }
        if let Some(names) = self.ignored.header(&sent) {
            response.headers_mut().insert(IGNORED, names);
        }
        if let Some(names) = self.replaced.header() {
            response.headers_mut().insert(REPLACED, names);
        }
        response.headers_mut().insert(REQUEST_ID, self.id.header().clone());
        let status = response.status();
        let (usage, timings) = cost.map(|cost| (cost.usage, cost.timings)).unzip();
        let said = error.as_ref().map(|error| error as &dyn std::fmt::Display);
        traces::record(trace, &Outcome { status, usage, timings, error: said });
        if let Some(quota) = error.as_ref().and_then(ApiError::quota) {
            counter!(REFUSED, "quota" => quota.label()).increment(1);
        }
        if usage.is_some_and(|usage| usage.foreign_inputs > 0) {
            warn_of_foreign_ids(self.id.as_str());
        }
        log(&Line {
            id: self.id.as_str(),
            model: &model.names.served,
            key: owner.as_ref().map(|owner| &*owner.name),
            method: &self.method,
            path: &self.path,
            status,
            elapsed,
            cost,
            replaced: self.replaced.get(),
            error,
        });
        self.finished = true;
        counter!(REQUESTS, "route" => self.route.clone(), "status" => status.as_str().to_owned()).increment(1);
        histogram!(DURATION, "route" => self.route.clone()).record(elapsed);
        response.extensions_mut().insert(Route(std::mem::take(&mut self.route)));
        response
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if !self.finished {
            counter!(REQUESTS, "route" => self.route.clone(), "status" => DROPPED).increment(1);
            tracing::debug!(target: "request", route = self.route, "the client left before the answer");
        }
    }
}

/// Fields of the log line of a request.
struct Line<'a> {
    id: &'a str,
    /// The served name of the model; the default model's if the request did not reach one.
    model: &'a str,
    /// Name or number of the API key.
    key: Option<&'a str>,
    method: &'a str,
    path: &'a str,
    status: StatusCode,
    elapsed: Duration,
    cost: Option<Cost>,
    /// The texts in which something that is not Unicode was replaced.
    replaced: Option<&'a str>,
    error: Option<ApiError>,
}

fn log(line: &Line<'_>) {
    let &Line { id, model, key, method, path, status, elapsed, cost, replaced, ref error } = line;
    let milliseconds = |duration: Duration| (duration.as_secs_f64() * 1e6).round() / 1e3;
    let timings = cost.map(|cost| cost.timings);
    let usage = cost.map(|cost| cost.usage);
    macro_rules! write_line {
        ($level:ident) => {
            tracing::$level!(
                target: "request",
                method,
                path,
                status = status.as_u16(),
                id,
                model,
                key,
                total_ms = milliseconds(elapsed),
                tokens = usage.map(|usage| usage.tokens),
                truncated_inputs = usage.map(|usage| usage.truncated_inputs).filter(|&truncated| truncated > 0),
                foreign_inputs = usage.map(|usage| usage.foreign_inputs).filter(|&foreign| foreign > 0),
                replaced_unicode = replaced,
                tokenization_ms = timings.map(|timings| milliseconds(timings.tokenization)),
                queue_ms = timings.map(|timings| milliseconds(timings.queue)),
                planning_ms = timings.map(|timings| milliseconds(timings.planning)),
                inference_ms = timings.map(|timings| milliseconds(timings.inference)),
                compaction_ratio = usage.map(|usage| (usage.compaction_ratio() * 1e4).round() / 1e4),
                error = error.as_ref().map(ToString::to_string),
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

/// Warns of token ids that look like another tokenizer's, once a minute at most.
fn warn_of_foreign_ids(id: &str) {
    static FOREIGN_IDS: RareWarning = RareWarning::new();
    if let Some(requests) = FOREIGN_IDS.is_due(Instant::now()) {
        tracing::warn!(
            id,
            requests,
            "token ids do not look like the model's, so the vectors mean nothing: LangChain's OpenAIEmbeddings must have \
             check_embedding_ctx_length=False (--token-ids refuse turns such requests away, accept silences this)"
        );
    }
}

/// True for requests that monitors repeat, not users.
fn is_monitor(method: &str, path: &str) -> bool {
    let is_get = matches!(method, "GET" | "HEAD");
    (is_get || method == "POST") && table::kind_of(is_get, path).is_some_and(Kind::is_for_monitors)
}

#[test]
fn probes_by_either_method_are_for_monitors() {
    for (method, path) in [("GET", "/health"), ("HEAD", "/ready"), ("GET", "/ping"), ("POST", "/ping"), ("GET", "/")] {
        assert!(is_monitor(method, path), "{method} {path}");
    }
    for (method, path) in [("POST", "/embed"), ("POST", "/"), ("DELETE", "/health"), ("POST", "/health")] {
        assert!(!is_monitor(method, path), "{method} {path}");
    }
}
