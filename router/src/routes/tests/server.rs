//! Tokenization, `/info`, health, docs and metrics.

use crate::state::api_keys::Keys;
use crate::testing::{DIM, Gate, Setup, adapted, ask, classifier, embedding, get, post, reranker, send};
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use prefold_core::Capabilities;
use prefold_core::testing::Fate;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

#[tokio::test]
async fn tokens_go_both_ways() {
    let app = Setup::new(embedding()).build();
    let tokens = ask(&app, "/tokenize", json!({ "inputs": ["red fox", "a"] })).await;
    assert_eq!(tokens.as_array().unwrap().len(), 2);
    let last = tokens[0].as_array().unwrap().last().unwrap();
    assert_eq!((&last["special"], &last["start"], &last["stop"]), (&json!(true), &Value::Null, &Value::Null));
    assert_eq!((&tokens[0][0]["special"], &tokens[0][0]["start"]), (&json!(false), &json!(0)));
    let plain = ask(&app, "/tokenize", json!({ "inputs": "red fox", "add_special_tokens": false })).await;
    assert_eq!(plain[0].as_array().unwrap().len() + 1, tokens[0].as_array().unwrap().len());

    let ids: Vec<u64> = tokens[0].as_array().unwrap().iter().map(|token| token["id"].as_u64().unwrap()).collect();
    assert_eq!(ask(&app, "/decode", json!({ "ids": ids })).await, json!(["red fox"]));
    let kept = ask(&app, "/decode", json!({ "ids": [ids, ids], "skip_special_tokens": false })).await;
    assert_eq!(kept.as_array().unwrap().len(), 2);
    assert!(kept[0].as_str().unwrap().len() > "red fox".len());
    assert_eq!(post(&app, "/decode", json!({ "ids": "red" })).await.status, 422);
    assert_eq!(post(&app, "/tokenize", json!({ "inputs": [1] })).await.status, 422);
}

#[tokio::test]
async fn those_who_read_info_share_its_text() {
    let app = Setup::new(embedding()).build();
    let text = async || {
        let request = Request::get("/info").body(Body::empty()).unwrap();
        let response = crate::server::routing::router(app.clone()).oneshot(request).await.unwrap();
        to_bytes(response.into_body(), usize::MAX).await.unwrap()
    };
    assert_eq!(text().await.as_ptr(), text().await.as_ptr());
}

#[tokio::test]
async fn info_says_what_is_served() {
    let app = Setup::new(embedding()).build();
    let info = get(&app, "/info").await.json();
    for (key, value) in [
        ("model_id", json!("org/fake")),
        ("model_sha", Value::Null),
        ("model_dtype", json!("float32")),
        ("served_model_name", json!("fake")),
        ("model_type", json!({ "embedding": { "pooling": "last_token" } })),
        ("max_concurrent_requests", json!(64)),
        ("max_input_length", json!(256)),
        ("max_batch_tokens", json!(4096)),
        ("max_batch_requests", Value::Null),
        ("max_client_batch_size", json!(32)),
        ("auto_truncate", json!(true)),
        ("tokenization_workers", json!(1)),
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("sha", json!(option_env!("PREFOLD_COMMIT"))),
        ("dtype", json!("float32")),
        ("device", json!("cpu")),
        ("longest_input_bytes", json!(256 * 1000 + 100 * 10)),
        ("tasks", json!([])),
        ("max_input_lengths", json!({})),
        ("answers", json!(["embed", "rerank"])),
        ("attention", json!("ragged")),
        ("dimensions", json!(DIM)),
        ("max_dimensions", json!(DIM)),
        ("rerank_scores", json!("cosine_similarity")),
        ("prompts", json!(["query"])),
    ] {
        assert_eq!(info.get(key), Some(&value), "{key}");
    }
    assert!((info["radix_mlp_threshold"].as_f64().unwrap() - 0.95).abs() < 1e-6);

    let both = Capabilities { classify: classifier(&["a", "b"]).classify, ..embedding() };
    let models = [
        (both, json!({ "embedding": { "pooling": "last_token" } }), json!("cosine_similarity")),
        (reranker(), json!({ "reranker": { "id2label": {}, "label2id": {} } }), json!("probability")),
        (
            classifier(&["score"]),
            json!({ "reranker": { "id2label": { "0": "score" }, "label2id": { "score": 0 } } }),
            json!("probability"),
        ),
        (
            classifier(&["a", "b"]),
            json!({ "classifier": { "id2label": { "0": "a", "1": "b" }, "label2id": { "a": 0, "b": 1 } } }),
            Value::Null,
        ),
    ];
    for (capabilities, model_type, scores) in models {
        let info = get(&Setup::new(capabilities).build(), "/info").await.json();
        assert_eq!((&info["model_type"], &info["rerank_scores"]), (&model_type, &scores));
    }
}

