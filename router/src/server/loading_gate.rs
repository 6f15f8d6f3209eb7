//! The loading gate: answers instead of the routes while the model loads.

use crate::error::{ApiError, Dialect};
use crate::routes::health;
use crate::routes::table::{self, Kind};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tower::ServiceExt;

/// Opens the gate by sending the routes.
pub(crate) type Opener = watch::Sender<Option<Router>>;

type Opened = watch::Receiver<Option<Router>>;

/// Chooses the routes of a request: the model's as soon as it is loaded.
#[derive(Debug, Clone)]
pub(crate) struct LoadingGate {
    opened: Opened,
    meanwhile: Router,
}

/// A gate that waits for its routes. Until then `/health` succeeds, `/ready` and `/metrics` say that the model is loading,
/// and other requests wait: a client that mistakes a live server for a ready one gets its answer late, not an error.
pub(crate) fn closed() -> (Opener, LoadingGate) {
    let (opener, opened) = watch::channel(None);
    let meanwhile = Router::new().fallback(wait).with_state(opened.clone());
    (opener, LoadingGate { opened, meanwhile })
}

impl LoadingGate {
    /// The routes for a request that arrives now.
    pub(crate) fn routes(&self) -> Router {
        self.opened.borrow().as_ref().unwrap_or(&self.meanwhile).clone()
    }
}

async fn wait(State(mut opened): State<Opened>, request: Request) -> Response {
    match table::kind_of_get(request.uri().path()) {
        Some(Kind::Liveness) if matches!(*request.method(), Method::GET | Method::HEAD) => {
            return health::alive().into_response();
        }
        Some(Kind::Readiness | Kind::Metrics) => return unhealthy("the model is loading"),
        _ => {}
    }
    let routes = opened.wait_for(Option::is_some).await.ok().and_then(|routes| routes.clone());
    match routes {
        Some(routes) => routes.oneshot(request).await.unwrap_or_else(|never| match never {}),
        None => unhealthy("the model could not be loaded"),
    }
}

fn unhealthy(reason: &str) -> Response {
    ApiError::Unhealthy(reason.to_owned()).render(Dialect::Tei)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Setup, embedding};
    use axum::body::{Body, to_bytes};
    use std::time::Duration;

    async fn send(gate: &LoadingGate, request: Request) -> (u16, String) {
        let response = gate.routes().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        (status, String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().into()).unwrap())
    }

    fn get(path: &str) -> Request {
        Request::get(path).body(Body::empty()).unwrap()
    }

    fn embed() -> Request {
        Request::post("/embed").body(Body::from(r#"{"inputs":"a"}"#)).unwrap()
    }

    #[tokio::test]
    async fn a_loading_server_lives_and_is_not_ready() {
        let (opener, gate) = closed();
        for path in ["/health", "/ping", "/"] {
            for method in [Method::GET, Method::HEAD] {
                let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
                let (status, body) = send(&gate, request).await;
                let is_whole = method == Method::HEAD || body.starts_with(r#"{"status":"ok""#);
                assert!(status == 200 && is_whole, "{method} {path}: {status} {body}");
            }
        }
        for path in ["/ready", "/metrics"] {
            let answer = tokio::time::timeout(Duration::from_secs(5), send(&gate, get(path))).await;
            let (status, body) = answer.unwrap_or_else(|_| panic!("{path} waits"));
            assert!(status == 503 && body.contains("the model is loading"), "{path}: {status} {body}");
        }

        let waiting = tokio::spawn({
            let gate = gate.clone();
            async move { send(&gate, embed()).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        opener.send(Some(crate::server::routing::router(Setup::new(embedding()).build()))).unwrap();
        assert_eq!(waiting.await.unwrap().0, 200);
        assert_eq!(send(&gate, get("/ready")).await.0, 200);
        assert_eq!(send(&gate, get("/no/such/route")).await.0, 404);
    }

    #[tokio::test]
    async fn who_waits_in_vain_is_told() {
        let (opener, gate) = closed();
        drop(opener);
        let (status, body) = send(&gate, embed()).await;
        assert!(status == 503 && body.contains("could not be loaded"), "{status} {body}");
    }
}
