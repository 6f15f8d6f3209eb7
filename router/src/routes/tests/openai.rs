//! `/v1/embeddings` in all its forms, and `/v1/models`.

use super::{floats, strings};
use crate::state::App;
use crate::testing::{DIM, Got, Setup, ask, embedding, get, post, send};
use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine;
use serde_json::{Value, json};

fn decoded<const N: usize>(bytes: &[u8], decode: impl Fn([u8; N]) -> f32) -> Vec<f32> {
    bytes.as_chunks::<N>().0.iter().map(|&chunk| decode(chunk)).collect()
}

/// POSTs with an `Accept` header.
async fn accepting(app: &App, path: &str, accept: &str, body: Value) -> Got {
    let request = Request::post(path).header(header::ACCEPT, accept).body(Body::from(body.to_string())).unwrap();
    send(app, request).await
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
async fn no_dimensions_are_an_error_unless_infinitys_client_sends_them() {
    let app = Setup::new(embedding()).build();
    let refused = post(&app, "/v1/embeddings", json!({ "input": "red fox", "dimensions": 0 })).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["error"]["param"]), (400, &json!("dimensions")));
    let body = json!({ "input": "red fox", "dimensions": 0, "modality": "text", "user": null });
    let whole = ask(&app, "/v1/embeddings", body).await;
    assert_eq!(floats(&whole["data"][0]["embedding"]).len(), DIM);
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
    assert_eq!((refused.status.as_u16(), refused.json()["error_type"].as_str()), (400, Some("Empty")));
    let unknown = accepting(&app, "/embed", "application/octet-stream;dtype=int8", json!({ "inputs": "a" })).await;
    assert!(unknown.status == 422 && unknown.body.contains("int8"), "{}", unknown.body);
    assert_eq!(post(&app, "/v1/embeddings", json!({ "input": "a", "endianness": "middle" })).await.status, 400);
}

#[tokio::test]
async fn fields_about_bytes_are_ignored_in_lists_of_numbers() {
    let (app, mut strict) = (Setup::new(embedding()).build(), Setup::new(embedding()));
    strict.http.strict_fields = true;
    let strict = strict.build();
    for (fields, ignored) in [
        (json!({ "embed_dtype": "float16", "endianness": "big" }), Some("embed_dtype, endianness")),
        (json!({ "endianness": "big", "output_dtype": "int8" }), Some("endianness")),
        (json!({ "embed_dtype": "float32", "endianness": "native" }), None),
        (json!({ "embed_dtype": "float16", "endianness": "big", "encoding_format": "base64" }), None),
        (json!({ "embed_dtype": "float16", "endianness": "big", "encoding_format": "bytes_only" }), None),
    ] {
        let mut body = json!({ "input": "a" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let paths = if fields.get("output_dtype").is_some() {
            vec!["/v1/embeddings"]
        } else {
            vec!["/v1/embeddings", "/pooling"]
        };
        for path in paths {
            let got = post(&app, path, &body).await;
            assert_eq!(got.headers.get("x-ignored-fields").map(|it| it.to_str().unwrap()), ignored, "{path} {body}");
            assert_eq!(post(&strict, path, &body).await.status == 400, ignored.is_some(), "{path} {body}");
        }
    }
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
        assert_eq!((got.status.as_u16(), &got.json()["error"]["param"]), (400, &json!("truncate_prompt_tokens")));
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
async fn a_name_that_is_too_long_to_be_repeated_is_refused() {
    let app = Setup::new(embedding()).build();
    let body = |len| json!({ "model": "m".repeat(len), "input": "red fox" });
    assert_eq!(ask(&app, "/v1/embeddings", body(4096)).await["model"], "m".repeat(4096));
    let refused = post(&app, "/v1/embeddings", body(4097)).await;
    assert_eq!(refused.status, 400);
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("`model` has 4097 bytes, the limit is 4096"), "{message}");
}
