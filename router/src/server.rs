//! The routes, the layers around them, and a stop that loses nothing.

use crate::answer::{DTYPE, SHAPE};
use crate::app::App;
use crate::config::{HttpConfig, ServingConfig};
use crate::error::ApiError;
use crate::observe::shown;
use crate::routes::{embed, health, info, openai, predict, rerank, score, tokenize};
use crate::{auth, connections, gateway, observe, openapi};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderName, Method, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use prefold_core::ModelKind;
use std::any::Any;
use std::future::pending;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, Any as AnyOrigin, CorsLayer};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

/// How long connections are still accepted after the signal to stop: their clients sent before it, and the kernel
/// would reset what waits to be accepted.
const BACKLOG_GRACE: Duration = Duration::from_millis(200);

/// Signals this close are one: a process manager may signal the process and also its group.
const SAME_SIGNAL: Duration = Duration::from_millis(250);

/// How often the forward pass is looked at.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// The headers that a browser may show to a page, beside those that it always may.
const EXPOSED_HEADERS: [HeaderName; 16] = [
    header::RETRY_AFTER,
    HeaderName::from_static("x-compute-type"),
    HeaderName::from_static("x-compute-time"),
    HeaderName::from_static("x-compute-characters"),
    HeaderName::from_static("x-compute-tokens"),
    HeaderName::from_static("x-compute-compact-tokens"),
    HeaderName::from_static("x-compute-batch-tokens"),
    HeaderName::from_static("x-compute-unique-tokens"),
    HeaderName::from_static("x-compaction-ratio"),
    HeaderName::from_static("x-total-time"),
    HeaderName::from_static("x-tokenization-time"),
    HeaderName::from_static("x-queue-time"),
    HeaderName::from_static("x-planning-time"),
    HeaderName::from_static("x-inference-time"),
    SHAPE,
    DTYPE,
];

/// All routes with their layers. From outside: CORS, log and metrics and error bodies, panics, the API key.
pub(crate) fn router(app: App) -> Router {
    let key = from_fn_with_state(app.clone(), auth::require_key);
    let (protected, open, api) = api();
    let mut protected = protected.route("/", default_route(&app));
    let mut open = open.route("/", get(health::health));
    let docs = Router::from(SwaggerUi::new("/docs").url("/api-doc/openapi.json", api));
    let metrics = Router::new().route("/metrics", get(info::metrics));
    let metrics = if app.http.metrics_elsewhere { Router::new() } else { metrics };
    for (routes, is_protected) in [(docs, app.http.protect_docs), (metrics, app.http.protect_metrics)] {
        match is_protected {
            true => protected = protected.merge(routes),
            false => open = open.merge(routes),
        }
    }
    layered(protected.route_layer(key).merge(open), app)
}

/// `/metrics` alone, for a port of its own.
pub(crate) fn metrics_router(app: App) -> Router {
    let routes = Router::new().route("/metrics", get(info::metrics));
    let routes = match app.http.protect_metrics {
        true => routes.route_layer(from_fn_with_state(app.clone(), auth::require_key)),
        false => routes,
    };
    layered(routes, app)
}

fn layered(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(|request: Request| async move { ApiError::NotFound(shown(request.uri().path())) })
        .method_not_allowed_fallback(|request: Request| async move {
            ApiError::MethodNotAllowed(shown(request.uri().path()))
        })
        .layer(CatchPanicLayer::custom(answer_panic))
        .layer(from_fn_with_state(app.clone(), observe::observe))
        .layer(cors(&app.http))
        .with_state(app)
}

/// The routes that need the API key, those that do not, and the description of both.
pub(crate) fn api() -> (Router<App>, Router<App>, OpenApi) {
    let protected = OpenApiRouter::with_openapi(openapi::begun())
        .routes(routes!(embed::embed))
        .routes(routes!(embed::embed_all))
        .routes(routes!(embed::similarity))
        .routes(routes!(predict::predict))
        .routes(routes!(predict::classify))
        .routes(routes!(rerank::rerank))
        .routes(routes!(rerank::rerank_v1))
        .routes(routes!(rerank::rerank_v2))
        .routes(routes!(score::score))
        .routes(routes!(openai::embeddings))
        .routes(routes!(openai::models))
        .routes(routes!(tokenize::tokenize))
        .routes(routes!(tokenize::decode))
        .routes(routes!(info::info))
        // Names of models have slashes.
        .route("/v1/models/{*model}", get(openai::model))
        .route("/embeddings", post(openai::embeddings))
        .route("/score", post(score::score))
        .route("/classify", post(predict::classify));
    let open = OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(health::ready))
        .route("/ping", get(health::health));
    let (protected, mut description) = protected.split_for_parts();
    let (open, described) = open.split_for_parts();
    description.merge(described);
    openapi::finish(&mut description);
    (protected, open, description)
}

