//! vLLM's routes: `/pooling`, `/invocations`, `/tokenize` with `prompt`, `/detokenize`, and its forms of vectors.

use super::floats;
use crate::testing::{DIM, Setup, ask, classifier, embedding, post, reranker};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use prefold_core::Capabilities;
use serde_json::{Value, json};

fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect()
}

#[tokio::test]
async fn pooling_embeds_unless_it_is_told_otherwise() {
    let app = Setup::new(embedding()).build();
    let texts = ["red fox", "blue whale"];
    let answer = ask(&app, "/pooling", json!({ "model": "m", "input": texts })).await;
    assert!(answer["id"].as_str().unwrap().starts_with("pooling-") && answer["created"].is_u64(), "{answer}");
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("m")));
    assert_eq!(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
    for (activated, options) in [(true, json!({})), (false, json!({ "use_activation": false }))] {
        let mut body = json!({ "input": texts, "task": "embed" });
        body.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let vectors = ask(&app, "/embed", json!({ "inputs": texts, "normalize": activated })).await;
        let pooled = ask(&app, "/pooling", body).await;
        for index in 0..2 {
            let item = &pooled["data"][index];
            assert_eq!(
                (&item["index"], &item["object"], &item["data"]),
                (&json!(index), &json!("pooling"), &vectors[index])
            );
        }
    }
    let short = ask(&app, "/pooling", json!({ "input": texts[0], "dimensions": 3 })).await;
    assert_eq!(floats(&short["data"][0]["data"]).len(), 3);
    for (body, part) in [
        (json!({ "input": "a", "task": "token_embed", "dimensions": 3 }), "needs the task `embed`"),
        (json!({ "input": "a", "task": "token_classify" }), "/predict_tokens"),
        (json!({ "input": "a", "task": "score" }), "`task`: unknown value `score`"),
        (json!({ "messages": [] }), "`messages`: chat messages are not supported"),
    ] {
        let refused = post(&app, "/pooling", &body).await;
        let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(refused.status == 400 && message.contains(part), "{body}: {message}");
    }
}

#[tokio::test]
async fn pooling_has_a_row_for_each_token() {
    let app = Setup::new(embedding()).build();
    let body = |format: &str| json!({ "input": [[1, 2, 3], [4]], "task": "token_embed", "encoding_format": format });
    let rows = ask(&app, "/pooling", body("float")).await;
    let of_input = |index: usize| -> Vec<Vec<f32>> {
        rows["data"][index]["data"].as_array().unwrap().iter().map(floats).collect()
    };
    let (first, second) = (of_input(0), of_input(1));
    assert_eq!((first.len(), second.len(), first[0].len()), (3, 1, DIM));
    let norm = |row: &Vec<f32>| row.iter().map(|value| value * value).sum::<f32>().sqrt();
    assert!(first.iter().chain(&second).all(|row| (norm(row) - 1.0).abs() < 1e-5), "{rows}");
    let own = ask(&app, "/embed_all", json!({ "inputs": [[1, 2, 3], [4]] })).await;
    let raw =
        ask(&app, "/pooling", json!({ "input": [[1, 2, 3], [4]], "task": "token_embed", "use_activation": false }))
            .await;
    assert_eq!((&raw["data"][0]["data"], &raw["data"][1]["data"]), (&own[0], &own[1]));

    let coded = ask(&app, "/pooling", body("base64")).await;
    assert_eq!(f32s(&STANDARD.decode(coded["data"][0]["data"].as_str().unwrap()).unwrap()), first.concat());
    let bytes = post(&app, "/pooling", body("bytes")).await;
    assert_eq!(bytes.status, 200, "{}", bytes.body);
    assert_eq!(bytes.headers["x-embedding-shape"], format!("4,{DIM}"));
    assert_eq!(f32s(&bytes.bytes), [first.concat(), second.concat()].concat());
    let metadata: Value = serde_json::from_slice(bytes.headers["metadata"].as_bytes()).unwrap();
    assert_eq!((&metadata["data"][0]["shape"], &metadata["data"][1]["shape"]), (&json!([3, DIM]), &json!([1, DIM])));
    assert_eq!((&metadata["data"][1]["start"], &metadata["data"][1]["end"]), (&json!(12 * DIM), &json!(16 * DIM)));
    assert_eq!(metadata["usage"]["prompt_tokens"], 4);
}

