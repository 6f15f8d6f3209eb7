//! Classification.

use super::{floats, strings};
use crate::server::routing::router;
use crate::testing::{Setup, ask, classifier, embedding, post};
use axum::body::Body;
use axum::http::Request;
use futures::StreamExt;
use prefold_core::Capabilities;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tower::ServiceExt;

#[tokio::test]
async fn predict_tells_pairs_from_batches() {
    let app = Setup::new(classifier(&["joy", "anger", "fear"])).build();
    let single = ask(&app, "/predict", json!({ "inputs": "red fox" })).await;
    assert_eq!(single.as_array().unwrap().len(), 3);
    let scores: Vec<f64> = single.as_array().unwrap().iter().map(|line| line["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b) && (scores.iter().sum::<f64>() - 1.0).abs() < 1e-5);
    let mut labels = strings(&single, "label");
    labels.sort();
    assert_eq!(labels, ["\"anger\"", "\"fear\"", "\"joy\""]);

    let pair = ask(&app, "/predict", json!({ "inputs": ["red fox", "blue whale"] })).await;
    assert!(pair[0]["score"].is_number());
    assert_ne!(pair, single);
    let batch = ask(&app, "/predict", json!({ "inputs": [["red fox"], ["red fox", "blue whale"]] })).await;
    assert_eq!(batch, json!([single, pair]));
    let batch_of_one = ask(&app, "/", json!({ "inputs": [["red fox"]] })).await;
    assert_eq!(batch_of_one, json!([single]));
    let raw = ask(&app, "/predict", json!({ "inputs": "red fox", "raw_scores": true })).await;
    assert_ne!(raw, single);
    assert_eq!(post(&app, "/predict", json!({ "inputs": ["a", "b", "c"] })).await.status, 422);
}

#[tokio::test]
async fn classes_as_vllm_gives_them() {
    let app = Setup::new(classifier(&["joy", "anger", "fear"])).build();
    let answer = ask(&app, "/v1/classify", json!({ "input": ["red fox", "blue whale"] })).await;
    assert!(answer["id"].as_str().unwrap().starts_with("classify-"));
    for (index, text) in ["red fox", "blue whale"].into_iter().enumerate() {
        let item = &answer["data"][index];
        let predicted = ask(&app, "/predict", json!({ "inputs": text })).await;
        assert_eq!((&item["label"], &item["index"]), (&predicted[0]["label"], &json!(index)));
        assert_eq!(item["num_classes"], 3);
        let probs = floats(&item["probs"]);
        assert!((probs.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        let labels = ["joy", "anger", "fear"];
        for line in predicted.as_array().unwrap() {
            let place = labels.iter().position(|label| line["label"] == *label).unwrap();
            assert_eq!(line["score"], item["probs"][place]);
        }
    }
    let raw = ask(&app, "/classify", json!({ "input": "red fox", "activation": false })).await;
    assert!((floats(&raw["data"][0]["probs"]).iter().sum::<f32>() - 1.0).abs() > 1e-3);
    let refused = post(&Setup::new(embedding()).build(), "/v1/classify", json!({ "input": "a" })).await;
    assert!(refused.status == 400 && refused.json()["error"]["message"].as_str().unwrap().contains("embeddings"));
}

#[tokio::test]
async fn labels_of_tokens_are_written_in_the_order_of_their_names() {
    let labels = ["O", "B-b", "I-b", "B-a", "I-a", "c", "\"d\"", "c"].map(str::to_owned).to_vec();
    let app = Setup::new(Capabilities::token_classifier(labels.clone(), 256)).build();
    let text = "red fox";
    let raw = ask(&app, "/predict_tokens", json!({ "inputs": text, "raw_scores": true, "ignore_labels": [] })).await;
    let by_serde: Vec<BTreeMap<String, f32>> =
        raw.as_array().unwrap().iter().map(|token| serde_json::from_value(token["results"].clone()).unwrap()).collect();
    assert!(by_serde.len() > 1 && by_serde.iter().all(|results| results.len() == labels.len() - 1), "{raw}");
    let body = json!({ "inputs": [text], "raw_scores": true, "ignore_labels": [] });
    let written = post(&app, "/predict_tokens", body).await.body;
    let first = serde_json::to_string(&by_serde[0]).unwrap();
    assert!(written.contains(&format!(r#""results":{first}}}"#)), "{first} in {written}");

    let all = ask(&app, "/predict_tokens", json!({ "inputs": text, "ignore_labels": [] })).await;
    let of = |token: &Value| token["results"].as_object().unwrap().keys().next().unwrap().clone();
    let label = of(&all[0]);
    let some = json!({ "inputs": text, "ignore_labels": ["x", label] });
    let kept = ask(&app, "/predict_tokens", some).await;
    assert!(kept.as_array().unwrap().iter().all(|token| of(token) != label), "{kept}");
    let groups = ask(
        &app,
        "/predict_tokens",
        json!({ "inputs": [text, text], "aggregation_strategy": "simple", "ignore_labels": [] }),
    )
    .await;
    assert_eq!((groups.as_array().unwrap().len(), &groups[0]), (2, &groups[1]));
}

#[tokio::test]
async fn parameters_of_a_pipeline_ask_for_its_format() {
    let labels = ["O", "B-b", "I-b", "B-a", "I-a"].map(str::to_owned).to_vec();
    let app = Setup::new(Capabilities::token_classifier(labels, 256)).build();
    let own = ask(&app, "/predict_tokens", json!({ "inputs": "red fox", "ignore_labels": [] })).await;
    let parameters = json!({ "inputs": "red fox", "parameters": { "ignore_labels": [] } });
    for path in ["/predict_tokens", "/"] {
        let items = ask(&app, path, parameters.clone()).await;
        assert_eq!(items.as_array().unwrap().len(), own.as_array().unwrap().len(), "{path}");
        for (item, own) in items.as_array().unwrap().iter().zip(own.as_array().unwrap()) {
            let (label, score) = own["results"].as_object().unwrap().iter().next().unwrap();
            let expected = json!({
                "entity": label, "score": score, "word": own["token"], "start": own["start"], "end": own["end"]
            });
            assert_eq!(*item, expected);
        }
    }
    let grouped = json!({ "aggregation_strategy": "simple", "ignore_labels": [] });
    let groups = ask(&app, "/predict_tokens", json!({ "inputs": ["red fox"], "parameters": grouped })).await;
    assert!(groups[0][0].get("entity").is_none() && groups[0][0]["entity_group"].is_string(), "{groups}");
    let own = json!({ "inputs": "red fox", "parameters": grouped, "aggregation_strategy": "none" });
    assert!(ask(&app, "/predict_tokens", own).await[0]["entity"].is_string(), "the field of the body comes first");
}

#[tokio::test]
async fn labels_that_a_client_brings_are_refused() {
    let app = Setup::new(classifier(&["joy", "fear"])).build();
    for path in ["/predict", "/"] {
        let body = json!({ "inputs": "red fox", "parameters": { "candidate_labels": ["x", "y"] } });
        let refused = post(&app, path, &body).await;
        let problem = "`parameters.candidate_labels`: not supported: the labels are those of the served model";
        assert!(refused.status == 422 && refused.body.contains(problem), "{path}: {}", refused.body);
    }
}

#[tokio::test]
async fn many_labels_of_a_token_are_written_in_pieces() {
    let labels = (0..20_000).map(|label| format!("label {label}")).collect();
    let app = Setup::new(Capabilities::token_classifier(labels, 256)).build();
    let body = json!({ "inputs": "red fox", "raw_scores": true, "ignore_labels": [] });
    let request = Request::post("/predict_tokens").body(Body::from(body.to_string())).unwrap();
    let response = router(app).oneshot(request).await.unwrap();
    let sizes: Vec<usize> = response.into_body().into_data_stream().map(|piece| piece.unwrap().len()).collect().await;
    assert!(sizes.len() > 2 && sizes.iter().all(|&size| size < 2 << 16), "{sizes:?}");
}
