//! The layers over a fake backend: errors and their bodies, limits, keys, origins, headers.

use crate::state::api_keys::Keys;
use crate::testing::{Gate, Got, Setup, classifier, embedding, get, post, reranker, send};
use axum::body::Body;
use axum::http::{Request, header};
use metrics_exporter_prometheus::PrometheusBuilder;
use prefold_core::testing::Fate;
use prefold_core::{Account, Resource};
use serde_json::{Value, json};
use std::sync::Arc;

#[tokio::test]
async fn a_failing_backend_is_424_and_unhealthy() {
    for fate in [Fate::Fail, Fate::Panic] {
        let app = Setup { fate, ..Setup::new(embedding()) }.build();
        let got = post(&app, "/embed", json!({ "inputs": "a" })).await;
        assert_eq!(got.status, 424, "{}", got.body);
        assert_eq!(got.json()["error_type"], "Backend");
        let health = get(&app, "/health").await;
        assert_eq!((health.status.as_u16(), &health.json()["error_type"]), (503, &json!("Unhealthy")));
    }
}

#[tokio::test]
async fn answers_tell_what_they_cost() {
    let app = Setup::new(embedding()).build();
    let inputs = ["the same long beginning and then this", "the same long beginning and then that"];
    let got = post(&app, "/embed", json!({ "inputs": inputs })).await;
    assert_eq!(got.headers["x-compute-type"], "cpu");
    assert_eq!(got.number("x-compute-characters"), (inputs[0].len() + inputs[1].len()) as f64);
    let (tokens, compact) = (got.number("x-compute-tokens"), got.number("x-compute-compact-tokens"));
    assert!(compact < 0.8 * tokens);
    assert!((got.number("x-compaction-ratio") - compact / tokens).abs() < 1e-4);
    for name in ["x-total-time", "x-tokenization-time", "x-queue-time", "x-planning-time", "x-inference-time"] {
        assert!(got.number(name) <= got.number("x-compute-time"), "{name}");
    }
}

/// Checks status, TEI's `error_type`, and words of the message.
fn check_error(got: &Got, status: u16, error_type: &str, words: &str) {
    assert_eq!(got.status, status, "{}", got.body);
    let body = got.json();
    let (message, kind) = match &body["error"] {
        Value::String(message) => (message.clone(), &body["error_type"]),
        nested => (nested["message"].as_str().unwrap().to_owned(), &body["type"]),
    };
    assert_eq!(kind, error_type);
    assert!(message.contains(words), "{message}");
}

