//! Ollama's routes.

use super::{floats, strings};
use crate::testing::{DIM, Setup, ask, embedding, get, post, reranker, with_second};
use prefold_core::{Capabilities, Embed};
use serde_json::{Value, json};

#[tokio::test]
async fn embed_answers_texts_in_ollamas_form() {
    let app = Setup::new(embedding()).build();
    let texts = ["red fox", "blue whale"];
    let vectors = ask(&app, "/embed", json!({ "inputs": texts })).await;
    let answer = ask(&app, "/api/embed", json!({ "model": "fake:latest", "input": texts, "keep_alive": "5m" })).await;
    assert_eq!((&answer["model"], &answer["embeddings"]), (&json!("fake:latest"), &vectors));
    assert!(answer["total_duration"].as_u64().unwrap() > 0 && answer["load_duration"] == 0, "{answer}");
    assert!(answer["prompt_eval_count"].as_u64().unwrap() >= 4);
    let one = ask(&app, "/api/embed", json!({ "model": "any", "input": texts[0], "dimensions": 0 })).await;
    assert_eq!(one["embeddings"], json!([vectors[0]]));
    let short = ask(&app, "/api/embed", json!({ "input": texts[0], "dimensions": 3 })).await;
    assert_eq!(short["embeddings"], ask(&app, "/embed", json!({ "inputs": texts[0], "dimensions": 3 })).await);
    let query = ask(&app, "/api/embed", json!({ "input": "fox", "prompt_name": "query" })).await;
    assert_eq!(query["embeddings"], ask(&app, "/embed", json!({ "inputs": "Query: fox" })).await);
}

#[tokio::test]
async fn a_request_without_a_text_has_no_vector() {
    let app = Setup::new(embedding()).build();
    for body in [json!({ "model": "fake" }), json!({ "input": "" }), json!({ "input": [] }), json!({ "input": null })] {
        assert_eq!(ask(&app, "/api/embed", body.clone()).await["embeddings"], json!([]), "{body}");
    }
    assert_eq!(ask(&app, "/api/embeddings", json!({ "model": "fake" })).await, json!({ "embedding": [] }));
    let refused = post(&app, "/api/embed", json!({ "input": ["a", ""] })).await;
    assert!(refused.status == 400 && refused.json()["error"].as_str().unwrap().contains("input"), "{}", refused.body);
    let reranks = Setup::new(reranker()).build();
    assert_eq!(post(&reranks, "/api/embed", json!({ "model": "fake" })).await.status, 400);
}

#[tokio::test]
async fn the_older_route_scales_only_as_the_models_modules_do() {
    let prompt = json!({ "model": "fake", "prompt": "red fox", "options": { "num_thread": 2 } });
    for normalizes in [false, true] {
        let embed = Embed { normalizes, ..prefold_core::testing::embed(DIM) };
        let app = Setup::new(Capabilities::embedding(embed, 256)).build();
        let vector = floats(&ask(&app, "/api/embeddings", prompt.clone()).await["embedding"]);
        let own = ask(&app, "/embed", json!({ "inputs": "red fox", "normalize": normalizes })).await;
        assert_eq!(vector, floats(&own[0]));
    }
}

