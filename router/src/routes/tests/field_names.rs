//! Errors name fields as the client named them, and refused fields are refused by their own words.

use crate::testing::{Setup, adapted, embedding, post, reranker};
use prefold_core::Capabilities;
use serde_json::{Value, json};

async fn refused(setup: Setup, path: &str, body: &Value) -> String {
    let got = post(&setup.build(), path, body).await;
    assert!(got.status.is_client_error(), "{path} {body}: {} {}", got.status, got.body);
    got.body
}

#[tokio::test]
async fn errors_name_the_fields_that_the_client_sent() {
    type Model = fn() -> Capabilities;
    let (embeds, ranks): (Model, Model) = (embedding, reranker);
    let long = "fox ".repeat(300);
    for (model, path, body, names) in [
        (ranks, "/score", json!({ "text_1": [], "text_2": ["a"] }), &["text_1"][..]),
        (ranks, "/score", json!({ "text_1": ["a", "b"], "text_2": ["a"] }), &["text_1", "text_2"]),
        (ranks, "/score", json!({ "data_1": "a", "data_2": [] }), &["data_2"]),
        (ranks, "/score", json!({ "query": "", "items": ["a"] }), &["query"]),
        (ranks, "/score", json!({ "text_1": "a", "text_2": ["b", ""] }), &["text_2"]),
        (ranks, "/score", json!({ "text_1": 5, "text_2": ["b"] }), &["text_1"]),
        (ranks, "/score", json!({ "text_2": ["b"] }), &["text_1"]),
        (embeds, "/score", json!({ "text_1": "a", "text_2": [long], "truncation": false }), &["text_2", "truncation"]),
        // The query and its instruction are too long together.
        (ranks, "/score", json!({ "text_1": "a", "text_2": ["b"], "instruct": long }), &["text_1"]),
        (ranks, "/rerank", json!({ "query": "a", "texts": ["b"], "top_k": 1, "top_n": 1 }), &["top_k", "top_n"]),
        (ranks, "/rerank", json!({ "query": "a", "texts": ["b"], "top_k": -1 }), &["top_k"]),
        (embeds, "/v1/embeddings", json!({ "input": "a", "output_dtype": "int8", "normalize": false }), &["normalize"]),
        (
            embeds,
            "/v1/embeddings",
            json!({ "input": "a", "embedding_type": "int8", "use_activation": false }),
            &["use_activation"],
        ),
        (
            embeds,
            "/v1/embeddings",
            json!({ "input": "a", "encoding_type": "int8", "output_dtype": "int8" }),
            &["encoding_type", "output_dtype"],
        ),
        (
            embeds,
            "/v1/embeddings",
            json!({ "input": "a", "encoding_type": "int8", "embed_dtype": "float16" }),
            &["encoding_type", "embed_dtype"],
        ),
        (embeds, "/v1/embeddings", json!({ "input": "a", "output_dimension": 9999 }), &["output_dimension"]),
        (embeds, "/v2/embed", json!({ "texts": ["a"], "output_dimension": 9999 }), &["output_dimension"]),
        (embeds, "/v1/embeddings", json!({ "input": [[1, 2]], "input_type": "query" }), &["input_type"]),
        (embeds, "/v1/embeddings", json!({ "input": [[1, 2]], "task": "retrieval.query" }), &["task"]),
        (adapted, "/v1/embeddings", json!({ "input": "a", "task": "x" }), &["task"]),
        (embeds, "/detokenize", json!({ "tokens": [9_999_999] }), &["tokens"]),
        (embeds, "/v1/detokenize", json!({ "tokens": [9_999_999] }), &["tokens"]),
        (
            embeds,
            "/similarity",
            json!({ "inputs": { "source_sentence": "", "sentences": ["a", "b"] } }),
            &["source_sentence"],
        ),
        (
            embeds,
            "/similarity",
            json!({ "inputs": { "source_sentence": "a", "sentences": ["a", ""] } }),
            &["sentences` item 1 "],
        ),
    ] {
        let message = refused(Setup::new(model()), path, &body).await;
        for name in names {
            let quoted = format!("`{name}{}", if name.ends_with(' ') { "" } else { "`" });
            assert!(message.contains(&quoted), "{path} {names:?}: {message}");
        }
    }
}

#[tokio::test]
async fn ignored_fields_have_the_names_that_the_client_sent() {
    for (fields, name) in [
        (json!({ "instruct": "i" }), "instruct"),
        (json!({ "instruction": "i" }), "instruction"),
        (json!({ "chat_template_kwargs": { "instruction": "i" } }), "chat_template_kwargs.instruction"),
    ] {
        let mut body = json!({ "text_1": "a", "text_2": ["b"] });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let got = post(&Setup::new(embedding()).build(), "/score", &body).await;
        assert_eq!((got.status.as_u16(), got.headers["x-ignored-fields"].to_str().unwrap()), (200, name), "{body}");
    }
}

#[tokio::test]
async fn refused_fields_come_before_unknown_ones() {
    let of_rerank = json!({ "query": "a", "documents": [{ "text": "b", "title": "t" }], "unknown": 1 });
    let of_input = json!({ "input": "a", "unknown": 1 });
    for (capabilities, path, body, field, value) in [
        (reranker(), "/v1/rerank", &of_rerank, "rank_fields", json!(["title"])),
        (reranker(), "/v1/rerank", &of_rerank, "relevant_spans", json!({ "mode": "enabled" })),
        (reranker(), "/v1/rerank", &of_rerank, "max_tokens_per_query", json!(8)),
        (embedding(), "/v1/embeddings", &of_input, "late_chunking", json!(true)),
        (embedding(), "/v1/embeddings", &of_input, "return_multivector", json!(true)),
        (embedding(), "/v1/embeddings", &of_input, "padding", json!("max_length")),
        (embedding(), "/v1/embeddings", &of_input, "messages", json!([])),
    ] {
        let mut setup = Setup::new(capabilities);
        setup.http.strict_fields = true;
        let mut body = body.clone();
        body[field] = value;
        let message = refused(setup, path, &body).await;
        assert!(message.contains(&format!("`{field}")) && !message.contains("unknown field"), "{message}");
    }
}

#[tokio::test]
async fn a_null_under_another_name_is_absent() {
    for (setup, path, body) in [
        (embedding(), "/v1/embeddings", json!({ "input": "a", "dimensions": 2, "output_dimension": null })),
        (
            embedding(),
            "/v1/embeddings",
            json!({ "input": "a", "normalize": null, "normalized": true, "activation": null }),
        ),
        (
            reranker(),
            "/rerank",
            json!({ "query": "a", "texts": ["b"], "top_k": null, "top_n": 1, "instruct": null, "instruction": null }),
        ),
    ] {
        let got = post(&Setup::new(setup).build(), path, body.clone()).await;
        assert_eq!(got.status, 200, "{body}: {}", got.body);
    }
    let both = json!({ "input": "a", "dimensions": 2, "output_dimension": 3, "user": null });
    let error = refused(Setup::new(embedding()), "/v1/embeddings", &both).await;
    assert!(error.contains("`dimensions` and `output_dimension`, names of the same field, are both sent"), "{error}");
}
