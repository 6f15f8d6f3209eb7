//! The table of routes. The router, the OpenAPI description, the form of errors and the treatment of monitors follow from it.

use super::ollama::{embed as ollama_embed, models as ollama_models};
use super::{
    cohere, embed, health, home, infinity, info, invocations, models, openai, pooling, predict, predict_tokens, rerank,
    score, task, tokenize, without_slash,
};
use crate::error::Dialect;
use crate::state::App;
use axum::Router;
use std::sync::LazyLock;
use utoipa_axum::router::UtoipaMethodRouter;
use utoipa_axum::routes;

/// Purpose of a route. It decides on the API key, and on the errors and headers of its responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Runs the model.
    Model,
    /// Runs the tokenizer only.
    Tokenizer,
    /// Describes the model and the server.
    Facts,
    /// Says whether the server is alive.
    Liveness,
    /// Says whether the server is ready.
    Readiness,
    Metrics,
}

impl Kind {
    /// True for routes that monitors call repeatedly, without an API key by default.
    pub(crate) fn is_for_monitors(self) -> bool {
        matches!(self, Self::Liveness | Self::Readiness | Self::Metrics)
    }
}

/// A route: one handler, with the path, method and tag of its `utoipa::path`.
pub(crate) struct Route {
    pub(crate) path: String,
    is_get: bool,
    pub(crate) kind: Kind,
    /// Further paths of the handler.
    pub(crate) aliases: &'static [&'static str],
    /// Schemas, description and handler.
    pub(crate) parts: fn() -> UtoipaMethodRouter<App>,
}

macro_rules! table {
    ($($kind:ident: $handler:path $(, $alias:literal)*;)+) => {
        vec![$(Route::new(Kind::$kind, || routes!($handler), &[$($alias),*])),+]
    };
}

/// All routes except `/docs` and its files. A row is the kind, the handler and the aliases.
pub(crate) static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    table! {
        Model: task::task;
        Model: openai::embeddings, "/embeddings";
        Model: embed::embed;
        Model: embed::embed_all;
        Model: embed::similarity;
        Model: cohere::embed_v1;
        Model: cohere::embed_v2;
        Model: rerank::rerank, "/reranking";
        Model: rerank::rerank_v1, "/v1/reranking";
        Model: rerank::rerank_v2;
        Model: score::score, "/score";
        Model: predict::predict;
        Model: predict::classify, "/classify";
        Model: predict_tokens::predict_tokens;
        Model: pooling::pooling;
        Model: invocations::invocations;
        Model: ollama_embed::embed;
        Model: ollama_embed::embeddings;
        Tokenizer: tokenize::tokenize;
        Tokenizer: tokenize::detokenize;
        Tokenizer: tokenize::decode;
        Tokenizer: cohere::tokenize_v1;
        Tokenizer: cohere::detokenize_v1;
        Facts: info::info;
        Facts: models::models;
        Facts: models::model;
        Facts: infinity::models;
        Facts: ollama_models::tags;
        Facts: ollama_models::ps;
        Facts: ollama_models::show;
        Facts: ollama_models::pull;
        Facts: info::version, "/api/version";
        Liveness: health::health, "/ping";
        Liveness: home::home;
        Liveness: health::ping;
        Readiness: health::ready;
        Metrics: info::metrics;
    }
});

impl Route {
    fn new(kind: Kind, parts: fn() -> UtoipaMethodRouter<App>, aliases: &'static [&'static str]) -> Self {
        let (path, item) = parts().1.paths.into_iter().next().unwrap_or_default();
        Self { path, is_get: item.get.is_some(), kind, aliases, parts }
    }

    /// The router with the handler at its path and aliases.
    pub(crate) fn add_to(&self, router: Router<App>) -> Router<App> {
        let (_, _, handler) = (self.parts)();
        let at = |router: Router<App>, path: &str| match path {
            // A parameter is the rest of the path: model names contain slashes.
            path if path.ends_with('}') => router.route(&path.replace('{', "{*"), handler.clone()),
            "/" => router.route(path, handler.clone()),
            path => router.route(path, handler.clone()).route(&format!("{path}/"), handler.clone()),
        };
        self.aliases.iter().fold(at(router, &self.path), |router, alias| at(router, alias))
    }
}

