//! The routing table, with the layers around the routes.

use crate::error::ApiError;
use crate::layers::{auth, catch_panic, cors, observe};
use crate::openapi;
use crate::routes::{docs, embed, health, info, openai, predict, predict_tokens, rerank, score, tokenize};
use crate::state::App;
use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, get, post};
use prefold_core::{Task, shown};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// All routes in their layers, outermost first: CORS; log, metrics and error bodies; panics; API key.
pub(crate) fn router(app: App) -> Router {
    let key = from_fn_with_state(app.clone(), auth::require_key);
    let (protected, open, api) = api();
    let mut protected = protected.route("/", default_route(&app));
    let mut open = open.route("/", get(health::health));
    let docs = docs::router(&api);
    let metrics = Router::new().route("/metrics", get(info::metrics));
    let metrics = if app.http.metrics_elsewhere { Router::new() } else { metrics };
    for (routes, is_protected) in [(docs, app.http.protect_docs), (metrics, app.http.protect_metrics)] {
        if is_protected {
            protected = protected.merge(routes);
        } else {
            open = open.merge(routes);
        }
    }
    layered(protected.route_layer(key).merge(open), app)
}

/// `/metrics` alone, for `--prometheus-port`.
pub(crate) fn metrics_router(app: App) -> Router {
    let routes = Router::new().route("/metrics", get(info::metrics));
    let routes = if app.http.protect_metrics {
        routes.route_layer(from_fn_with_state(app.clone(), auth::require_key))
    } else {
        routes
    };
    layered(routes, app)
}

fn layered(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(|request: Request| async move { ApiError::NotFound(shown(request.uri().path())) })
        .method_not_allowed_fallback(|request: Request| async move {
            ApiError::MethodNotAllowed(shown(request.uri().path()))
        })
        .layer(catch_panic::layer())
        .layer(from_fn_with_state(app.clone(), observe::observe))
        .layer(cors::layer(app.http.allowed_origins.as_deref()))
        .with_state(app)
}

/// The routes that need the API key, those that do not, and the OpenAPI description of both.
pub(crate) fn api() -> (Router<App>, Router<App>, OpenApi) {
    let protected = OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(embed::embed))
        .routes(routes!(embed::embed_all))
        .routes(routes!(embed::similarity))
        .routes(routes!(predict::predict))
        .routes(routes!(predict::classify))
        .routes(routes!(predict_tokens::predict_tokens))
        .routes(routes!(rerank::rerank))
        .routes(routes!(rerank::rerank_v1))
        .routes(routes!(rerank::rerank_v2))
        .routes(routes!(score::score))
        .routes(routes!(openai::embeddings))
        .routes(routes!(openai::models))
        .routes(routes!(tokenize::tokenize))
        .routes(routes!(tokenize::decode))
        .routes(routes!(info::info))
        // Model names contain slashes.
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

/// `POST /` as hosted inference endpoints have it: the model's own task.
fn default_route(app: &App) -> MethodRouter<App> {
    match app.engine.info().capabilities.tasks().next() {
        Some(Task::Embed) | None => post(embed::embed_or_compare),
        Some(Task::Rerank) => post(rerank::rerank),
        Some(Task::Classify) => post(predict::predict),
        Some(Task::ClassifyTokens) => post(predict_tokens::predict_tokens),
    }
}
