//! Each route over a fake backend: the happy path and the shapes.

use crate::testing::{DIM, Setup, ask, classifier, embedding, get, post};
use axum::http::header;
use base64::Engine;
use prefold_core::{ModelKind, sigmoid};
use serde_json::{Value, json};

fn floats(value: &Value) -> Vec<f32> {
    serde_json::from_value(value.clone()).unwrap()
}

fn norm(vector: &[f32]) -> f32 {
    vector.iter().map(|x| x * x).sum::<f32>().sqrt()
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    value.as_array().unwrap().iter().map(|item| item[key].to_string()).collect()
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
    assert_eq!(refused.status, 422);
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
async fn openai_embeddings_have_their_object() {
    let app = Setup::new(embedding()).build();
    let body = json!({ "model": "any \"name\"", "input": ["red fox", "blue whale"], "user": "u" });
    let answer = ask(&app, "/v1/embeddings", body).await;
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("any \"name\"")));
    let data = answer["data"].as_array().unwrap();
    for (index, item) in data.iter().enumerate() {
        assert_eq!((&item["object"], &item["index"]), (&json!("embedding"), &json!(index)));
        assert_eq!(floats(&item["embedding"]).len(), DIM);
    }
    assert_eq!(data.len(), 2);
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() >= 4);
    assert_eq!(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
    let unnamed = ask(&app, "/embeddings", json!({ "input": "red fox" })).await;
    assert_eq!(unnamed["model"], "fake");
    assert_eq!(unnamed["data"][0]["embedding"], data[0]["embedding"]);
}

#[tokio::test]
async fn base64_holds_the_same_floats() {
    let app = Setup::new(embedding()).build();
    let body = |format: &str| json!({ "input": ["red fox", "b"], "encoding_format": format, "dimensions": 5 });
    let plain = ask(&app, "/v1/embeddings", body("float")).await;
    let coded = ask(&app, "/v1/embeddings", body("base64")).await;
    for index in 0..2 {
        let text = coded["data"][index]["embedding"].as_str().unwrap();
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap();
        let decoded: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect();
        assert_eq!(decoded, floats(&plain["data"][index]["embedding"]));
        assert_eq!(decoded.len(), 5);
    }
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
    assert_eq!(post(&app, "/similarity", empty).await.status, 422);
}

