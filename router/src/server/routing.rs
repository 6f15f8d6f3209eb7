//! The routes with the layers around them.

use crate::error::ApiError;
use crate::layers::{auth, catch_panic, cors, observe};
use crate::openapi;
use crate::routes::docs;
use crate::routes::table::{self, Kind, ROUTES};
use crate::state::App;
use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use prefold_core::{Task, shown};

/// All routes in their layers, outermost first: CORS; log, metrics and error bodies; panics; API key.
pub(crate) fn router(app: App) -> Router {
    let key = from_fn_with_state(app.clone(), auth::require_key);
    let is_routed = |kind| kind != Kind::Metrics || !app.http.metrics_elsewhere;
    let is_protected = |kind| match kind {
        Kind::Metrics => app.http.protect_metrics,
        kind => !kind.is_for_monitors(),
    };
    let protected = routes(|kind| is_routed(kind) && is_protected(kind));
    let open = routes(|kind| is_routed(kind) && !is_protected(kind));
    let model = app.models.default();
    let own = model.engine.info().capabilities.tasks().next();
    let docs = docs::router(&openapi::description(own.unwrap_or(Task::Embed), &model.names.served));
    let (protected, open) =
        if app.http.protect_docs { (protected.merge(docs), open) } else { (protected, open.merge(docs)) };
    layered(protected.route_layer(key).merge(open), app)
}

/// `/metrics` alone, for `--prometheus-port`.
pub(crate) fn metrics_router(app: App) -> Router {
    let routes = routes(|kind| kind == Kind::Metrics);
    let routes = if app.http.protect_metrics {
        routes.route_layer(from_fn_with_state(app.clone(), auth::require_key))
    } else {
        routes
    };
    layered(routes, app)
}

/// The routes of some kinds.
fn routes(is_chosen: impl Fn(Kind) -> bool) -> Router<App> {
    ROUTES.iter().filter(|route| is_chosen(route.kind)).fold(Router::new(), |router, route| route.add_to(router))
}

fn layered(routes: Router<App>, app: App) -> Router {
    routes
        .fallback(|request: Request| async move {
            let path = shown(request.uri().path());
            ApiError::NotFound { nearest: table::nearest(&path), path }
        })
        .method_not_allowed_fallback(|request: Request| async move {
            ApiError::MethodNotAllowed(shown(request.uri().path()))
        })
        .layer(catch_panic::layer())
        .layer(from_fn_with_state(app.clone(), observe::observe))
        .layer(cors::layer(app.http.allowed_origins.as_deref()))
        .with_state(app)
}
