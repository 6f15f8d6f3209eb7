//! Each route over a fake backend: the happy path and the shapes.

use crate::app::App;
use crate::auth::Keys;
use crate::testing::{DIM, Gate, Got, Mode, Setup, ask, classifier, embedding, get, post, send};
use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine;
use prefold_core::{ModelKind, sigmoid};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

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

fn decoded<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| decode(chunk)).collect()
}

/// POSTs with an `Accept` header.
async fn accepting(app: &App, path: &str, accept: &str, body: Value) -> Got {
    let request = Request::post(path).header(header::ACCEPT, accept).body(Body::from(body.to_string())).unwrap();
    send(app, request).await
}

#[tokio::test]
async fn binary_answers_are_the_rows_themselves() {
    let app = Setup::new(embedding()).build();
    let texts = ["red fox", "blue whale"];
    let plain: Vec<f32> =
        ask(&app, "/embed", json!({ "inputs": texts })).await.as_array().unwrap().iter().flat_map(floats).collect();
    let octets = "application/octet-stream";
    for (path, field) in [("/embed", "inputs"), ("/v1/embeddings", "input"), ("/", "inputs")] {
        let got = accepting(&app, path, octets, json!({ field: texts })).await;
        assert_eq!(got.status, 200, "{}", got.body);
        assert_eq!(got.headers[header::CONTENT_TYPE], octets);
        assert_eq!(got.headers["x-embedding-shape"], format!("2,{DIM}"));
        assert_eq!(got.headers["x-embedding-dtype"], "float32");
        assert!(got.number("x-compute-tokens") > 3.0);
        assert_eq!(decoded(&got.bytes, f32::from_le_bytes), plain, "{path}");
    }
    let half = accepting(&app, "/embed", "application/octet-stream;dtype=float16", json!({ "inputs": texts })).await;
    assert_eq!(half.bytes.len(), 2 * DIM * 2);
    let rounded: Vec<f32> = plain.iter().map(|&value| half::f16::from_f32(value).to_f32()).collect();
    assert_eq!(decoded(&half.bytes, |bytes| half::f16::from_le_bytes(bytes).to_f32()), rounded);
    let by_field = json!({ "input": texts, "embed_dtype": "float16", "endianness": "little" });
    assert_eq!(accepting(&app, "/v1/embeddings", octets, by_field).await.bytes, half.bytes);

    let refused = accepting(&app, "/embed", octets, json!({ "inputs": [] })).await;
    assert_eq!((refused.status.as_u16(), refused.json()["error_type"].as_str()), (422, Some("Empty")));
    let unknown = accepting(&app, "/embed", "application/octet-stream;dtype=int8", json!({ "inputs": "a" })).await;
    assert!(unknown.status == 422 && unknown.body.contains("int8"), "{}", unknown.body);
    assert_eq!(post(&app, "/v1/embeddings", json!({ "input": "a", "endianness": "big" })).await.status, 422);
}

#[tokio::test]
async fn base64_may_be_of_another_type() {
    let app = Setup::new(embedding()).build();
    let body = json!({ "input": "red fox", "encoding_format": "base64", "embed_dtype": "bfloat16" });
    let coded = ask(&app, "/v1/embeddings", body).await;
    let bytes =
        base64::engine::general_purpose::STANDARD.decode(coded["data"][0]["embedding"].as_str().unwrap()).unwrap();
    let plain = ask(&app, "/embed", json!({ "inputs": "red fox" })).await;
    let rounded: Vec<f32> = floats(&plain[0]).iter().map(|&value| half::bf16::from_f32(value).to_f32()).collect();
    assert_eq!(decoded(&bytes, |bytes| half::bf16::from_le_bytes(bytes).to_f32()), rounded);
}