#[tokio::test]
async fn a_context_truncates_or_refuses() {
    let app = Setup::new(embedding()).build();
    let long = "red fox ".repeat(50);
    let ask_of = |options: Value| json!({ "input": long, "options": options });
    let tokens = |answer: &Value| answer["prompt_eval_count"].as_u64().unwrap();
    let whole = tokens(&ask(&app, "/api/embed", ask_of(json!({ "num_ctx": 100_000 }))).await);
    assert!(whole > 50);
    let cut = post(&app, "/api/embed", ask_of(json!({ "num_ctx": 9, "temperature": 0.5, "stop": null }))).await;
    assert_eq!((cut.status.as_u16(), tokens(&cut.json())), (200, 9), "{}", cut.body);
    assert_eq!(cut.headers["x-ignored-fields"], "options.temperature");
    let none = post(&app, "/api/embed", json!({ "input": "red fox", "options": { "num_ctx": 1 } })).await;
    assert!(none.status == 400 && none.body.contains("{\"error\":\"`num_ctx` is 1, and the tokens"), "{}", none.body);
    let refused = json!({ "input": long, "options": { "num_ctx": 9 }, "truncate": false });
    let refused = post(&app, "/api/embed", refused).await;
    let message = refused.json()["error"].as_str().unwrap().to_owned();
    assert!(refused.status == 400 && message.contains("the input length exceeds the context length"), "{message}");
    assert!(message.contains("the limit is 9"), "{message}");

    let mut strict = Setup::new(embedding());
    strict.engine.auto_truncate = false;
    let strict = strict.build();
    assert_eq!(post(&strict, "/api/embed", ask_of(json!({ "num_ctx": 9 }))).await.status, 400);
    let body = json!({ "input": long, "options": { "num_ctx": 9 }, "truncate": true });
    assert_eq!(tokens(&ask(&strict, "/api/embed", body).await), 9);
    let far = post(&strict, "/api/embeddings", json!({ "prompt": "red ".repeat(300) })).await;
    assert!(far.status == 400 && far.body.contains("context length"), "{}", far.body);
}

#[tokio::test]
async fn errors_are_a_message() {
    let app = Setup::new(embedding()).build();
    for (path, body, status) in [
        ("/api/embed", json!({ "input": [["a"]] }), 400),
        ("/api/embed", json!({ "prompt": "a" }), 400),
        ("/api/embed", json!({ "input": "a", "dimensions": 1000 }), 400),
        ("/api/embed", json!({ "input": "a", "keep_alive": [] }), 400),
        ("/api/show", json!({}), 400),
        ("/api/show", json!({ "model": "other" }), 404),
        ("/api/pull", json!({ "model": "other" }), 404),
        ("/api/chat", json!({ "model": "fake" }), 404),
    ] {
        let got = post(&app, path, &body).await;
        let error = got.json();
        let names: Vec<&String> = error.as_object().unwrap().keys().collect();
        assert!(
            got.status == status && names == ["error"] && error["error"].is_string(),
            "{path}: {} {error}",
            got.status
        );
    }
}

#[tokio::test]
async fn the_model_is_listed_and_shown() {
    let other = Setup::new(Capabilities::embedding(prefold_core::testing::embed(2 * DIM), 128));
    let app = with_second(Setup::new(embedding()), other);
    let tags = get(&app, "/api/tags").await.json();
    let names = [r#""fake:latest""#, r#""org/fake:latest""#, r#""second:latest""#, r#""org/second:latest""#];
    for key in ["name", "model"] {
        assert_eq!(strings(&tags["models"], key), names);
    }
    let first = &tags["models"][0];
    assert_eq!(
        (&first["details"]["quantization_level"], &first["capabilities"]),
        (&json!("F32"), &json!(["embedding"]))
    );
    assert!(first["modified_at"].as_str().unwrap().ends_with('Z') && first["digest"].as_str().unwrap().len() == 64);
    let loaded = get(&app, "/api/ps").await.json();
    assert_eq!(strings(&loaded["models"], "context_length"), ["256", "256", "128", "128"]);
    for name in ["second", "org/second:latest"] {
        let shown = ask(&app, "/api/show", json!({ "model": name, "name": "", "verbose": false })).await;
        let family = shown["details"]["family"].as_str().unwrap();
        let info = &shown["model_info"];
        assert_eq!(info["general.architecture"], family);
        assert_eq!(
            (&info[format!("{family}.context_length")], &info[format!("{family}.embedding_length")]),
            (&json!(128), &json!(2 * DIM))
        );
        let details = &shown["details"];
        assert_eq!((&details["context_length"], &details["embedding_length"]), (&json!(128), &json!(2 * DIM)));
        let pulled = ask(&app, "/api/pull", json!({ "model": name, "stream": true, "insecure": null })).await;
        assert_eq!(pulled, json!({ "status": "success" }));
    }
    assert_eq!(ask(&app, "/api/show", json!({ "name": "fake" })).await["capabilities"], json!(["embedding"]));
    let of_second = ask(&app, "/api/embed", json!({ "model": "second:latest", "input": "a" })).await;
    assert_eq!(floats(&of_second["embeddings"][0]).len(), 2 * DIM);
}
