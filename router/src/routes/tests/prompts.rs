//! Prompts, and fields that are ignored.

use crate::testing::{Setup, ask, classifier, embedding, post, reranker};
use serde_json::{Value, json};

/// `fields` in the body of an embedding route, with a text.
fn body_of(path: &str, fields: &Value) -> Value {
    let mut body = match path {
        "/v1/embeddings" => json!({ "input": "red fox" }),
        "/similarity" => json!({ "inputs": { "source_sentence": "red fox", "sentences": ["tide"] } }),
        _ => json!({ "inputs": "red fox" }),
    };
    let target = if path == "/similarity" { &mut body["parameters"] } else { &mut body };
    if target.is_null() {
        *target = json!({});
    }
    for (name, value) in fields.as_object().unwrap() {
        target[name] = value.clone();
    }
    body
}

#[tokio::test]
async fn every_embedding_route_takes_prompts() {
    let app = Setup::new(embedding()).build();
    for path in ["/v1/embeddings", "/embed", "/embed_all", "/similarity", "/"] {
        let tokens = |fields: Value| {
            let app = app.clone();
            async move {
                let got = post(&app, path, body_of(path, &fields)).await;
                assert_eq!(
                    (got.status.as_u16(), got.headers.get("x-ignored-fields")),
                    (200, None),
                    "{fields} {}",
                    got.body
                );
                (got.number("x-compute-tokens"), got.json()["data"].clone())
            }
        };
        let named = tokens(json!({ "prompt_name": "query" })).await;
        assert_eq!(named, tokens(json!({ "prompt": "Query: " })).await, "{path}");
        assert_eq!(named, tokens(json!({ "input_type": "query" })).await, "{path}");
        assert_eq!(named, tokens(json!({ "input_type": "search_query" })).await, "{path}");
        let plain = tokens(json!({ "input_type": null })).await;
        assert_eq!(plain, tokens(json!({ "prompt": "" })).await, "{path}");
        assert!(named.0 > plain.0, "{path}");
        for (fields, problem) in [
            (json!({ "prompt_name": "nix" }), "`nix` is not a prompt of the served model; it has: query"),
            (json!({ "prompt_name": "query", "input_type": "query" }), "send only one of"),
            (json!({ "prompt_name": "query", "prompt": "" }), "send only one of"),
            (json!({ "input_type": "nix" }), "unknown value `nix`"),
        ] {
            let refused = post(&app, path, body_of(path, &fields)).await;
            let status = if path == "/v1/embeddings" { 400 } else { 422 };
            assert!(refused.status == status && refused.body.contains(problem), "{path} {fields}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn an_input_type_without_a_prompt_is_ignored_aloud() {
    let app = Setup::new(embedding()).build();
    let body = body_of("/embed", &json!({ "input_type": "document" }));
    let got = post(&app, "/embed", &body).await;
    assert_eq!((got.status.as_u16(), &got.headers["x-ignored-fields"]), (200, &"input_type".parse().unwrap()));
    assert_eq!(got.json(), ask(&app, "/embed", json!({ "inputs": "red fox" })).await);
}

#[tokio::test]
async fn ignored_fields_are_named_or_refused() {
    let strict = |mut setup: Setup| {
        setup.http.strict_fields = true;
        setup.build()
    };
    for (setup, path, body, ignored) in [
        (
            embedding(),
            "/v1/embeddings",
            json!({ "input": "a", "model": "m", "user": "u", "dimension": 3 }),
            "dimension, user",
        ),
        (embedding(), "/embed", json!({ "inputs": "a", "trunctate": false }), "trunctate"),
        (embedding(), "/", json!({ "inputs": "a", "x": { "y": 1 } }), "x"),
        (
            embedding(),
            "/",
            json!({ "inputs": { "source_sentence": "a", "sentences": ["b"], "z": 1 }, "parameters": { "y": 1 } }),
            "inputs.z, parameters.y",
        ),
        (embedding(), "/tokenize", json!({ "inputs": "a", "x": 1 }), "x"),
        (
            reranker(),
            "/v1/rerank",
            json!({ "query": "a", "documents": [{ "text": "b", "title": "t" }, { "text": "c", "title": "t" }] }),
            "documents[].title",
        ),
        (reranker(), "/", json!({ "query": "a", "texts": ["b"], "x": 1 }), "x"),
        (
            classifier(&["a", "b"]),
            "/",
            json!({ "inputs": "a", "x": 1, "parameters": { "top_k": 1, "y": 1 } }),
            "parameters.y, x",
        ),
    ] {
        let got = post(&Setup::new(setup.clone()).build(), path, &body).await;
        assert_eq!(got.status, 200, "{path} {body}: {}", got.body);
        assert_eq!(got.headers["x-ignored-fields"], ignored, "{path} {body}");
        let refused = post(&strict(Setup::new(setup)), path, &body).await;
        let first = ignored.split(", ").next().unwrap();
        let problem = format!("`{first}`: unknown field (--strict-fields)");
        let status = if path.starts_with("/v1/") { 400 } else { 422 };
        assert!(refused.status == status && refused.body.contains(&problem), "{path} {body}: {}", refused.body);
    }
    let app = strict(Setup::new(embedding()));
    ask(&app, "/", json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] } })).await;
    let refused = post(&app, "/embed", json!({ "inputs": "a", "input_type": "document" })).await;
    assert!(refused.status == 422 && refused.body.contains("no prompt called `document`"), "{}", refused.body);
}