/// Kind of the route that answers `GET` at `path`.
pub(crate) fn kind_of_get(path: &str) -> Option<Kind> {
    kind_of(true, path)
}

/// Kind of the route that answers `GET`, or else `POST`, at `path`.
pub(crate) fn kind_of(is_get: bool, path: &str) -> Option<Kind> {
    let path = without_slash(path);
    let is_at = |route: &&Route| route.is_get == is_get && (route.path == path || route.aliases.contains(&path));
    ROUTES.iter().find(is_at).map(|route| route.kind)
}

/// Maximum edits of a slip of the pen.
const SLIP: usize = 2;

/// The path of the route that is most like `path`, if a slip of the pen is between them.
pub(crate) fn nearest(path: &str) -> Option<&'static str> {
    let paths = ROUTES.iter().flat_map(|route| std::iter::once(&*route.path).chain(route.aliases.iter().copied()));
    let paths = paths.filter(|known| strsim::damerau_levenshtein(known, path) <= SLIP);
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(known, path);
    let rated = paths.map(|known| (known, likeness(known)));
    rated.filter(|(_, likeness)| *likeness >= 0.6).max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(known, _)| known)
}

/// Form of the errors at `path`; an alias has its route's.
pub(crate) fn dialect_of(path: &str) -> Dialect {
    let path = without_slash(path);
    let route = ROUTES.iter().find(|route| route.aliases.contains(&path));
    Dialect::of(route.map_or(path, |route| &route.path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::routes_of;
    use prefold_core::Task;

    #[test]
    fn dialects_follow_the_route() {
        for path in ["/v1/embeddings", "/embeddings", "/v1/embed", "/v1/nothing", "/v2/nothing"] {
            assert_eq!(dialect_of(path), Dialect::OpenAi, "{path}");
        }
        let of_vllm =
            ["/score", "/score/", "/v1/score", "/classify", "/v2/rerank", "/v1/reranking", "/pooling", "/detokenize"];
        for path in of_vllm.into_iter().chain(["/invocations"]) {
            assert_eq!(dialect_of(path), Dialect::Vllm, "{path}");
        }
        for path in ["/embed", "/rerank", "/reranking", "/", "/v1", "/nothing"] {
            assert_eq!(dialect_of(path), Dialect::Tei, "{path}");
        }
    }

    #[test]
    fn ollamas_routes_have_ollamas_errors() {
        for path in ["/api/embed", "/api/show", "/api/nothing"] {
            assert_eq!(dialect_of(path), Dialect::Ollama, "{path}");
        }
        assert_eq!(dialect_of("/api-doc/openapi.json"), Dialect::Tei);
    }

    #[test]
    fn errors_advise_routes_that_run_the_model() {
        for path in [Task::Embed, Task::Rerank, Task::Classify, Task::ClassifyTokens].into_iter().flat_map(routes_of) {
            assert!(ROUTES.iter().any(|route| route.path == *path && route.kind == Kind::Model), "{path}");
        }
    }

    #[test]
    fn the_nearest_route_is_the_one_meant() {
        for (path, expected) in [
            ("/v1/embedding", Some("/v1/embeddings")),
            ("/v1/embeding", Some("/v1/embeddings")),
            ("/v3/rerank", Some("/v2/rerank")),
            ("/embedd", Some("/embed")),
            ("/v1/chat/completions", None),
            ("/api/chat", None),
            ("/embed_sparse", None),
            ("/api/embeding", Some("/api/embeddings")),
            ("/favicon.ico", None),
            ("/metrics", Some("/metrics")),
        ] {
            assert_eq!(nearest(path), expected, "{path}");
        }
    }

    #[test]
    fn monitors_have_routes_of_their_own() {
        for path in ["/health", "/ping", "/", "/ready", "/ready/", "/metrics"] {
            assert!(kind_of_get(path).is_some_and(Kind::is_for_monitors), "{path}");
        }
        for path in ["/info", "/v1/models", "/embed", "/nothing"] {
            assert!(!kind_of_get(path).is_some_and(Kind::is_for_monitors), "{path}");
        }
        assert!(kind_of(false, "/ping").is_some_and(Kind::is_for_monitors));
        assert!(!kind_of(false, "/").is_some_and(Kind::is_for_monitors));
    }
}
