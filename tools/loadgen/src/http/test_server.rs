//! Server under load in the tests of this crate.

use crate::http::api::Api;
use crate::http::client::{Target, TargetConfig};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Barrier;

/// Server that returns embeddings with one value per text, unless its behaviour differs.
pub(crate) struct Server {
    behaviour: Behaviour,
    /// First text of each request, in order of arrival.
    pub(crate) texts: Mutex<Vec<String>>,
    /// Requests answered under [`Behaviour::Work`], in order of their answers.
    pub(crate) log: Mutex<Vec<Logged>>,
    pub(crate) in_flight: AtomicU64,
    pub(crate) max_in_flight: AtomicU64,
    turn: tokio::sync::Mutex<()>,
}

/// Request as seen by a [`Server`].
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) body: Value,
    pub(crate) begin: Instant,
    pub(crate) end: Instant,
}

/// What a [`Server`] does with a request.
pub(crate) enum Behaviour {
    Answer,
    /// Serves one request at a time; the first takes this long.
    Stall(Duration),
    /// Responds only once this many requests are waiting.
    Together(Barrier),
    /// Each text selects its response.
    Obey,
    /// Takes this long for each request, and has metrics that count it as one batch of 10 ms.
    Work(Duration),
}

impl Server {
    pub(crate) async fn start(behaviour: Behaviour) -> (Arc<Self>, String) {
        let server = Arc::new(Self {
            behaviour,
            texts: Mutex::default(),
            log: Mutex::default(),
            in_flight: AtomicU64::new(0),
            max_in_flight: AtomicU64::new(0),
            turn: tokio::sync::Mutex::default(),
        });
        let models = get(async |headers: HeaderMap| match headers.get("authorization").map(HeaderValue::as_bytes) {
            Some(b"Bearer key") => Json(json!({ "data": [{ "id": "first" }, { "id": "second" }] })).into_response(),
            _ => StatusCode::UNAUTHORIZED.into_response(),
        });
        let app = Router::new().route("/embed", post(embed)).route("/v1/models", models);
        let app = app.route("/metrics", get(metrics)).with_state(server.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (server, format!("http://{address}"))
    }
}

async fn metrics(State(server): State<Arc<Server>>) -> Response {
    let Behaviour::Work(_) = server.behaviour else { return StatusCode::NOT_FOUND.into_response() };
    let batches = server.log.lock().unwrap().len();
    let seconds = 0.01 * batches as f64;
    format!(
        "te_batch_next_size_count {batches}\nte_batch_next_size_sum {}\nprefold_batch_inference_duration_sum {seconds}\n\
         prefold_planning_duration_sum 0\nprefold_backend_idle_duration_sum 0\n",
        batches * 3
    )
    .into_response()
}

async fn embed(State(server): State<Arc<Server>>, request: Request) -> Response {
    let begin = Instant::now();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let inputs = body["inputs"].as_array().unwrap();
    let text = inputs[0].as_str().unwrap().to_owned();
    let in_flight = server.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
    server.max_in_flight.fetch_max(in_flight, Ordering::SeqCst);
    server.texts.lock().unwrap().push(text.clone());
    match &server.behaviour {
        Behaviour::Answer => tokio::time::sleep(Duration::from_millis(1)).await,
        Behaviour::Stall(time) => {
            let _turn = server.turn.lock().await;
            if server.texts.lock().unwrap()[0] == text {
                tokio::time::sleep(*time).await;
            }
        }
        Behaviour::Together(barrier) => {
            barrier.wait().await;
        }
        Behaviour::Obey => match text.as_str() {
            "refuse" => return (StatusCode::TOO_MANY_REQUESTS, "come back\nlater").into_response(),
            "redirect" => return (StatusCode::FOUND, [("location", "/embed")]).into_response(),
            "cut" => panic!("the connection is cut"),
            "hang" => std::future::pending().await,
            "null" => return Json(json!([[null]])).into_response(),
            "less" => return Json(json!([])).into_response(),
            _ => {}
        },
        Behaviour::Work(time) => {
            tokio::time::sleep(*time).await;
            let logged = Logged { body: body.clone(), begin, end: Instant::now() };
            server.log.lock().unwrap().push(logged);
        }
    }
    server.in_flight.fetch_sub(1, Ordering::SeqCst);
    ([("x-compute-tokens", "7")], Json(json!(vec![[0.5]; inputs.len()]))).into_response()
}

/// Target of text-embeddings-inference's embeddings.
pub(crate) fn target(base: &str) -> Target {
    let timeout = Duration::from_secs(60);
    Target::new(TargetConfig { base: base.to_owned(), api: Api::Embed, path: None, authorization: None, timeout })
        .unwrap()
}
