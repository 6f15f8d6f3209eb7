//! Seeds: bodies that each route accepts, and some that it refuses.

use super::Seeds;
use prefold_fuzz::requests::{KINDS, selector};
use serde_json::{Value, json};

pub(crate) fn seeds() -> Seeds {
    let mut seeds = Seeds::new();
    for (route, kind, body) in bodies() {
        let number = seeds.len();
        let name = format!("{number:02}{}", route.replace('/', "-"));
        seeds
            .push((name, [&selector(route, kind, number.is_multiple_of(5))[..], body.to_string().as_bytes()].concat()));
    }
    // Sent to every model; most refuse it.
    for kind in 0..KINDS {
        let body = json!({"inputs": "red fox", "query": "fox", "texts": ["red", "blue"], "parameters": {"top_k": 1}});
        seeds
            .push((format!("default-{kind}"), [&selector("/", kind, false)[..], body.to_string().as_bytes()].concat()));
    }
    for (name, body) in [
        ("cut", &br#"{"inputs": "red"#[..]),
        ("surrogate", br#"{"inputs": "\ud83e"}"#),
        ("deep", &[b'['; 200]),
        ("no-utf8", b"{\"inputs\": \"\xff\xfe\"}"),
        ("twice", br#"{"inputs": "a", "inputs": "b"}"#),
    ] {
        seeds.push((name.to_owned(), [&selector("/embed", 0, false)[..], body].concat()));
    }
    seeds
}

/// Routes, kinds of models (embedding, reranker, classifier with one label, classifier with three labels, token
/// classifier) and bodies.
fn bodies() -> Vec<(&'static str, usize, Value)> {
    let texts = json!(["red", "blue", "red"]);
    let rerank = json!({"query": "fox", "documents": ["red", {"text": "blue"}], "top_n": 1, "return_documents": true});
    vec![
        ("/embed", 0, json!({"inputs": "red fox", "normalize": false, "dimensions": 3, "prompt_name": "query"})),
        ("/embed", 0, json!({"inputs": [[1, 2, 3], "red", [5]], "truncate": true, "truncation_direction": "Left"})),
        ("/embed", 0, json!({"inputs": texts, "embed_dtype": "float16"})),
        ("/embed_all", 0, json!({"inputs": ["red fox", "blue"]})),
        ("/similarity", 0, json!({"inputs": {"source_sentence": "red", "sentences": ["blue", "green"]}})),
        ("/predict", 2, json!({"inputs": "red fox", "raw_scores": true})),
        ("/predict", 3, json!({"inputs": [["red", "fox"], ["blue"]]})),
        ("/predict", 3, json!({"inputs": ["red", "fox"]})),
        ("/rerank", 0, json!({"query": "fox", "texts": ["red", "blue"], "return_text": true, "raw_scores": true})),
        ("/rerank", 1, json!({"query": "fox", "texts": ["red", "blue"], "truncate": true, "raw_scores": true})),
        ("/rerank", 2, json!({"query": "fox", "texts": ["red"]})),
        ("/tokenize", 0, json!({"inputs": ["red fox", "été"], "add_special_tokens": false, "prompt_name": "query"})),
        ("/decode", 1, json!({"ids": [[1, 2, 3], [1000]], "skip_special_tokens": false})),
        ("/decode", 3, json!({"ids": [5, 6]})),
        ("/v1/embeddings", 0, json!({"input": texts, "model": "x", "encoding_format": "base64", "dimensions": 4})),
        ("/v1/embeddings", 0, json!({"input": [[1, 2], [3]], "encoding_format": "float", "user": "u"})),
        ("/v1/embeddings", 0, json!({"input": "red", "encoding_format": "base64", "embed_dtype": "bfloat16"})),
        ("/v1/embeddings", 0, json!({"input": texts, "output_dtype": "int8", "encoding_format": "base64"})),
        ("/v1/embeddings", 0, json!({"input": texts, "output_dtype": "uint8", "late_chunking": false})),
        ("/v1/embeddings", 0, json!({"input": texts, "embedding_type": "binary", "normalized": false})),
        ("/v1/embed", 0, json!({"texts": texts, "model": "x", "truncate": "NONE"})),
        ("/v1/embed", 0, json!({"texts": ["red"], "embedding_types": ["float"], "input_type": "search_query"})),
        (
            "/v2/embed",
            0,
            json!({"texts": texts, "embedding_types": ["float", "int8", "uint8", "binary", "ubinary", "base64"], "truncate": "START",
                   "max_tokens": 4}),
        ),
        ("/v2/embed", 0, json!({"inputs": [{"content": [{"type": "text", "text": "red"}]}], "output_dimension": 3})),
        ("/v1/tokenize", 0, json!({"text": "red été", "model": "x"})),
        ("/v1/detokenize", 0, json!({"tokens": [1, 2, 3], "model": "x"})),
        ("/v1/rerank", 1, rerank.clone()),
        ("/v1/rerank", 2, rerank.clone()),
        (
            "/v2/rerank",
            0,
            json!({"query": "fox", "documents": ["red", "blue"], "instruction": "x", "max_tokens_per_doc": 9}),
        ),
        (
            "/v2/rerank",
            1,
            json!({"query": "fox", "documents": ["red", "blue"], "max_tokens_per_doc": 1, "rank_fields": ["text"]}),
        ),
        ("/v2/rerank", 1, rerank),
        ("/v1/score", 0, json!({"text_1": "red", "text_2": ["blue", "green"]})),
        ("/v1/score", 1, json!({"queries": ["red", "blue"], "documents": ["blue", "green"]})),
        ("/v1/score", 2, json!({"text_1": ["red"], "text_2": "green", "truncate_prompt_tokens": 5})),
        ("/v1/classify", 3, json!({"input": ["red", "blue"], "use_activation": false, "truncate_prompt_tokens": -1})),
        ("/v1/classify", 2, json!({"input": "red", "truncation_side": "left", "truncate_prompt_tokens": 2})),
        ("/embeddings", 0, json!({"input": "red"})),
        ("/score", 1, json!({"text_1": "red", "text_2": "blue"})),
        ("/classify", 3, json!({"input": [1, 2, 3]})),
        (
            "/predict_tokens",
            4,
            json!({"inputs": ["red fox", "blue"], "aggregation_strategy": "average", "ignore_labels": []}),
        ),
        ("/predict_tokens", 4, json!({"inputs": "red été", "raw_scores": true, "truncate": true})),
        ("/v1/embeddings", 0, json!({"input": "red", "encoding_format": "bytes", "embed_dtype": "fp8_e4m3"})),
        ("/v1/embeddings", 0, json!({"input": "red", "encoding_format": "base64", "endianness": "big"})),
        ("/classify", 3, json!({"input": ["red"], "raw_scores": false})),
        ("/tokenize", 0, json!({"prompt": "red fox", "return_token_strs": true, "add_special_tokens": false})),
        ("/pooling", 0, json!({"input": texts, "task": "token_embed", "encoding_format": "base64"})),
        ("/pooling", 0, json!({"input": "red", "encoding_format": "bytes_only", "embed_dtype": "fp8_e5m2"})),
        ("/pooling", 3, json!({"input": [[1, 2], "red"], "use_activation": false})),
        ("/invocations", 0, json!({"input": "red"})),
        ("/invocations", 1, json!({"query": "fox", "documents": ["red"]})),
        ("/invocations", 3, json!({"inputs": "red"})),
        ("/detokenize", 0, json!({"tokens": [1, 2, 3]})),
        ("/reranking", 1, json!({"query": "fox", "texts": ["red"]})),
        ("/v1/reranking", 1, json!({"query": "fox", "documents": ["red"]})),
        (
            "/api/embed",
            0,
            json!({"model": "fake:latest", "input": texts, "dimensions": 3, "options": {"num_ctx": 4}, "keep_alive": -1}),
        ),
        ("/api/embed", 0, json!({"input": "", "truncate": false})),
        ("/api/embeddings", 0, json!({"model": "fake", "prompt": "red fox", "options": {"temperature": null}})),
        ("/api/show", 0, json!({"model": "fake:latest", "verbose": true})),
        ("/api/pull", 0, json!({"model": "fake", "stream": false})),
    ]
}
