//! The embedding routes of text-embeddings-inference.

use super::floats;
use crate::testing::{DIM, Setup, ask, embedding, post};
use serde_json::json;

fn norm(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

#[tokio::test]
async fn embed_answers_a_list_of_unit_vectors() {
    let app = Setup::new(embedding()).build();
    let one = ask(&app, "/embed", json!({ "inputs": "red fox" })).await;
    let two = ask(&app, "/embed", json!({ "inputs": ["red fox", "blue whale"], "unknown": 1 })).await;
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert_eq!(one[0], two[0]);
    assert_ne!(two[0], two[1]);
    assert_eq!(floats(&one[0]).len(), DIM);
    assert!((norm(&floats(&one[0])) - 1.0).abs() < 1e-6);
    assert_eq!(ask(&app, "/", json!({ "inputs": "red fox" })).await, one);
}

#[tokio::test]
async fn embed_options_reach_the_engine() {
    let app = Setup::new(embedding()).build();
    let plain = ask(&app, "/embed", json!({ "inputs": "red fox" })).await;
    let raw = ask(&app, "/embed", json!({ "inputs": "red fox", "normalize": false })).await;
    assert!(norm(&floats(&raw[0])) > 1.1);
    let short = ask(&app, "/embed", json!({ "inputs": "red fox", "dimensions": 3 })).await;
    assert_eq!(floats(&short[0]).len(), 3);
    assert!((norm(&floats(&short[0])) - 1.0).abs() < 1e-6);
    let prompted = ask(&app, "/embed", json!({ "inputs": "red fox", "prompt_name": "query" })).await;
    assert_eq!(prompted, ask(&app, "/embed", json!({ "inputs": "Query: red fox" })).await);
    assert_ne!(prompted, plain);

    let long = "one two three four five six seven eight nine ten ".repeat(40);
    let cut = |direction: &'static str| {
        let body = json!({ "inputs": long, "truncate": true, "truncation_direction": direction });
        let app = &app;
        async move { ask(app, "/embed", body).await }
    };
    assert_eq!(cut("left").await, cut("Left").await);
    assert_ne!(cut("left").await, cut("right").await);
    assert_eq!(cut("Right").await, ask(&app, "/embed", json!({ "inputs": long })).await);
    let refused = post(&app, "/embed", json!({ "inputs": long, "truncate": false })).await;
    assert_eq!(refused.status, 413);
    assert!(refused.json()["error"].as_str().unwrap().contains("256"), "{}", refused.body);
}

#[tokio::test]
async fn inputs_come_in_every_shape() {
    let app = Setup::new(embedding()).build();
    let ids: Vec<u32> = ask(&app, "/tokenize", json!({ "inputs": "red fox" })).await[0]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| token["id"].as_u64().unwrap() as u32)
        .collect();
    let by_text = ask(&app, "/embed", json!({ "inputs": "red fox" })).await;
    assert_eq!(ask(&app, "/embed", json!({ "inputs": ids })).await, by_text);
    let mixed = ask(&app, "/embed", json!({ "inputs": [ids, "red fox"] })).await;
    assert_eq!(mixed, json!([by_text[0], by_text[0]]));
    let openai = ask(&app, "/v1/embeddings", json!({ "input": [ids, [1, 2]] })).await;
    assert_eq!(openai["data"][0]["embedding"], by_text[0]);
}

#[tokio::test]
async fn embed_all_answers_a_vector_for_each_token() {
    let app = Setup::new(embedding()).build();
    let answer = ask(&app, "/embed_all", json!({ "inputs": [[1, 2, 3], [4]] })).await;
    assert_eq!(answer[0].as_array().unwrap().len(), 3);
    assert_eq!(answer[1].as_array().unwrap().len(), 1);
    assert_eq!(floats(&answer[1][0]).len(), DIM);
}

#[tokio::test]
async fn similarity_is_the_cosine() {
    let app = Setup::new(embedding()).build();
    let inputs = json!({ "source_sentence": "red fox", "sentences": ["blue whale", "red fox"] });
    let answer = floats(&ask(&app, "/similarity", json!({ "inputs": inputs })).await);
    let vectors = ask(&app, "/embed", json!({ "inputs": ["red fox", "blue whale"] })).await;
    let cosine: f32 = floats(&vectors[0]).iter().zip(floats(&vectors[1])).map(|(a, b)| a * b).sum();
    assert!((answer[0] - cosine).abs() < 1e-6 && (answer[1] - 1.0).abs() < 1e-6);
    let empty = json!({ "inputs": { "source_sentence": "red fox", "sentences": [] }, "parameters": null });
    assert_eq!(post(&app, "/similarity", empty).await.status, 400);
}

#[tokio::test]
async fn the_root_of_an_embedding_model_compares_too() {
    let app = Setup::new(embedding()).build();
    let body = json!({ "inputs": { "source_sentence": "red fox", "sentences": ["red fox", "b"] } });
    assert_eq!(ask(&app, "/", body.clone()).await, ask(&app, "/similarity", body).await);
    for (body, status) in [("{\"inputs\": {}}", 422), ("{\"inputs\": 5}", 422), ("{", 400), ("{}", 422)] {
        assert_eq!(post(&app, "/", body).await.status, status, "{body}");
    }
}

#[tokio::test]
async fn a_large_request_is_split() {
    let mut setup = Setup::new(embedding());
    setup.engine.max_client_batch_size = 4;
    let app = setup.build();
    let inputs: Vec<Vec<u32>> = (1..=10).map(|id| vec![id, id + 1]).collect();
    let all = ask(&app, "/embed", json!({ "inputs": inputs })).await;
    assert_eq!(all.as_array().unwrap().len(), 10);
    for (vector, ids) in all.as_array().unwrap().iter().zip(&inputs) {
        assert_eq!(vector, &ask(&app, "/embed", json!({ "inputs": [ids] })).await[0]);
    }
    let documents: Vec<String> = (0..9).map(|i| format!("document {i}")).collect();
    let ranked = ask(&app, "/v1/rerank", json!({ "query": "q", "documents": documents })).await;
    assert_eq!(ranked["results"].as_array().unwrap().len(), 9);
    let far_too_many = post(&app, "/embed", json!({ "inputs": vec![[1]; 4 * 64 + 1] })).await;
    assert!(far_too_many.status == 413 && far_too_many.body.contains("limit is 256"), "{}", far_too_many.body);
}
