//! Infinity's forms: `/models` with figures, and `/classify` with `raw_scores`.

use super::{floats, strings};
use crate::testing::{Setup, ask, classifier, embedding, get};
use prefold_core::sigmoid;
use serde_json::json;

#[tokio::test]
async fn models_have_figures_and_infinitys_owner() {
    let app = Setup::new(embedding()).build();
    let list = get(&app, "/models").await.json();
    assert_eq!(strings(&list["data"], "id"), [r#""fake""#, r#""org/fake""#]);
    let model = &list["data"][0];
    assert_eq!(
        (&model["object"], &model["owned_by"], &model["max_model_len"]),
        (&json!("model"), &json!("infinity"), &json!(256))
    );
    assert_eq!(model["capabilities"], json!(["embed", "rerank"]));
    let stats = json!({ "queue_fraction": 0.0, "queue_absolute": 0, "results_pending": 0, "batch_size": model["stats"]["batch_size"] });
    assert!(model["stats"] == stats && stats["batch_size"].is_u64(), "{model}");
    assert_eq!(get(&app, "/v1/models").await.json()["data"][0]["owned_by"], "prefold");
}

#[tokio::test]
async fn classes_as_infinity_gives_them() {
    let app = Setup::new(classifier(&["joy", "anger", "fear"])).build();
    let texts = ["red fox", "blue whale"];
    for raw in [false, true] {
        let answer = ask(&app, "/classify", json!({ "model": "m", "input": texts, "raw_scores": raw })).await;
        assert_eq!((&answer["object"], &answer["model"]), (&json!("classify"), &json!("m")));
        assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 3 && answer["created"].is_u64(), "{answer}");
        for (text, labels) in texts.iter().zip(answer["data"].as_array().unwrap()) {
            assert_eq!(labels, &ask(&app, "/predict", json!({ "inputs": text, "raw_scores": raw })).await);
        }
    }
    let one = Setup::new(classifier(&["yes"])).build();
    let score = |answer: serde_json::Value| floats(&json!([answer["data"][0][0]["score"]]))[0];
    let raw = score(ask(&one, "/classify", json!({ "input": "a", "raw_scores": true })).await);
    let probability = score(ask(&one, "/classify", json!({ "input": "a", "raw_scores": false })).await);
    assert!((sigmoid(raw) - probability).abs() < 1e-6);
}