#[tokio::test]
async fn bad_requests_are_told_what_is_wrong() {
    let app = Setup::new(embedding()).build();
    for (path, body, status, error_type, words) in [
        ("/embed", "{\"inputs\": \"a\"", 400, "Validation", "line 1 column 14"),
        ("/v1/embeddings", "", 400, "Validation", "not valid JSON"),
        ("/embed", "{}", 422, "Validation", "`inputs`: missing field"),
        (
            "/embed",
            r#"{"user":"u","text":"a"}"#,
            422,
            "Validation",
            "; the body has `text`, which this route does not read",
        ),
        ("/embed", "{\"inputs\": {}}", 422, "Validation", "`inputs.text`: missing field"),
        ("/embed", "{\"inputs\": [\"a\", true]}", 422, "Validation", "`inputs[1]`"),
        (
            "/embed",
            "{\"inputs\": \"a\", \"normalize\": \"no\"}",
            422,
            "Validation",
            "`normalize`: invalid type: string",
        ),
        ("/embed", "{\"inputs\": \"a\", \"dimensions\": -1}", 422, "Validation", "`dimensions`: invalid value"),
        ("/embed", "{\"inputs\": \"a\", \"dimensions\": 9}", 422, "Validation", "from 1 to 8"),
        ("/embed", "{\"inputs\": \"a\", \"truncation_direction\": \"up\"}", 422, "Validation", "unknown value `up`"),
        ("/embed", "{\"inputs\": \"a\", \"prompt_name\": \"nix\"}", 422, "Validation", "nix"),
        ("/embed", "{\"inputs\": []}", 400, "Empty", "`inputs`"),
        ("/embed", "{\"inputs\": [[]]}", 400, "Empty", "`inputs`"),
        ("/embed", "{\"inputs\": [5000]}", 422, "Validation", "5000"),
        ("/v1/embeddings", "{\"input\": []}", 400, "Empty", "`input`"),
        ("/embed", "{\"inputs\": [\"a\", \"\"]}", 400, "Empty", "`inputs` item 1 is an empty text"),
        ("/v1/embeddings", "{\"input\": \"\"}", 400, "Empty", "`input`"),
        (
            "/v1/embeddings",
            "{\"input\": \"a\", \"encoding_format\": \"hex\"}",
            400,
            "Validation",
            "one of `float`, `base64`, `bytes`",
        ),
        ("/predict", "{\"inputs\": \"a\"}", 422, "Validation", "classification is not possible"),
    ] {
        check_error(&post(&app, path, body).await, status, error_type, words);
    }
    let many = json!({ "inputs": vec!["a"; 2049] });
    check_error(&post(&app, "/embed", &many).await, 413, "Validation", "2049 items, the limit is 2048");
    let many = json!({ "input": vec!["a"; 2049] });
    check_error(&post(&app, "/v1/embeddings", &many).await, 400, "Validation", "2049 items, the limit is 2048");
    let long = json!({ "input": "a ".repeat(300), "truncate": false });
    let long = post(&app, "/v1/embeddings", &long).await;
    check_error(&long, 400, "Validation", "context length is 256");
    assert_eq!(long.json()["error"]["code"], "context_length_exceeded");
    check_error(&get(&app, "/nothing").await, 404, "NotFound", "/nothing");
    check_error(&get(&app, "/embed").await, 405, "MethodNotAllowed", "/embed");
    check_error(&get(&app, "/v1/embeddings").await, 405, "MethodNotAllowed", "/v1/embeddings");

    let nested = post(&app, "/v1/embeddings", json!({ "input": [true] })).await.json();
    assert_eq!(nested["error"]["param"], "input[0]");
    let missing = post(&app, "/v1/embeddings", json!({ "model": "fake" })).await.json();
    assert_eq!(missing["error"]["param"], "input");
    assert_eq!((&nested["error"]["type"], &nested["code"]), (&json!("invalid_request_error"), &json!(400)));

    for (capabilities, path, body) in [
        (reranker(), "/embed", json!({ "inputs": "a" })),
        (reranker(), "/similarity", json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] } })),
        (classifier(&["a", "b"]), "/rerank", json!({ "query": "a", "texts": ["b"] })),
        (classifier(&["a", "b"]), "/v1/embeddings", json!({ "input": "b" })),
    ] {
        let status = if path.starts_with("/v1/") { 400 } else { 422 };
        check_error(
            &post(&Setup::new(capabilities).build(), path, body).await,
            status,
            "Validation",
            "is not possible",
        );
    }
}

#[tokio::test]
async fn too_large_a_body_is_413_as_json() {
    let app = Setup::new(embedding()).build();
    let large = json!({ "inputs": "a".repeat(100_000) }).to_string();
    check_error(&post(&app, "/embed", &large).await, 413, "Validation", "--payload-limit");
    let chunks = large.as_bytes().chunks(1000).map(|chunk| Ok::<_, std::io::Error>(chunk.to_vec()));
    let stream = Body::from_stream(futures::stream::iter(chunks.collect::<Vec<_>>()));
    check_error(&send(&app, Request::post("/embed").body(stream).unwrap()).await, 413, "Validation", "100000 bytes");
}

#[tokio::test]
async fn overload_is_429_and_says_when_to_come_back() {
    let gate = Arc::new(Gate::default());
    let mut setup = Setup { gate: Some(Arc::clone(&gate)), ..Setup::new(embedding()) };
    setup.limits.max_concurrent_requests = 1;
    let app = setup.build();
    let first = tokio::spawn({
        let app = app.clone();
        async move { post(&app, "/embed", json!({ "inputs": "a" })).await }
    });
    gate.reached().await;
    let refused = post(&app, "/v1/embeddings", json!({ "input": "a" })).await;
    check_error(&refused, 429, "Overloaded", "--max-concurrent-requests");
    assert_eq!(refused.headers[header::RETRY_AFTER], "1");
    assert_eq!(refused.json()["error"]["code"], "rate_limit_exceeded");
    gate.open();
    assert_eq!(first.await.unwrap().status, 200);
    assert_eq!(post(&app, "/embed", json!({ "inputs": "a" })).await.status, 200);
}

