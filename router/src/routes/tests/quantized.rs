//! Quantized vectors of `/v1/embeddings`, and Jina's fields.

use super::floats;
use crate::testing::{DIM, Setup, ask, embedding, get, post, send};
use axum::body::Body;
use axum::http::{Request, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const TYPES: [&str; 4] = ["int8", "uint8", "binary", "ubinary"];

fn integers(value: &Value) -> Vec<i16> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Integers in bytes of a type.
fn of_bytes(kind: &str, bytes: &[u8]) -> Vec<i16> {
    let integer = |&byte: &u8| if kind.starts_with('u') { i16::from(byte) } else { i16::from(byte.cast_signed()) };
    bytes.iter().map(integer).collect()
}

#[tokio::test]
async fn voyages_jinas_and_coheres_integers_are_the_same() {
    let app = Setup::new(embedding()).build();
    let all = ask(&app, "/v2/embed", json!({ "texts": ["red fox", "b"], "embedding_types": TYPES })).await;
    for kind in TYPES {
        let expected = [0, 1].map(|index| integers(&all["embeddings"][kind][index]));
        let ask = |fields: Value| {
            let mut body = json!({ "input": ["red fox", "b"] });
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let app = &app;
            async move { ask(app, "/v1/embeddings", body).await["data"].clone() }
        };
        let lists = |data: &Value| [0, 1].map(|index| integers(&data[index]["embedding"]));
        let coded = |data: &Value| {
            [0, 1].map(|index| of_bytes(kind, &STANDARD.decode(data[index]["embedding"].as_str().unwrap()).unwrap()))
        };
        assert_eq!(lists(&ask(json!({ "output_dtype": kind })).await), expected, "{kind}");
        assert_eq!(coded(&ask(json!({ "output_dtype": kind, "encoding_format": "base64" })).await), expected, "{kind}");
        // OpenAI's client asks for base64 and reads it as floats; Jina's field decides the form.
        let jina = ask(json!({ "embedding_type": kind, "encoding_format": "base64" })).await;
        assert_eq!(lists(&jina), expected, "{kind}");
        let body = json!({ "input": ["red fox", "b"], "output_dtype": kind });
        let request = Request::post("/v1/embeddings").header(header::ACCEPT, "application/octet-stream");
        let binary = send(&app, request.body(Body::from(body.to_string())).unwrap()).await;
        assert_eq!(of_bytes(kind, &binary.bytes), expected.concat(), "{kind}");
        assert_eq!(binary.headers["x-embedding-dtype"], kind);
        assert_eq!(binary.headers["x-embedding-shape"], format!("2,{}", expected[0].len()));
    }
}

#[tokio::test]
async fn a_vector_is_the_same_alone_and_among_others() {
    let embed = async |texts: Value, dimensions: usize| {
        let app = Setup::new(embedding()).build();
        let body = json!({ "input": texts, "output_dtype": "int8", "dimensions": dimensions });
        let got = post(&app, "/v1/embeddings", body).await;
        let range: f32 = got.headers["x-embedding-range"].to_str().unwrap().parse().unwrap();
        (integers(&got.json()["data"][0]["embedding"]), range, got.json()["data"].clone())
    };
    for dimensions in [1, 3, DIM] {
        let (alone, range, _) = embed(json!("red fox"), dimensions).await;
        let (among, same, _) = embed(json!(["red fox", "blue whale", "a", "b"]), dimensions).await;
        assert_eq!((alone.len(), &alone, range), (dimensions, &among, same));
        let app = Setup::new(embedding()).build();
        let float = ask(&app, "/embed", json!({ "inputs": "red fox", "dimensions": dimensions })).await;
        for (integer, value) in alone.iter().zip(floats(&float[0])) {
            let value = value.clamp(-range, range);
            assert!((f32::from(*integer) / 127.0 * range - value).abs() <= range / 254.0 * 1.001, "{integer} {value}");
        }
    }
}

#[tokio::test]
async fn info_states_the_range_once_it_is_measured() {
    let app = Setup::new(embedding()).build();
    assert_eq!(get(&app, "/info").await.json()["embedding_range"], Value::Null);
    for kind in ["binary", "ubinary", "float"] {
        let got = post(&app, "/v1/embeddings", json!({ "input": "a", "output_dtype": kind })).await;
        assert_eq!((got.status.as_u16(), got.headers.get("x-embedding-range")), (200, None), "{kind}");
    }
    assert_eq!(get(&app, "/info").await.json()["embedding_range"], Value::Null);
    let got = post(&app, "/v1/embeddings", json!({ "input": "a", "embedding_type": "uint8" })).await;
    let range: f32 = got.headers["x-embedding-range"].to_str().unwrap().parse().unwrap();
    let info = get(&app, "/info").await.json();
    assert_eq!(info["embedding_range"].as_f64().map(|range| range as f32), Some(range));
    let cohere = post(&app, "/v2/embed", json!({ "texts": ["a"], "embedding_types": ["float", "int8"] })).await;
    assert_eq!(cohere.headers["x-embedding-range"], got.headers["x-embedding-range"]);
}

#[tokio::test]
async fn jinas_types_are_lists_or_base64() {
    let app = Setup::new(embedding()).build();
    let plain = ask(&app, "/v1/embeddings", json!({ "input": "fox" })).await;
    for (fields, is_text) in [
        (json!({ "embedding_type": "float" }), false),
        (json!({ "embedding_type": "float", "encoding_format": "base64" }), false),
        (json!({ "embedding_type": "base64" }), true),
        (json!({ "output_dtype": "float" }), false),
        (json!({ "output_dtype": "float", "encoding_format": "base64" }), true),
    ] {
        let mut body = json!({ "input": "fox" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let vector = &ask(&app, "/v1/embeddings", body).await["data"][0]["embedding"];
        let decoded = vector.as_str().map(|text| STANDARD.decode(text).unwrap());
        let decoded =
            decoded.map(|bytes| bytes.as_chunks::<4>().0.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect());
        assert_eq!(decoded.is_some(), is_text, "{fields}");
        assert_eq!(decoded.unwrap_or_else(|| floats(vector)), floats(&plain["data"][0]["embedding"]), "{fields}");
    }
}

#[tokio::test]
async fn vectors_may_have_their_own_length() {
    let app = Setup::new(embedding()).build();
    let raw = ask(&app, "/embed", json!({ "inputs": "fox", "normalize": false, "dimensions": 4 })).await;
    let unscaled = ask(&app, "/v1/embeddings", json!({ "input": "fox", "normalized": false, "dimensions": 4 })).await;
    assert_eq!(unscaled["data"][0]["embedding"], raw[0]);
    for fields in
        [json!({ "normalized": true, "late_chunking": false }), json!({ "normalized": null, "late_chunking": null })]
    {
        let mut body = json!({ "input": "fox", "dimensions": 4 });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let length: f32 =
            floats(&ask(&app, "/v1/embeddings", body).await["data"][0]["embedding"]).iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-6);
    }
}

#[tokio::test]
async fn fields_that_contradict_each_other_are_refused() {
    let app = Setup::new(embedding()).build();
    for (fields, field) in [
        (json!({ "late_chunking": true }), "late_chunking"),
        (json!({ "embedding_type": "int8", "output_dtype": "int8" }), "output_dtype"),
        (json!({ "output_dtype": "int8", "embed_dtype": "float16" }), "embed_dtype"),
        (json!({ "embedding_type": "uint8", "normalized": false }), "normalized"),
        (json!({ "output_dtype": "binary", "dimensions": 4 }), "output_dtype"),
        (json!({ "embedding_type": "ubinary", "dimensions": 7 }), "embedding_type"),
        (json!({ "output_dtype": "int4" }), "output_dtype"),
        (json!({ "embedding_type": ["float", "binary"] }), "embedding_type"),
        (json!({ "output_dtype": "int8", "dimensions": 9 }), "dimensions"),
    ] {
        let mut body = json!({ "input": "fox" });
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let got = post(&app, "/v1/embeddings", body).await;
        assert_eq!(
            (got.status.as_u16(), &got.json()["error"]["param"]),
            (400, &json!(field)),
            "{fields}: {}",
            got.body
        );
    }
    let bits =
        ask(&app, "/v1/embeddings", json!({ "input": "fox", "output_dtype": "binary", "normalized": false })).await;
    assert_eq!(integers(&bits["data"][0]["embedding"]).len(), 1, "bits do not depend on the length");
    let request = Request::post("/v1/embeddings").header(header::ACCEPT, "application/octet-stream;dtype=float16");
    let body = json!({ "input": "fox", "output_dtype": "int8" }).to_string();
    assert_eq!(send(&app, request.body(Body::from(body)).unwrap()).await.status, 400);
}