#[tokio::test]
async fn pooling_classifies() {
    let app = Setup::new(classifier(&["joy", "anger", "fear"])).build();
    for activated in [true, false] {
        let answer = ask(&app, "/pooling", json!({ "input": ["red fox", "b"], "use_activation": activated })).await;
        let classes = ask(&app, "/classify", json!({ "input": ["red fox", "b"], "use_activation": activated })).await;
        for index in 0..2 {
            assert_eq!(answer["data"][index]["data"], classes["data"][index]["probs"]);
        }
    }
    let tokens = Setup::new(Capabilities::token_classifier(vec!["O".to_owned(), "B".to_owned()], 256)).build();
    assert!(post(&tokens, "/pooling", json!({ "input": "a" })).await.body.contains("/predict_tokens"));
}

#[tokio::test]
async fn vectors_are_bytes_in_every_type_and_order() {
    let app = Setup::new(embedding()).build();
    let texts = ["red fox", "b"];
    let plain: Vec<f32> =
        ask(&app, "/embed", json!({ "inputs": texts })).await.as_array().unwrap().iter().flat_map(floats).collect();
    let body = |format: &str, element: &str, endianness: &str| json!({ "input": texts, "encoding_format": format, "embed_dtype": element, "endianness": endianness });
    for (element, size) in [("float32", 4), ("float16", 2), ("bfloat16", 2), ("fp8_e4m3", 1), ("fp8_e5m2", 1)] {
        let mut by_order = Vec::new();
        for endianness in ["little", "native", "big"] {
            let only = post(&app, "/v1/embeddings", body("bytes_only", element, endianness)).await;
            assert!(only.status == 200 && !only.headers.contains_key("metadata"), "{}", only.body);
            assert_eq!(only.bytes.len(), plain.len() * size);
            let described = post(&app, "/v1/embeddings", body("bytes", element, endianness)).await;
            assert_eq!(described.bytes, only.bytes);
            let metadata: Value = serde_json::from_slice(described.headers["metadata"].as_bytes()).unwrap();
            let place = json!({ "index": 1, "embed_dtype": element, "endianness": endianness, "start": DIM * size,
                "end": 2 * DIM * size, "shape": [DIM] });
            assert_eq!((&metadata["data"][1], &metadata["model"]), (&place, &json!("fake")));
            let coded = ask(&app, "/v1/embeddings", body("base64", element, endianness)).await;
            let decode = |index: usize| STANDARD.decode(coded["data"][index]["embedding"].as_str().unwrap()).unwrap();
            assert_eq!([decode(0), decode(1)].concat(), only.bytes, "{element} {endianness}");
            by_order.push(only.bytes);
        }
        let [little, native, mut big] = <[Vec<u8>; 3]>::try_from(by_order).unwrap();
        big.chunks_mut(size).for_each(<[u8]>::reverse);
        assert!(native == little && big == little, "{element}");
        if element == "float32" {
            assert_eq!(f32s(&little), plain);
        }
    }
}

#[tokio::test]
async fn a_header_describes_a_limited_number_of_inputs() {
    let app = Setup::new(embedding()).build();
    for (path, inputs, status) in [("/v1/embeddings", 256, 200), ("/v1/embeddings", 257, 400), ("/pooling", 257, 400)] {
        let inputs: Vec<Vec<usize>> = vec![vec![1]; inputs];
        // Each character of the name is six in the header.
        let body = json!({ "model": "\u{e9}".repeat(2048), "input": inputs, "encoding_format": "bytes" });
        let got = post(&app, path, body).await;
        assert_eq!(got.status, status, "{}", got.body);
        match got.headers.get("metadata") {
            Some(metadata) => assert!(metadata.len() < 60_000, "{}", metadata.len()),
            None => assert!(got.body.contains("bytes_only"), "{}", got.body),
        }
    }
}

