//! Two models behind one app: the body decides which of them answers.

use crate::testing::{DIM, Gate, Setup, ask, embedding, get, post, reranker, with_second};
use prefold_core::testing::Fate;
use prefold_core::{Capabilities, Resource};
use serde_json::{Value, json};
use std::sync::Arc;

/// Width of the second model's vectors.
const OTHER_DIM: usize = 2 * DIM;

fn other_embedding() -> Setup {
    let embed = prefold_core::testing::embed(OTHER_DIM);
    Setup { device: "other", ..Setup::new(Capabilities::embedding(embed, 128)) }
}

#[tokio::test]
async fn the_model_in_the_body_chooses_the_engine() {
    let app = with_second(Setup::new(embedding()), other_embedding());
    for (model, dim, device) in [
        (json!("second"), OTHER_DIM, "other"),
        (json!("org/second"), OTHER_DIM, "other"),
        (json!("fake"), DIM, "cpu"),
        (json!("unknown"), DIM, "cpu"),
        (Value::Null, DIM, "cpu"),
    ] {
        let got = post(&app, "/v1/embeddings", json!({ "input": "a", "model": model })).await;
        assert_eq!(got.status, 200, "{}", got.body);
        let answer = got.json();
        assert_eq!(answer["data"][0]["embedding"].as_array().unwrap().len(), dim, "{model}");
        assert_eq!(got.headers["x-compute-type"], device, "{model}");
        assert_eq!(answer["model"], if model.is_null() { json!("fake") } else { model });
    }
    let without_a_name = ask(&app, "/embed", json!({ "inputs": "a" })).await;
    assert_eq!(without_a_name[0].as_array().unwrap().len(), DIM);
}

#[tokio::test]
async fn the_chosen_model_decides_what_is_possible() {
    let app = with_second(Setup::new(embedding()), Setup::new(reranker()));
    let body = |model: &str| json!({ "model": model, "query": "q", "documents": ["a"], "instruction": "i" });
    let path = "/v1/rerank";
    let cosine = post(&app, path, body("fake")).await;
    assert_eq!(cosine.headers["x-ignored-fields"], "instruction", "{}", cosine.body);
    let prompted = post(&app, path, body("second")).await;
    assert!(prompted.status == 200 && !prompted.headers.contains_key("x-ignored-fields"), "{}", prompted.body);
    let refused = post(&app, "/v1/embeddings", json!({ "model": "second", "input": "a" })).await;
    assert!(refused.status == 400 && refused.body.contains("is not possible"), "{}", refused.body);
}

#[tokio::test]
async fn every_model_is_listed_by_its_names() {
    let app = with_second(Setup::new(embedding()), other_embedding());
    let list = get(&app, "/v1/models").await.json();
    let listed = |key: &str| super::strings(&list["data"], key);
    assert_eq!(listed("id"), [r#""fake""#, r#""org/fake""#, r#""second""#, r#""org/second""#]);
    assert_eq!(listed("max_model_len"), ["256", "256", "128", "128"]);
    assert_eq!(get(&app, "/v1/models/org/second").await.json()["max_model_len"], 128);
    assert!(get(&app, "/v1/models/third").await.body.contains("fake, org/fake, second, org/second"));
}

#[tokio::test]
async fn models_share_the_quotas_of_requests_and_bytes() {
    let gate = Arc::new(Gate::default());
    let mut first = Setup { gate: Some(Arc::clone(&gate)), ..Setup::new(embedding()) };
    first.limits.max_concurrent_requests = 1;
    let app = with_second(first, other_embedding());
    let running = tokio::spawn({
        let app = app.clone();
        async move { post(&app, "/embed", json!({ "inputs": "a" })).await }
    });
    gate.reached().await;
    let refused = post(&app, "/v1/embeddings", json!({ "model": "second", "input": "a" })).await;
    assert!(refused.status == 429 && refused.body.contains("--max-concurrent-requests"), "{}", refused.body);
    gate.open();
    assert_eq!(running.await.unwrap().status, 200);
    for model in app.models.iter() {
        let buffered = model.engine.quotas().into_iter().find(|quota| quota.resource() == Resource::BufferedBytes);
        assert!(buffered.is_some_and(|buffered| Arc::ptr_eq(buffered, app.quotas.buffered())));
    }
}

#[tokio::test]
async fn the_server_is_as_healthy_as_its_least_healthy_model() {
    let app = with_second(Setup::new(embedding()), Setup { fate: Fate::Fail, ..other_embedding() });
    assert_eq!(get(&app, "/ready").await.status, 200);
    let failed = post(&app, "/v1/embeddings", json!({ "model": "second", "input": "a" })).await;
    assert_eq!(failed.status, 424, "{}", failed.body);
    for path in ["/health", "/ready"] {
        assert_eq!(get(&app, path).await.status, 503, "{path}");
    }
    assert_eq!(post(&app, "/embed", json!({ "inputs": "a" })).await.status, 200);
    app.models.shutdown().await;
    assert_eq!(post(&app, "/embed", json!({ "inputs": "a" })).await.status, 503);
}