#[tokio::test]
async fn openai_embeddings_take_vllms_fields() {
    let app = Setup::new(embedding()).build();
    let ask = |extra: Value| {
        let mut body = json!({ "input": "red fox red fox", "priority": 1, "request_id": "x" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let app = &app;
        async move { ask(app, "/v1/embeddings", body).await }
    };
    let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let whole = ask(json!({})).await;
    assert_eq!(ask(json!({ "truncate_prompt_tokens": -1 })).await["data"], whole["data"]);
    assert_eq!(tokens(&ask(json!({ "add_special_tokens": false })).await), tokens(&whole) - 1);
    let right = ask(json!({ "truncate_prompt_tokens": 3 })).await;
    let left = ask(json!({ "truncate_prompt_tokens": 3, "truncation_side": "left" })).await;
    assert_eq!((tokens(&right), tokens(&left)), (3, 3));
    assert_ne!(right["data"], left["data"]);
    for tokens in [-2, 0, 257] {
        let got = post(&app, "/v1/embeddings", json!({ "input": "a", "truncate_prompt_tokens": tokens })).await;
        assert_eq!((got.status.as_u16(), &got.json()["error"]["param"]), (422, &json!("truncate_prompt_tokens")));
    }
}

#[tokio::test]
async fn usage_tells_what_was_saved() {
    let app = Setup::new(embedding()).build();
    let usage = ask(&app, "/v1/embeddings", json!({ "input": [[1, 2, 3], [1, 2, 4], [1, 2]] })).await["usage"].clone();
    assert_eq!(usage["prompt_tokens"], 8);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 4);
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
async fn rerank_answers_voyage_too() {
    let app = Setup::new(ModelKind::Reranker).build();
    let body =
        json!({ "query": "fox", "documents": ["a", "b"], "top_k": 1, "truncation": true, "return_documents": true });
    let answer = ask(&app, "/v1/rerank", body).await;
    let (data, result) = (&answer["data"][0], &answer["results"][0]);
    assert_eq!((&data["index"], &data["relevance_score"]), (&result["index"], &result["relevance_score"]));
    assert_eq!(data["document"], result["document"]["text"]);
    assert_eq!(answer["data"].as_array().unwrap().len(), 1);
    assert!(answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 50, "{answer}");
    assert!(answer["created"].as_u64().unwrap() > 1_600_000_000);
    let many = vec!["a"; 150];
    assert_eq!(
        ask(&app, "/v1/rerank", json!({ "query": "q", "documents": many })).await["meta"]["billed_units"]["search_units"],
        2
    );
}

#[tokio::test]
async fn scores_are_those_of_reranking() {
    for kind in [ModelKind::Reranker, embedding(), classifier(&["score"])] {
        let app = Setup::new(kind).build();
        let documents = ["red", "blue", "green"];
        let ranked = ask(&app, "/rerank", json!({ "query": "fox", "texts": documents })).await;
        for (queries, items) in
            [("queries", "documents"), ("text_1", "text_2"), ("data_1", "data_2"), ("query", "items")]
        {
            let answer = ask(&app, "/v1/score", json!({ "model": "m", queries: "fox", items: documents })).await;
            assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("m")));
            assert!(answer["id"].as_str().unwrap().starts_with("score-"));
            for line in ranked.as_array().unwrap() {
                let index = line["index"].as_u64().unwrap() as usize;
                assert_eq!(answer["data"][index], json!({ "index": index, "object": "score", "score": line["score"] }));
            }
        }
        let paired = ask(&app, "/score", json!({ "queries": ["fox", "whale"], "documents": ["red", "blue"] })).await;
        let whale = ask(&app, "/score", json!({ "queries": "whale", "documents": "blue" })).await;
        assert_eq!(paired["data"][1]["score"], whale["data"][0]["score"]);
        let raw = json!({ "query": "fox", "texts": documents, "raw_scores": true });
        let raw = ask(&app, "/rerank", raw).await;
        let unactivated = json!({ "queries": "fox", "documents": documents, "use_activation": false });
        let unactivated = ask(&app, "/score", unactivated).await;
        let best = raw[0]["index"].as_u64().unwrap() as usize;
        assert_eq!(unactivated["data"][best]["score"], raw[0]["score"]);
        let odd = post(&app, "/v1/score", json!({ "queries": ["a", "b"], "documents": ["a", "b", "c"] })).await;
        assert_eq!((odd.status.as_u16(), &odd.json()["error"]["param"]), (422, &json!("queries")));
        assert_eq!(post(&app, "/v1/score", json!({ "queries": "a", "documents": [] })).await.status, 422);
    }
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
    assert!(refused.status == 422 && refused.json()["error"]["message"].as_str().unwrap().contains("embeddings"));
}

#[tokio::test]
async fn a_model_has_its_names() {
    let app = Setup::new(embedding()).build();
    let names = strings(&get(&app, "/v1/models").await.json()["data"], "id");
    assert_eq!(names, ["\"fake\"", "\"org/fake\""]);
    for name in ["fake", "org/fake", "org%2Ffake"] {
        let model = get(&app, &format!("/v1/models/{name}")).await;
        assert_eq!((model.status.as_u16(), &model.json()["root"]), (200, &json!("org/fake")), "{name}");
    }
    let unknown = get(&app, "/v1/models/other/one").await;
    assert_eq!((unknown.status.as_u16(), &unknown.json()["error"]["code"]), (404, &json!("model_not_found")));
}

#[tokio::test]
async fn readiness_has_a_reason() {
    let app = Setup::new(embedding()).build();
    let ready = get(&app, "/ready").await;
    assert_eq!((ready.status.as_u16(), ready.json()), (200, json!({ "status": "ready", "model": "fake" })));

    let failing = Setup { mode: Mode::Fail, ..Setup::new(embedding()) }.build();
    assert_eq!(get(&failing, "/ready").await.status, 200, "nothing has failed yet");
    post(&failing, "/embed", json!({ "inputs": "a" })).await;
    let got = get(&failing, "/ready").await;
    assert!(got.status == 503 && got.body.contains("told to fail"), "{}", got.body);

    let gate = Arc::new(Gate::default());
    let mut stuck = Setup { mode: Mode::Gate(Arc::clone(&gate)), ..Setup::new(embedding()) };
    stuck.http.stall_timeout = Duration::from_millis(50);
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
    assert!(got.body.contains("a forward pass has been running"), "{}", got.body);
    while get(&stuck, "/health").await.status == 200 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    gate.open();
    assert_eq!(request.await.unwrap().status, 200);
    assert_eq!(get(&stuck, "/ready").await.status, 200);
    stuck.engine.shutdown().await;
    let got = get(&stuck, "/ready").await;
    assert!(got.status == 503 && got.body.contains("shutting down"), "{}", got.body);
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
    assert_eq!(get(&elsewhere, "/metrics").await.status, 404);
    let own = crate::server::metrics_router(elsewhere);
    let got = own.oneshot(Request::get("/metrics").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(got.status(), 200);
}
