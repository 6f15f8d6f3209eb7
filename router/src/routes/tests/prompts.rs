//! Prompts, and fields that are ignored.

use crate::testing::{DIM, Setup, adapted, ask, classifier, embedding, get, post, reranker};
use prefold_core::TaskProfile;
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
            (json!({ "prompt_name": "query", "input_type": "query" }), "must be the only one of"),
            (json!({ "prompt_name": "query", "prompt": "" }), "must be the only one of"),
            (json!({ "input_type": "nix" }), "unknown value `nix`"),
        ] {
            let refused = post(&app, path, body_of(path, &fields)).await;
            let status = if path == "/v1/embeddings" { 400 } else { 422 };
            assert!(refused.status == status && refused.body.contains(problem), "{path} {fields}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn a_task_selects_the_adapter_and_its_prompt() {
    let app = Setup::new(adapted()).build();
    for path in ["/v1/embeddings", "/embed", "/"] {
        let answer = |fields: Value| {
            let app = app.clone();
            async move {
                let body = json!({ "normalize": false });
                let mut body = if path == "/v1/embeddings" { json!({}) } else { body };
                fields.as_object().unwrap().iter().for_each(|(name, value)| body[name] = value.clone());
                let got = post(&app, path, body_of(path, &body)).await;
                assert_eq!((got.status.as_u16(), got.headers.get("x-ignored-fields")), (200, None), "{}", got.body);
                let json = got.json();
                (got.number("x-compute-tokens"), if path == "/v1/embeddings" { json["data"].clone() } else { json })
            }
        };
        let plain = answer(json!({ "task": null })).await;
        let separation = answer(json!({ "task": "separation" })).await;
        assert!(separation.0 == plain.0 && separation.1 != plain.1, "{path}: the same tokens through an adapter");
        assert_eq!(separation, answer(json!({ "input_type": "clustering" })).await, "{path}");
        let query = answer(json!({ "task": "retrieval.query" })).await;
        assert!(query.0 > plain.0, "{path}: the instruction of the task");
        assert_eq!(query, answer(json!({ "input_type": "search_query" })).await, "{path}");
        assert_eq!(query, answer(json!({ "task": "retrieval.query", "prompt_name": "query" })).await, "{path}");
        let without = answer(json!({ "task": "retrieval.query", "prompt": "" })).await;
        assert!(without.0 == plain.0 && without.1 != plain.1 && without.1 != separation.1, "{path}");
        // The prompt alone has no adapter.
        assert_ne!(query.1, answer(json!({ "prompt_name": "query" })).await.1, "{path}");
        for (fields, problem) in [
            (json!({ "task": "nix" }), "`nix` is not a task of the served model; it has: retrieval.query, separation"),
            (json!({ "task": "separation", "input_type": "query" }), "must be the only one of `task` and `input_type`"),
        ] {
            let refused = post(&app, path, body_of(path, &fields)).await;
            let status = if path == "/v1/embeddings" { 400 } else { 422 };
            assert!(refused.status == status && refused.body.contains(problem), "{path} {fields}: {}", refused.body);
            assert!(refused.body.contains("task"), "{path} {fields}: {}", refused.body);
        }
    }
    assert_eq!(get(&app, "/info").await.json()["tasks"], json!(["retrieval.query", "separation"]));
}

#[tokio::test]
async fn tasks_may_have_lengths() {
    let mut model = embedding();
    let task = |task: &str, instruction: &str, max_input_length| TaskProfile {
        task: task.to_owned(),
        instruction: instruction.to_owned(),
        max_input_length,
        ..TaskProfile::default()
    };
    let embed = model.embed.as_mut().unwrap();
    embed.tasks = vec![task("query", "Query: ", Some(5)), task("document", "", None)];
    embed.truncate_dim = Some(3);
    let app = Setup::new(model).build();
    let info = get(&app, "/info").await.json();
    assert_eq!(info["tasks"], json!(["query", "document"]));
    assert_eq!(info["max_input_lengths"], json!({"query": 5, "document": 256}));
    assert_eq!((&info["dimensions"], &info["max_dimensions"]), (&json!(3), &json!(DIM)));
    let tokens = async |input_type: &str| {
        let input = "the red fox reads while the tide comes in and goes out";
        ask(&app, "/v1/embeddings", json!({ "input": input, "input_type": input_type })).await["usage"]["prompt_tokens"]
            .clone()
    };
    assert_eq!(tokens("query").await, json!(5));
    assert!(tokens("document").await.as_u64().unwrap() > 5);
}

#[tokio::test]
async fn without_adapters_a_task_is_a_prompt_or_ignored_aloud() {
    let app = Setup::new(embedding()).build();
    let by_name = ask(&app, "/embed", json!({ "inputs": "red fox", "prompt_name": "query" })).await;
    for task in ["retrieval.query", "query"] {
        assert_eq!(ask(&app, "/embed", json!({ "inputs": "red fox", "task": task })).await, by_name, "{task}");
    }
    for fields in [json!({ "task": "text-matching" }), json!({ "task": "retrieval.query", "prompt": "" })] {
        let got = post(&app, "/embed", body_of("/embed", &fields)).await;
        assert_eq!(
            (got.status.as_u16(), &got.headers["x-ignored-fields"]),
            (200, &"task".parse().unwrap()),
            "{fields}"
        );
        assert_eq!(got.json(), ask(&app, "/embed", json!({ "inputs": "red fox" })).await, "{fields}");
    }
    let mut strict = Setup::new(embedding());
    strict.http.strict_fields = true;
    let refused = post(&strict.build(), "/embed", json!({ "inputs": "a", "task": "text-matching" })).await;
    assert!(refused.status == 422 && refused.body.contains("no prompt for the task"), "{}", refused.body);
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
