//! The loading gate: answers in place of the routes while the model loads.

use crate::error::{ApiError, Dialect};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use tokio::sync::watch;
use tower::ServiceExt;

/// Opens the gate by sending the routes.
pub(crate) type Opener = watch::Sender<Option<Router>>;

type Gate = watch::Receiver<Option<Router>>;

/// While the gate is closed, `/health` succeeds, `/ready` says that the model is loading, and other requests wait: a
/// client that mistakes a live server for a ready one gets its answer late, not an error.
pub(crate) fn closed() -> (Opener, Router) {
    let (opener, gate) = watch::channel(None);
    (opener, Router::new().fallback(pass).with_state(gate))
}

async fn pass(State(mut gate): State<Gate>, request: Request) -> Response {
    let mut open = gate.borrow().clone();
    if open.is_none() {
        match request.uri().path() {
            "/health" | "/ping" | "/" if matches!(*request.method(), Method::GET | Method::HEAD) => {
                return ().into_response();
            }
            "/ready" => return unhealthy("the model is loading"),
            _ => {}
        }
        open = match gate.wait_for(Option::is_some).await {
            Ok(router) => router.clone(),
            Err(_) => return unhealthy("the model could not be loaded"),
        };
    }
    match open {
        Some(router) => router.oneshot(request).await.unwrap_or_else(|never| match never {}),
        None => unhealthy("the model is loading"),
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

    async fn send(router: &Router, request: Request) -> (u16, String) {
        let response = router.clone().oneshot(request).await.unwrap();
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
        let (opener, router) = closed();
        for path in ["/health", "/ping", "/"] {
            for method in [Method::GET, Method::HEAD] {
                let request = Request::builder().method(&method).uri(path).body(Body::empty()).unwrap();
                assert_eq!(send(&router, request).await, (200, String::new()), "{method} {path}");
            }
        }
        let (status, body) = send(&router, get("/ready")).await;
        assert!(status == 503 && body.contains("the model is loading"), "{status} {body}");

        let waiting = tokio::spawn({
            let router = router.clone();
            async move { send(&router, embed()).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        opener.send(Some(crate::server::routing::router(Setup::new(embedding()).build()))).unwrap();
        assert_eq!(waiting.await.unwrap().0, 200);
        assert_eq!(send(&router, get("/ready")).await.0, 200);
        assert_eq!(send(&router, get("/no/such/route")).await.0, 404);
    }

    #[tokio::test]
    async fn who_waits_in_vain_is_told() {
        let (opener, router) = closed();
        drop(opener);
        let (status, body) = send(&router, embed()).await;
        assert!(status == 503 && body.contains("could not be loaded"), "{status} {body}");
    }
}