#[tokio::test]
async fn rerank_has_two_faces() {
    let app = Setup::new(ModelKind::Reranker).build();
    let texts = ["green tea", "red fox", "blue whale"];
    let tei = ask(&app, "/rerank", json!({ "query": "fox", "texts": texts, "return_text": true })).await;
    let scores: Vec<f64> = tei.as_array().unwrap().iter().map(|line| line["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a > b), "{tei}");
    for line in tei.as_array().unwrap() {
        assert_eq!(line["text"], texts[line["index"].as_u64().unwrap() as usize]);
    }
    let bare = ask(&app, "/rerank", json!({ "query": "fox", "texts": texts })).await;
    assert!(bare[0].get("text").is_none());
    assert_eq!(ask(&app, "/", json!({ "query": "fox", "texts": texts })).await, bare);

    let raw = ask(&app, "/rerank", json!({ "query": "fox", "texts": texts, "raw_scores": true })).await;
    assert_eq!(strings(&raw, "index"), strings(&tei, "index"));
    for (raw, score) in raw.as_array().unwrap().iter().zip(&scores) {
        assert!((f64::from(sigmoid(raw["score"].as_f64().unwrap() as f32)) - score).abs() < 1e-6);
    }

    let object = ask(&app, "/rerank", json!({ "query": "fox", "documents": texts })).await;
    assert_eq!(strings(&object["results"], "index"), strings(&tei, "index"));
    assert_eq!(object["results"][0]["relevance_score"], tei[0]["score"]);
}

#[tokio::test]
async fn rerank_objects_serve_all_clients() {
    let app = Setup::new(ModelKind::Reranker).build();
    let documents = json!(["green tea", { "text": "red fox" }, "blue whale"]);
    let body = json!({ "model": "m", "query": "fox", "documents": documents, "top_n": 2, "return_documents": true });
    let answer = ask(&app, "/v1/rerank", body.clone()).await;
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("m")));
    assert!(answer["id"].as_str().unwrap().starts_with("rerank-"));
    assert_ne!(answer["id"], ask(&app, "/v1/rerank", body.clone()).await["id"]);
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    for result in answer["results"].as_array().unwrap() {
        let document = &documents[result["index"].as_u64().unwrap() as usize];
        assert_eq!(&result["document"]["text"], document.get("text").unwrap_or(document));
    }
    assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 100);
    assert_eq!(answer["meta"]["api_version"]["version"], "1");
    assert_eq!(answer["meta"]["billed_units"]["search_units"], 1);

    let second = ask(&app, "/v2/rerank", json!({ "query": "fox", "documents": documents, "top_k": 1 })).await;
    assert_eq!(second["meta"]["api_version"]["version"], "2");
    assert_eq!(second["model"], "fake");
    assert_eq!(second["results"].as_array().unwrap().len(), 1);
    assert!(second["results"][0].get("document").is_none());
    let told = ask(&app, "/v1/rerank", json!({ "query": "fox", "documents": documents, "instruction": "other" })).await;
    assert_ne!(strings(&told["results"], "relevance_score"), strings(&second["results"], "relevance_score"));

    for (path, body) in [
        ("/v1/rerank", json!({ "query": "fox", "texts": ["a"] })),
        ("/rerank", json!({ "query": "fox" })),
        ("/rerank", json!({ "query": "fox", "texts": ["a"], "documents": ["a"] })),
        ("/v1/rerank", json!({ "query": "fox", "documents": [] })),
        ("/v1/rerank", json!({ "query": "fox", "documents": [5] })),
        ("/v1/rerank", json!({ "query": "fox", "documents": ["a"], "top_n": -1 })),
    ] {
        assert_eq!(post(&app, path, &body).await.status, 422, "{path} {body}");
    }
}

#[tokio::test]
async fn an_embedding_model_reranks_by_cosine() {
    let app = Setup::new(embedding()).build();
    let texts = ["blue whale", "red fox"];
    let answer = ask(&app, "/rerank", json!({ "query": "red fox", "texts": texts, "raw_scores": false })).await;
    assert_eq!(answer[0]["index"], 1);
    assert!((answer[0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

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
        ("dtype", json!("float32")),
        ("device", json!("cpu")),
        ("attention", json!("ragged")),
        ("dimensions", json!(DIM)),
        ("rerank_scores", json!("cosine_similarity")),
        ("prompts", json!(["query"])),
    ] {
        assert_eq!(info.get(key), Some(&value), "{key}");
    }
    assert!((info["radix_mlp_threshold"].as_f64().unwrap() - 0.95).abs() < 1e-6);

    let kinds = [
        (ModelKind::Reranker, json!({ "reranker": { "id2label": {}, "label2id": {} } }), json!("probability")),
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
    for (kind, model_type, scores) in kinds {
        let info = get(&Setup::new(kind).build(), "/info").await.json();
        assert_eq!((&info["model_type"], &info["rerank_scores"]), (&model_type, &scores));
    }
}

#[tokio::test]
async fn models_health_and_metrics() {
    let app = Setup::new(embedding()).build();
    let models = get(&app, "/v1/models").await.json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&json!("list"), &json!("fake")));
    for path in ["/health", "/ping", "/"] {
        let got = get(&app, path).await;
        assert_eq!((got.status.as_u16(), got.body.as_str()), (200, ""), "{path}");
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
        r#"prefold_http_requests{route="/embed",status="200"}"#,
        r#"prefold_http_requests{route="/embed",status="400"}"#,
        r#"prefold_http_requests{route="unmatched",status="404"}"#,
        r#"prefold_http_request_duration_bucket{route="/embed",le="#,
        r#"te_request_success{method="embed"}"#,
        "te_request_duration_bucket{le=",
        "te_batch_next_tokens_bucket{le=",
    ] {
        assert!(metrics.contains(line), "{line} is missing in\n{metrics}");
    }
}
