//! Each set of capabilities answers its routes, and refuses the others with the routes that there are.

use crate::routes::table;
use crate::state::App;
use crate::testing::{Setup, classifier, embedding, post};
use prefold_backends::{DeviceChoice, LoadOptions, ModelSource};
use prefold_core::{Capabilities, Task};
use serde_json::{Value, json};

/// An app over a reference checkpoint.
fn served(name: &str) -> App {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures");
    let source = ModelSource::Path([fixtures, name].iter().collect());
    let options = LoadOptions { source, device: Some(DeviceChoice::Cpu), ..LoadOptions::default() };
    Setup::new(embedding()).over(prefold_backends::load(&options).unwrap())
}

fn routes() -> [(Task, &'static str, Value); 19] {
    let pairs = json!({ "queries": "a", "documents": ["b"] });
    [
        (Task::Embed, "/embed", json!({ "inputs": "a" })),
        (Task::Embed, "/embed_all", json!({ "inputs": "a" })),
        (Task::Embed, "/similarity", json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] } })),
        (Task::Embed, "/v1/embeddings", json!({ "input": "a" })),
        (Task::Embed, "/api/embed", json!({ "input": "a" })),
        (Task::Embed, "/api/embeddings", json!({ "prompt": "a" })),
        (Task::Embed, "/pooling", json!({ "input": "a", "task": "embed" })),
        (Task::Embed, "/pooling", json!({ "input": "a", "task": "token_embed" })),
        (Task::Rerank, "/reranking", json!({ "query": "a", "documents": ["b"] })),
        (Task::Embed, "/v1/embed", json!({ "texts": ["a"] })),
        (Task::Embed, "/v2/embed", json!({ "texts": ["a"] })),
        (Task::Rerank, "/rerank", json!({ "query": "a", "texts": ["b"] })),
        (Task::Rerank, "/v1/rerank", json!({ "query": "a", "documents": ["b"] })),
        (Task::Rerank, "/v2/rerank", json!({ "query": "a", "documents": ["b"] })),
        (Task::Rerank, "/v1/score", pairs),
        (Task::Classify, "/predict", json!({ "inputs": "a" })),
        (Task::Classify, "/v1/classify", json!({ "input": "a" })),
        (Task::Classify, "/pooling", json!({ "input": "a", "task": "classify" })),
        (Task::ClassifyTokens, "/predict_tokens", json!({ "inputs": "a" })),
    ]
}

#[tokio::test]
async fn every_set_answers_its_routes_and_names_them_to_others() {
    let both = Capabilities { classify: classifier(&["a", "b"]).classify, ..embedding() };
    let embeds = "use /v1/embeddings, /embed, /embed_all, /rerank, /v1/rerank or /v1/score";
    let classifies = "use /predict or /v1/classify";
    let reranks = "use /rerank, /v1/rerank or /v1/score";
    let (embed, rerank, classify) = (Task::Embed, Task::Rerank, Task::Classify);
    for (name, app, tasks, advice) in [
        ("qwen3-tiny", served("qwen3-tiny"), &[embed, rerank][..], embeds),
        ("qwen2-tiny", served("qwen2-tiny"), &[embed, rerank], embeds),
        ("llama-tiny", served("llama-tiny"), &[embed, rerank], embeds),
        ("mistral-tiny", served("mistral-tiny"), &[embed, rerank], embeds),
        ("qwen3-reranker-tiny", served("qwen3-reranker-tiny"), &[rerank], reranks),
        (
            "llama-seqcls-tiny",
            served("llama-seqcls-tiny"),
            &[rerank, classify],
            "use /rerank, /v1/rerank, /v1/score, /predict or /v1/classify",
        ),
        ("qwen3-seqcls-tiny", served("qwen3-seqcls-tiny"), &[classify], classifies),
        ("bert-ner-tiny", served("bert-ner-tiny"), &[Task::ClassifyTokens], "use /predict_tokens"),
        (
            "embeds and classifies",
            Setup::new(both).build(),
            &[embed, rerank, classify],
            "use /v1/embeddings, /embed, /embed_all, /rerank, /v1/rerank, /v1/score, /predict or /v1/classify",
        ),
    ] {
        for (task, route, body) in routes() {
            let got = post(&app, route, &body).await;
            // `/rerank` and its aliases err as the API of the list that the body has.
            let has_one_status = table::dialect_of(route).has_one_status() || body.get("documents").is_some();
            let refused = if has_one_status { 400 } else { 422 };
            let expected = if tasks.contains(&task) { 200 } else { refused };
            assert_eq!(got.status, expected, "{name} {route}: {}", got.body);
            assert!(expected == 200 || got.body.contains(advice), "{name} {route}: {}", got.body);
        }
    }
}