#[tokio::test]
async fn models_health_and_metrics() {
    let app = Setup::new(embedding()).build();
    let models = get(&app, "/v1/models").await.json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("fake")));
    for path in ["/health", "/ping"] {
        let got = get(&app, path).await;
        assert_eq!((got.status.as_u16(), &got.json()["status"]), (200, &json!("ok")), "{path}");
        assert!(got.json()["unix"].as_f64().is_some_and(|unix| unix > 1e9), "{path}: {}", got.body);
    }
    assert_eq!(post(&app, "/ping", "").await.status, 200);
    for path in ["/version", "/api/version"] {
        assert_eq!(get(&app, path).await.json(), json!({ "version": env!("CARGO_PKG_VERSION") }));
    }
    let early = get(&app, "/metrics").await;
    assert!(early.headers[header::CONTENT_TYPE].to_str().unwrap().starts_with("text/plain"));
    assert!(early.body.contains("# TYPE te_request_count counter"), "{}", early.body);
    assert!(early.body.contains("te_queue_size"));

    ask(&app, "/embed", json!({ "inputs": "red fox" })).await;
    post(&app, "/embed", "{").await;
    post(&app, "/no/such/route", "").await;
    let metrics = get(&app, "/metrics").await.body;
    for line in [
        r#"prefold_http_requests_total{route="/embed",status="200"}"#,
        r#"prefold_http_requests_total{route="/embed",status="400"}"#,
        r#"prefold_http_requests_total{route="unmatched",status="404"}"#,
        r#"prefold_http_request_duration_bucket{route="/embed",le="#,
        r#"te_request_success{method="embed"}"#,
        "te_request_duration_bucket{le=",
        "te_batch_next_tokens_bucket{le=",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}

#[tokio::test]
async fn readiness_has_a_reason() {
    let app = Setup::new(embedding()).build();
    let ready = get(&app, "/ready").await;
    assert_eq!((ready.status.as_u16(), ready.json()), (200, json!({ "status": "ready", "model": "fake" })));

    let failing = Setup { fate: Fate::Fail, ..Setup::new(embedding()) }.build();
    assert_eq!(get(&failing, "/ready").await.status, 200, "nothing has failed yet");
    post(&failing, "/embed", json!({ "inputs": "a" })).await;
    let got = get(&failing, "/ready").await;
    assert!(got.status == 503 && got.body.contains("told to fail"), "{}", got.body);

    let gate = Arc::new(Gate::default());
    let mut stuck = Setup { gate: Some(Arc::clone(&gate)), ..Setup::new(embedding()) };
    stuck.http.stall_timeout = Duration::from_millis(500);
    let stuck = stuck.build();
    let request = tokio::spawn({
        let app = stuck.clone();
        async move { post(&app, "/embed", json!({ "inputs": "a" })).await }
    });
    gate.reached().await;
    while get(&stuck, "/ready").await.status == 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let got = get(&stuck, "/ready").await;
    assert!(got.body.contains("a forward pass has not advanced"), "{}", got.body);
    assert_eq!(get(&stuck, "/health").await.status, 200, "it may go on");
    while get(&stuck, "/health").await.status == 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.open();
    assert_eq!(request.await.unwrap().status, 200);
    assert_eq!(get(&stuck, "/ready").await.status, 200);
    stuck.models.shutdown().await;
    let got = get(&stuck, "/ready").await;
    assert!(got.status == 503 && got.body.contains("shutting down"), "{}", got.body);
}