#[tokio::test]
async fn a_prompt_is_tokenized_to_ids_and_back() {
    let app = Setup::new(embedding()).build();
    let tokens = ask(&app, "/tokenize", json!({ "inputs": "red fox" })).await[0].as_array().unwrap().clone();
    let field = |name: &str| -> Vec<Value> { tokens.iter().map(|token| token[name].clone()).collect() };
    let answer = ask(&app, "/tokenize", json!({ "model": "m", "prompt": "red fox" })).await;
    let expected = json!({ "count": tokens.len(), "max_model_len": 256, "tokens": field("id"), "token_strs": null });
    assert_eq!(answer, expected);
    let shown = ask(&app, "/tokenize", json!({ "prompt": "red fox", "return_token_strs": true })).await;
    let texts: Vec<String> = field("text").iter().map(|text| text.as_str().unwrap().replace(' ', "Ġ")).collect();
    assert_eq!(shown["token_strs"], json!(texts));
    let bare = ask(&app, "/tokenize", json!({ "prompt": "red fox", "add_special_tokens": false })).await;
    assert_eq!(bare["count"], tokens.len() - 1);
    let text = ask(&app, "/detokenize", json!({ "model": "m", "tokens": bare["tokens"] })).await;
    assert_eq!(text, json!({ "prompt": "red fox" }));
    assert_eq!(ask(&app, "/detokenize", json!({ "tokens": [] })).await, json!({ "prompt": "" }));
    let whole = ask(&app, "/detokenize", json!({ "tokens": answer["tokens"] })).await;
    assert_ne!(whole, text, "special tokens are shown");
    for (path, body, field) in [
        ("/detokenize", json!({ "tokens": [[1], [2]] }), "`tokens`"),
        ("/detokenize", json!({ "tokens": [9_999_999] }), "`tokens`"),
        ("/tokenize", json!({ "prompt": "a", "inputs": "a" }), "`prompt`"),
        ("/tokenize", json!({}), "`inputs`"),
    ] {
        let refused = post(&app, path, &body).await;
        assert!(refused.status.is_client_error() && refused.body.contains(field), "{body}: {}", refused.body);
    }
    let of_vllm = |body: Value| (body["error"]["code"].as_u64(), body.get("error_type").is_none());
    for (body, is_of_vllm) in [
        (json!({ "prompt": "a", "prompt_name": "x" }), true),
        (json!({ "prompt": 5 }), true),
        (json!({ "messages": [] }), true),
        (json!({ "inputs": "a", "prompt_name": "x" }), false),
        (json!({ "inputs": 5 }), false),
        (json!({ "inputs": "a", "prompt": "a" }), false),
    ] {
        let refused = post(&app, "/tokenize", &body).await;
        let form = of_vllm(serde_json::from_str(&refused.body).unwrap());
        assert_eq!(form, if is_of_vllm { (Some(400), true) } else { (None, false) }, "{body}: {}", refused.body);
    }
}

#[tokio::test]
async fn invocations_are_answered_by_the_route_of_their_fields() {
    let (embeds, reranks) = (Setup::new(embedding()).build(), Setup::new(reranker()).build());
    let classifies = Setup::new(classifier(&["joy", "fear"])).build();
    let score = json!({ "text_1": "fox", "text_2": ["red", "blue"] });
    let documents = json!({ "query": "fox", "documents": ["red", "blue"] });
    for (app, path, body) in [
        (&embeds, "/v1/embeddings", json!({ "model": "m", "input": "red fox" })),
        (&embeds, "/embed", json!({ "inputs": ["red fox"] })),
        (&embeds, "/similarity", json!({ "inputs": { "source_sentence": "a", "sentences": ["b"] } })),
        (&embeds, "/v1/rerank", documents.clone()),
        (&reranks, "/v1/rerank", documents),
        (&reranks, "/rerank", json!({ "query": "fox", "texts": ["red", "blue"] })),
        (&reranks, "/v1/score", score),
        (&classifies, "/v1/classify", json!({ "input": "red fox" })),
        (&classifies, "/predict", json!({ "inputs": "red fox" })),
    ] {
        let same = |mut answer: Value| {
            if let Some(fields) = answer.as_object_mut() {
                fields.retain(|name, _| !matches!(name.as_str(), "id" | "created"));
            }
            answer
        };
        let invoked = same(ask(app, "/invocations", body.clone()).await);
        assert_eq!(invoked, same(ask(app, path, body).await), "{path}");
    }
    let refused = post(&embeds, "/invocations", json!({ "prompt": "a" })).await;
    assert!(refused.status == 400 && refused.json()["error"]["param"] == "input", "{}", refused.body);
}