/// `POST /`, as hosted inference endpoints are called: the model's own task.
fn default_route(app: &App) -> MethodRouter<App> {
    match &app.engine.info().kind {
        ModelKind::Embedding { .. } => post(embed::embed_or_compare),
        ModelKind::Reranker => post(rerank::rerank),
        ModelKind::Classifier { labels } if labels.len() == 1 => post(rerank::rerank),
        ModelKind::Classifier { .. } => post(predict::predict_or_pipeline),
    }
}

/// The panic itself is in the log, by the hook.
fn answer_panic(_: Box<dyn Any + Send>) -> Response {
    ApiError::Panic.into_response()
}

fn cors(http: &HttpConfig) -> CorsLayer {
    let layer = CorsLayer::new()
        .allow_methods([Method::GET, Method::POST])
        // Whatever a client's library adds of its own; origins are what is decided on.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED_HEADERS);
    match &http.allowed_origins {
        None => layer.allow_origin(AnyOrigin),
        Some(origins) => layer.allow_origin(AllowOrigin::list(origins.clone())),
    }
}

/// Requests to stop, from the system or (in tests) from anywhere.
pub(crate) struct Signals(mpsc::Receiver<&'static str>);

impl Signals {
    /// Catches SIGTERM and SIGINT from now on.
    pub(crate) fn listen() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                if let Err(TrySendError::Closed(_)) = sender.try_send(name) {
                    return;
                }
            }
        });
        Ok(Self(receiver))
    }

    /// A later one's name: what comes together with the last one means the same.
    async fn another(&mut self) -> &'static str {
        tokio::time::sleep(SAME_SIGNAL).await;
        while self.0.try_recv().is_ok() {}
        self.next().await
    }

    /// The next one's name.
    pub(crate) async fn next(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(name) => name,
            None => pending().await,
        }
    }
}

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Everything accepted was answered.
    Drained,
    /// The time for it was over.
    TimedOut {
        /// Requests that were cut off.
        requests: usize,
    },
    /// A second signal came.
    Interrupted,
    /// A forward pass did not end.
    Stuck,
}

/// Listens at once, answers when `loading` is done, serves until a signal comes, then finishes what was accepted within
/// the time that there is for it.
pub(crate) async fn serve(
    listener: TcpListener,
    loading: impl Future<Output = anyhow::Result<App>>,
    mut signals: Signals,
    config: ServingConfig,
) -> anyhow::Result<Stopped> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (opener, gateway) = gateway::closed();
    let mut serving = tokio::spawn(connections::serve(listener, gateway, config.connections, stopped));
    let app = tokio::select! {
        app = loading => app?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped while the model was loading");
            return Ok(Stopped::Drained);
        }
    };
    opener.send_replace(Some(router(app.clone())));
    let name = tokio::select! {
        name = signals.next() => name,
        ended = &mut serving => return Ok(ended.map(|()| Stopped::Drained)?),
        stuck = stuck(&app), if config.exit_on_stuck => return Ok(stuck),
    };
    tracing::info!(signal = name, in_flight = app.in_flight.load(Ordering::Relaxed), "stopping");
    let drain = async {
        tokio::time::sleep(BACKLOG_GRACE).await;
        drop(stop);
        serving.await?;
        app.engine.shutdown().await;
        Ok(Stopped::Drained)
    };
    tokio::select! {
        result = drain => result,
        () = tokio::time::sleep(config.shutdown_timeout) => {
            let requests = app.in_flight.load(Ordering::Relaxed);
            tracing::warn!(requests, "the time to stop is over (--shutdown-timeout); requests were cut off");
            Ok(Stopped::TimedOut { requests })
        }
        name = signals.another() => {
            tracing::warn!(signal = name, "stopped at once by a second signal");
            Ok(Stopped::Interrupted)
        }
    }
}

/// Ready when a forward pass will never end.
async fn stuck(app: &App) -> Stopped {
    loop {
        tokio::time::sleep((app.http.stall_timeout / 4).min(WATCH_PERIOD)).await;
        if let Err(error) = health::stuck(app) {
            tracing::error!(in_flight = app.in_flight.load(Ordering::Relaxed), "{error}; ending (--exit-on-stuck)");
            return Stopped::Stuck;
        }
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "shutdown_tests.rs"]
mod shutdown_tests;