#[tokio::test]
async fn a_probe_that_hangs_is_given_up() {
    let gate = Arc::new(Gate::default());
    gate.open();
    let app = Setup { gate: Some(Arc::clone(&gate)), fate: Fate::Fail, ..Setup::new(embedding()) }.build();
    post(&app, "/embed", json!({ "inputs": "a" })).await;
    gate.close();
    tokio::time::pause();
    for (path, status) in [("/health", 200), ("/ready", 503)] {
        let begun = tokio::time::Instant::now();
        let got = get(&app, path).await;
        assert_eq!(got.status, status, "{path}: {}", got.body);
        assert_eq!(begun.elapsed().as_secs(), 5, "{path}");
    }
    gate.open();
}

#[tokio::test]
async fn docs_are_served() {
    let app = Setup::new(embedding()).build();
    let page = get(&app, "/docs/").await;
    assert!(page.status == 200 && page.body.contains("swagger-ui"), "{}", page.body);
    assert_eq!(get(&app, "/docs").await.status, 303);
    let described = get(&app, "/api-doc/openapi.json").await.json();
    assert_eq!(described["openapi"], "3.1.0");
    assert!(described["paths"]["/v2/rerank"]["post"].is_object());
}

#[tokio::test]
async fn docs_and_metrics_may_be_protected() {
    let keys = || Keys::new(vec!["k".parse().unwrap()], None).unwrap();
    let paths = ["/docs/", "/api-doc/openapi.json", "/metrics"];
    let mut open = Setup::new(embedding());
    open.http.api_keys = keys();
    let open = open.build();
    let mut closed = Setup::new(embedding());
    closed.http.api_keys = keys();
    (closed.http.protect_docs, closed.http.protect_metrics) = (true, true);
    let closed = closed.build();
    for path in paths {
        assert_eq!(get(&open, path).await.status, 200, "{path}");
        assert_eq!(get(&closed, path).await.status, 401, "{path}");
        let with_key = Request::get(path).header(header::AUTHORIZATION, "Bearer k").body(Body::empty()).unwrap();
        assert_eq!(send(&closed, with_key).await.status, 200, "{path}");
    }
    for path in ["/health", "/ready", "/ping"] {
        assert_eq!(get(&closed, path).await.status, 200, "{path}");
    }
    let mut elsewhere = Setup::new(embedding());
    elsewhere.http.metrics_elsewhere = true;
    let elsewhere = elsewhere.build();
    let here = get(&elsewhere, "/metrics").await;
    assert!(here.status == 404 && here.body.contains("`/metrics` on this port"), "{}", here.body);
    let own = crate::server::routing::metrics_router(elsewhere);
    let got = own.oneshot(Request::get("/metrics").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(got.status(), 200);
}

#[tokio::test]
async fn a_value_of_any_length_is_cut_in_an_error() {
    let app = Setup::new(adapted()).build();
    let long = "y".repeat(20_000);
    let embed = |fields: Value| {
        let mut body = json!({ "inputs": "a", "input": "a" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        Body::from(body.to_string())
    };
    let with = |name: &str, value: String| {
        Request::post("/embed").header(name, value).body(embed(json!({ "inputs": "a" }))).unwrap()
    };
    let posted = |fields: Value| Request::post("/v1/embeddings").body(embed(fields)).unwrap();
    let open = |method: &str, path: &str| Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
    let mut uncut = Vec::new();
    for request in [
        posted(json!({ "encoding_format": long })),
        posted(json!({ "prompt_name": long })),
        posted(json!({ "task": long })),
        with("accept", format!("application/octet-stream; dtype={long}")),
        with("content-encoding", long.clone()),
        with("x-vllm-priority", long.clone()),
        open("GET", &format!("/v1/models/{long}")),
        open("GET", &format!("/{long}")),
        open(&long, "/embed"),
        open("DELETE", &format!("/v1/models/{long}")),
    ] {
        let is_shown = request.method().as_str() != long;
        let got = send(&app, request).await;
        assert!(got.status.is_client_error() && got.body.contains("yyy") == is_shown, "{}: {}", got.status, got.body);
        if got.body.contains(&long[..201]) {
            uncut.push(got.body.split("yyy").next().unwrap_or_default().to_owned());
        }
    }
    assert!(uncut.is_empty(), "{uncut:?}");
}