#[tokio::test]
async fn a_stopped_engine_is_503() {
    let app = Setup::new(embedding()).build();
    app.models.shutdown().await;
    check_error(&post(&app, "/embed", json!({ "inputs": "a" })).await, 503, "Unhealthy", "shutting down");
    check_error(&get(&app, "/health").await, 503, "Unhealthy", "shutting down");
}

#[tokio::test]
async fn the_key_guards_all_but_what_monitors_ask() {
    let mut setup = Setup::new(embedding());
    setup.http.api_keys = Keys::new(vec!["hunter2".parse().unwrap()], None).unwrap();
    let app = setup.build();
    let with_key = |key: &'static str, path: &'static str| {
        let body = Body::from(r#"{"inputs":"a"}"#);
        let request = Request::post(path).header(header::AUTHORIZATION, key).body(body).unwrap();
        let app = &app;
        async move { send(app, request).await }
    };
    assert_eq!(with_key("Bearer hunter2", "/embed").await.status, 200);
    assert_eq!(with_key("bearer hunter2", "/").await.status, 200);
    for key in ["Bearer hunter", "Bearer hunter22", "hunter2", "Basic hunter2", "Bearer "] {
        let got = with_key(key, "/embed").await;
        check_error(&got, 401, "Unauthorized", "API key");
        assert_eq!(got.headers[header::WWW_AUTHENTICATE], "Bearer");
    }
    check_error(&get(&app, "/info").await, 401, "Unauthorized", "API key");
    let nested = get(&app, "/v1/models").await;
    assert_eq!(nested.json()["error"]["code"], "invalid_api_key");
    assert!(!nested.body.contains("hunter2"));
    for path in ["/health", "/ping", "/metrics", "/"] {
        assert_eq!(get(&app, path).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_key_that_holds_all_leaves_room_for_others() {
    let mut setup = Setup::new(embedding());
    setup.http.api_keys = Keys::new(vec!["greedy".parse().unwrap(), "other".parse().unwrap()], None).unwrap();
    setup.limits.max_buffered_bytes = 200_000;
    let app = setup.build();
    let greedy = Account(app.http.api_keys.owner_of(b"greedy").unwrap().number);
    let ask = |key: &'static str| {
        let body = Body::from(r#"{"inputs":"a"}"#);
        let request = Request::post("/embed").header(header::AUTHORIZATION, key).body(body).unwrap();
        let app = &app;
        async move { send(app, request).await }
    };
    let all = app.quotas.buffered().share_of(greedy);
    all.force(1_000_000);
    check_error(&ask("Bearer greedy").await, 429, "Overloaded", "--max-buffered-bytes");
    assert_eq!(ask("Bearer other").await.status, 200);
    drop(all);
    assert_eq!(ask("Bearer greedy").await.status, 200);
    assert_eq!(app.quotas.buffered().held(), 0);
}

#[tokio::test]
async fn every_refusal_counts_once_by_its_quota_wherever_it_happens() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let app = Setup::new(embedding()).build();
    let small = json!({ "inputs": "a" }).to_string();
    let ids = json!({ "ids": [1, 2] }).to_string();
    for (label, path, body) in [
        ("concurrent_requests", "/embed", &small),
        ("queued_inputs", "/embed", &small),
        ("queued_tokens", "/embed", &small),
        ("buffered_bytes", "/embed", &small),
        ("tokenization_bytes", "/decode", &ids),
    ] {
        let counted = |name: &str| counter(&recorder.handle().render(), &format!("{name}{{quota=\"{label}\"}}"));
        let quota =
            app.models.default().engine.quotas().into_iter().find(|quota| quota.resource().label() == label).unwrap();
        let others = quota.share();
        others.force(quota.limit());
        let before = counted("prefold_refused_requests_total");
        let got = post(&app, path, body).await;
        assert_eq!(got.status, 429, "{path}: {}", got.body);
        assert_eq!(counted("prefold_refused_requests_total"), before + 1.0, "{label}");
        app.metrics_text();
        assert_eq!(counted("prefold_quota_held"), quota.limit() as f64, "{label}");
        assert_eq!(counted("prefold_quota_limit"), quota.limit() as f64, "{label}");
        assert_eq!(counted("prefold_quota_keys"), 1.0, "{label}");
    }
    let text = recorder.handle().render();
    let refusals = text.lines().filter(|line| line.starts_with("prefold_refused_requests_total{"));
    assert_eq!(refusals.filter(|line| line.ends_with(" 1")).count(), Resource::ALL.len(), "{text}");
    assert_eq!(counter(&text, "prefold_http_requests_total{route=\"/embed\",status=\"429\"}"), 4.0);
    assert_eq!(app.models.default().engine.quotas().map(|quota| quota.resource()), Resource::ALL);
    assert_eq!(app.models.default().engine.quotas().map(|quota| quota.held()), [0; 5]);
}

/// Value of a series in the text of `/metrics`, 0 if it is absent.
fn counter(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0.0, |value| value.trim().parse().unwrap())
}

#[tokio::test]
async fn a_key_is_told_its_fair_part() {
    let mut setup = Setup::new(embedding());
    setup.http.api_keys = Keys::new(vec!["one".parse().unwrap(), "two".parse().unwrap()], None).unwrap();
    setup.limits.max_buffered_bytes = 200_000;
    let app = setup.build();
    let share_of =
        |key: &str| app.quotas.buffered().share_of(Account(app.http.api_keys.owner_of(key.as_bytes()).unwrap().number));
    let ask = || {
        let request = Request::post("/embed").header(header::AUTHORIZATION, "Bearer one");
        send(&app, request.body(Body::from(r#"{"inputs":"a"}"#)).unwrap())
    };
    let own = share_of("one");
    own.force(300_000);
    check_error(&ask().await, 429, "Overloaded", "(limit 200000); raise --max-buffered-bytes");
    let other = share_of("two");
    other.force(1);
    let words =
        "(limit 200000; the fair part of this API key is 100000 while 2 keys hold some, and its requests hold 300000)";
    check_error(&ask().await, 429, "Overloaded", words);
    own.shrink_to(99_999);
    assert_eq!(ask().await.status, 200, "below its part");
}

#[tokio::test]
async fn browsers_may_send_a_key() {
    let preflight = |origin: &str| {
        Request::options("/v1/embeddings")
            .header(header::ORIGIN, origin)
            .header(header::ACCESS_CONTROL_REQUEST_METHOD, "POST")
            .header(header::ACCESS_CONTROL_REQUEST_HEADERS, "authorization,content-type,x-stainless-os")
            .body(Body::empty())
            .unwrap()
    };
    let app = Setup::new(embedding()).build();
    let got = send(&app, preflight("https://a.example")).await;
    assert_eq!(got.status, 200);
    assert_eq!(got.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "*");
    let allowed = got.headers[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap();
    assert!(["authorization", "content-type", "x-stainless-os"].iter().all(|name| allowed.contains(name)), "{allowed}");

    let mut setup = Setup::new(embedding());
    setup.http.allowed_origins = Some(vec!["https://a.example".parse().unwrap()]);
    let app = setup.build();
    let got = send(&app, preflight("https://a.example")).await;
    assert_eq!(got.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://a.example");
    let got = send(&app, preflight("https://b.example")).await;
    assert!(!got.headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN));
    // Errors carry the headers too.
    let request = Request::post("/embed").header(header::ORIGIN, "https://a.example").body(Body::from("{")).unwrap();
    let got = send(&app, request).await;
    assert_eq!(got.status, 400);
    assert_eq!(got.headers[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://a.example");
}

#[tokio::test]
async fn a_handlers_panic_is_500_as_json() {
    use axum::middleware::from_fn_with_state;
    use tower::ServiceExt;
    let app = Setup::new(embedding()).build();
    let broken = || async {
        assert!(std::hint::black_box(false), "a bug");
    };
    let router = axum::Router::new()
        .route("/v1/broken", axum::routing::get(broken))
        .layer(super::catch_panic::layer())
        .layer(from_fn_with_state(app.clone(), super::observe::observe));
    let response = router.oneshot(Request::get("/v1/broken").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 500);
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["type"], "Internal");
    assert!(!body.to_string().contains("a bug"));
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let gate = Arc::new(Gate::default());
    let mut setup = Setup { gate: Some(Arc::clone(&gate)), ..Setup::new(embedding()) };
    setup.limits.max_concurrent_requests = 1;
    let app = setup.build();
    let leaving = tokio::spawn({
        let app = app.clone();
        async move { post(&app, "/embed", json!({ "inputs": "a" })).await }
    });
    gate.reached().await;
    assert_eq!(app.models.default().engine.quotas()[0].held(), 1);
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    assert_eq!(app.models.default().engine.quotas()[0].held(), 0);
    // Sent before the gate opens: if the only slot were still taken, the status would be 429.
    let (next, ()) = tokio::join!(post(&app, "/embed", json!({ "inputs": "b" })), async { gate.open() });
    assert_eq!(next.status, 200);
    let metrics = get(&app, "/metrics").await.body;
    assert!(metrics.contains(r#"prefold_http_requests_total{route="/embed",status="dropped"}"#), "{metrics}");
}

#[tokio::test]
async fn every_response_has_the_id_of_its_request() {
    let app = Setup::new(embedding()).build();
    let ask = |id: &'static str| {
        let request = Request::post("/embed").header("x-request-id", id).body(Body::from(r#"{"inputs":"a"}"#)).unwrap();
        let app = app.clone();
        async move { send(&app, request).await.headers["x-request-id"].to_str().unwrap().to_owned() }
    };
    assert_eq!(ask("of-the-client 1").await, "of-the-client 1");
    let long: &'static str = "x".repeat(129).leak();
    let made = [ask("").await, ask(long).await];
    assert!(made.iter().all(|id| id.len() == 16) && made[0] != made[1], "{made:?}");
    let failed = post(&app, "/embed", "{").await;
    assert_eq!(failed.headers["x-request-id"].len(), 16);
}

/// vLLM's clients find their own id in the body, after the prefix of the route: the header's first, then the field's.
#[tokio::test]
async fn the_id_in_a_body_is_that_of_its_request() {
    let (embedder, reranker) = (Setup::new(embedding()).build(), Setup::new(reranker()).build());
    let (input, pair) = (json!({ "input": "a" }), json!({ "query": "a", "documents": ["b"] }));
    for (app, route, body, prefix) in [
        (&embedder, "/v1/embeddings", &input, "embd"),
        (&embedder, "/pooling", &input, "pooling"),
        (&reranker, "/v1/score", &json!({ "queries": "a", "documents": ["b"] }), "score"),
        (&reranker, "/rerank", &pair, "rerank"),
        (&reranker, "/v2/rerank", &pair, "rerank"),
    ] {
        let long = "x".repeat(129);
        for (head, field, expected) in [
            (Some("head"), None, Some("head")),
            (Some("head"), Some("field"), Some("head")),
            (None, Some("field"), Some("field")),
            (None, Some("a\nb"), None),
            (None, Some(&*long), None),
            (None, None, None),
        ] {
            let mut body = body.clone();
            if let Some(field) = field {
                body["request_id"] = field.into();
            }
            let mut request = Request::post(route);
            if let Some(head) = head {
                request = request.header("x-request-id", head);
            }
            let answer = send(app, request.body(Body::from(body.to_string())).unwrap()).await;
            let id = answer.headers["x-request-id"].to_str().unwrap().to_owned();
            assert_eq!(answer.json()["id"], format!("{prefix}-{id}"), "{route}");
            assert!(expected.map_or(id.len() == 16, |expected| id == expected), "{route}: {id}");
        }
    }
}
