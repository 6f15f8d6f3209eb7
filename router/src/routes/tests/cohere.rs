//! Cohere's routes.

use super::floats;
use crate::testing::{DIM, Setup, adapted, ask, classifier, embedding, get, post, reranker};
use base64::Engine;
use serde_json::{Value, json};

const TEXTS: [&str; 2] = ["red fox", "blue \"whale\"\n"];

#[tokio::test]
async fn the_first_version_has_a_plain_list() {
    let app = Setup::new(embedding()).build();
    let vectors = ask(&app, "/embed", json!({ "inputs": TEXTS })).await;
    let answer = ask(&app, "/v1/embed", json!({ "texts": TEXTS, "model": "m", "input_type": null })).await;
    assert!(answer["id"].as_str().unwrap().starts_with("embed-"));
    assert_eq!(answer["response_type"], "embeddings_floats");
    assert_eq!((&answer["embeddings"], &answer["texts"]), (&vectors, &json!(TEXTS)));
    let meta = &answer["meta"];
    assert_eq!((&meta["api_version"]["version"], &meta["billed_units"]["search_units"]), (&json!("1"), &Value::Null));
    assert!(meta["billed_units"]["input_tokens"].as_u64().unwrap() >= 4);
    assert_eq!(meta["billed_units"]["input_tokens"], meta["tokens"]["input_tokens"]);
    let empty = ask(&app, "/v1/embed", json!({ "texts": TEXTS, "embedding_types": [] })).await;
    assert_eq!(empty["embeddings"], vectors);
    let typed = ask(&app, "/v1/embed", json!({ "texts": TEXTS, "embedding_types": ["float"] })).await;
    assert_eq!(
        (&typed["response_type"], &typed["embeddings"]),
        (&json!("embeddings_by_type"), &json!({ "float": vectors }))
    );
}

#[tokio::test]
async fn vectors_come_in_all_types_at_once() {
    let app = Setup::new(embedding()).build();
    let plain = ask(&app, "/v2/embed", json!({ "texts": TEXTS })).await;
    assert_eq!((&plain["texts"], &plain["meta"]["api_version"]["version"]), (&json!(TEXTS), &json!("2")));
    assert_eq!(plain["embeddings"].as_object().unwrap().len(), 1);
    let all = ["base64", "float", "int8", "uint8", "binary", "ubinary", "float"];
    let answer = ask(&app, "/v2/embed", json!({ "texts": TEXTS, "embedding_types": all })).await;
    let embeddings = &answer["embeddings"];
    let order: Vec<&str> = embeddings.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(order.len(), 6, "{order:?}");
    assert_eq!(embeddings["float"], plain["embeddings"]["float"]);
    for index in 0..TEXTS.len() {
        let of = |kind: &str| embeddings[kind][index].clone();
        let integers = |kind: &str| serde_json::from_value::<Vec<i32>>(of(kind)).unwrap();
        let signed = integers("int8");
        assert_eq!(integers("uint8"), signed.iter().map(|integer| integer + 128).collect::<Vec<_>>());
        assert_eq!(integers("binary"), integers("ubinary").iter().map(|bits| bits - 128).collect::<Vec<_>>());
        let float = floats(&of("float"));
        let bits = (0..DIM).fold(0, |byte, bit| byte | i32::from(float[bit] > 0.0) << (7 - bit));
        assert_eq!((signed.len(), integers("ubinary")), (DIM, vec![bits]));
        let bytes = base64::engine::general_purpose::STANDARD.decode(of("base64").as_str().unwrap()).unwrap();
        let decoded: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|&chunk| f32::from_le_bytes(chunk)).collect();
        assert_eq!(decoded, float);
    }
}

#[tokio::test]
async fn inputs_in_parts_are_texts() {
    let app = Setup::new(embedding()).build();
    let part = |text: &str| json!({ "type": "text", "text": text });
    let inputs = json!([{ "content": [part("red fox")] }, { "content": [part("red"), part("fox")] }]);
    let answer = ask(&app, "/v2/embed", json!({ "inputs": inputs, "images": null })).await;
    let texts = ask(&app, "/v2/embed", json!({ "texts": ["red fox", "red\nfox"] })).await;
    assert_eq!((&answer["embeddings"], answer.get("texts")), (&texts["embeddings"], None));
}

#[tokio::test]
async fn long_texts_are_cut_where_the_request_says() {
    let app = Setup::new(embedding()).build();
    let long = format!("fox {}whale", "red ".repeat(400));
    let embed = |body: Value| {
        let (app, long) = (&app, &long);
        async move {
            let mut all = json!({ "texts": [long] });
            all.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            post(app, "/v2/embed", all).await
        }
    };
    let tokens = |got: &crate::testing::Got| got.json()["meta"]["tokens"]["input_tokens"].as_u64().unwrap();
    let (end, start) = (embed(json!({ "truncate": "END" })).await, embed(json!({ "truncate": "START" })).await);
    assert_eq!((tokens(&end), tokens(&start)), (256, 256));
    assert_ne!(end.json()["embeddings"], start.json()["embeddings"]);
    let none = embed(json!({ "truncate": "NONE" })).await;
    assert_eq!((none.status.as_u16(), &none.json()["error"]["code"]), (400, &json!("context_length_exceeded")));
    assert_eq!(tokens(&embed(json!({ "truncate": "END", "max_tokens": 5 })).await), 5);
    assert_eq!(tokens(&embed(json!({ "max_tokens": 100_000 })).await), 256, "more than the model takes");
    let short = post(&app, "/v2/embed", json!({ "texts": ["red fox"], "truncate": "NONE", "max_tokens": 2 })).await;
    assert!(short.status == 400 && short.body.contains("the limit is 2"), "{}", short.body);
    let none = post(&app, "/v2/embed", json!({ "texts": ["red fox"], "max_tokens": 1 })).await;
    assert_eq!((none.status.as_u16(), &none.json()["error"]["code"]), (400, &Value::Null), "{}", none.body);
    assert!(none.body.contains("`max_tokens` is 1, and the tokens around the text are 1"), "{}", none.body);
    let left = ask(&app, "/v2/embed", json!({ "texts": [long], "truncate": "START", "max_tokens": 5 })).await;
    let right = ask(&app, "/v2/embed", json!({ "texts": [long], "truncate": "END", "max_tokens": 5 })).await;
    assert_ne!(left["embeddings"], right["embeddings"]);
}

#[tokio::test]
async fn the_type_of_the_inputs_selects_a_prompt_or_an_adapter() {
    for (capabilities, task) in
        [(embedding(), json!({ "prompt_name": "query" })), (adapted(), json!({ "task": "retrieval.query" }))]
    {
        let app = Setup::new(capabilities).build();
        let typed = ask(&app, "/v2/embed", json!({ "texts": ["fox"], "input_type": "search_query" })).await;
        let mut body = json!({ "inputs": "fox" });
        body.as_object_mut().unwrap().extend(task.as_object().unwrap().clone());
        assert_eq!(typed["embeddings"]["float"], ask(&app, "/embed", body).await);
    }
    let app = Setup::new(embedding()).build();
    let ignored = post(&app, "/v2/embed", json!({ "texts": ["fox"], "input_type": "clustering" })).await;
    assert_eq!((ignored.status.as_u16(), ignored.headers["x-ignored-fields"].to_str().unwrap()), (200, "input_type"));
}

#[tokio::test]
async fn what_is_not_served_is_refused_by_name() {
    let app = Setup::new(embedding()).build();
    let image = json!([{ "content": [{ "type": "image_url", "image_url": { "url": "data:" } }] }]);
    for (body, problem) in [
        (json!({}), "`texts` is missing; send either `texts` or `inputs`"),
        (json!({ "texts": ["a"], "inputs": [] }), "`inputs` cannot be combined with `texts`"),
        (json!({ "texts": [] }), "`texts` has no items"),
        (json!({ "texts": ["a", ""] }), "`texts` item 1 is an empty text"),
        (json!({ "inputs": [{ "content": [] }] }), "`inputs` is an empty text"),
        (json!({ "texts": "a" }), "`texts`"),
        (json!({ "images": ["data:"] }), "`images`: not supported"),
        (json!({ "inputs": image }), "`inputs[0].content[0].type`: must be `text`: images are not supported"),
        (json!({ "texts": ["a"], "input_type": "image" }), "`input_type`"),
        (json!({ "texts": ["a"], "embedding_types": ["float", "int4"] }), "`embedding_types[1]`: unknown value `int4`"),
        (json!({ "texts": ["a"], "embedding_types": "float" }), "`embedding_types`"),
        (json!({ "texts": ["a"], "output_dimension": 9 }), "`output_dimension` is 9; it must be from 1 to 8"),
        (json!({ "texts": ["a"], "output_dimension": 0, "embedding_types": ["int8"] }), "`output_dimension` is 0"),
        (json!({ "texts": ["a"], "output_dimension": 4, "embedding_types": ["binary"] }), "multiple of 8, not 4"),
        (json!({ "texts": ["a"], "truncate": "LEFT" }), "`truncate`"),
        (json!({ "texts": ["a"], "max_tokens": 0 }), "`max_tokens` is 0"),
        (json!({ "texts": ["a"], "max_tokens": -1 }), "`max_tokens`"),
    ] {
        for path in ["/v1/embed", "/v2/embed"] {
            let got = post(&app, path, &body).await;
            // Cohere's clients read `message`.
            let message = got.json()["message"].as_str().unwrap().to_owned();
            assert!(got.status == 400 && message.contains(problem), "{path} {body}: {}", got.body);
        }
    }
}

#[tokio::test]
async fn texts_that_are_repeated_count() {
    let app = Setup::new(embedding()).build();
    let text = "a ".repeat(5000);
    let held = async |body: Value| {
        use tower::ServiceExt;
        let request = axum::http::Request::post("/v2/embed").body(axum::body::Body::from(body.to_string())).unwrap();
        let response = crate::server::routing::router(app.clone()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        app.quotas.buffered().held()
    };
    let inputs = held(json!({ "inputs": [{ "content": [{ "type": "text", "text": text }] }] })).await;
    let texts = held(json!({ "texts": [text] })).await;
    assert!(texts >= inputs + text.len(), "{texts} and {inputs} without texts");
    assert_eq!(app.quotas.buffered().held(), 0);
}

#[tokio::test]
async fn texts_become_tokens_and_back() {
    let mut capabilities = embedding();
    if let Some(embed) = &mut capabilities.embed {
        embed.prompts.default = Some("Query: ".to_owned());
    }
    let app = Setup::new(capabilities).build();
    let answer = ask(&app, "/v1/tokenize", json!({ "text": "Use flock.", "model": "m" })).await;
    let plain = Setup::new(embedding()).build();
    let tokens = ask(&plain, "/tokenize", json!({ "inputs": "Use flock.", "add_special_tokens": false })).await;
    let tokens = tokens[0].as_array().unwrap();
    assert_eq!(answer["tokens"], tokens.iter().map(|token| token["id"].clone()).collect::<Value>());
    let strings: Vec<String> = serde_json::from_value(answer["token_strings"].clone()).unwrap();
    assert_eq!((strings.concat(), &answer["meta"]["api_version"]["version"]), ("Use flock.".to_owned(), &json!("1")));
    let text = ask(&app, "/v1/detokenize", json!({ "tokens": answer["tokens"], "model": "m" })).await;
    assert_eq!(text, json!({ "text": "Use flock.", "meta": { "api_version": { "version": "1" } } }));
    assert_eq!(ask(&app, "/v1/detokenize", json!({ "tokens": [] })).await["text"], "");
    assert_eq!(ask(&app, "/v1/tokenize", json!({ "text": "" })).await["tokens"], json!([]));
    for (body, problem) in [
        (json!({ "tokens": [[1], [2]] }), "`tokens` has several lists"),
        (json!({ "tokens": [5000] }), "`tokens` has token id 5000"),
    ] {
        let got = post(&app, "/v1/detokenize", &body).await;
        assert!(got.status == 400 && got.body.contains(problem), "{body}: {}", got.body);
    }
}

#[tokio::test]
async fn one_list_of_models_is_for_openais_clients_and_cohere_s() {
    for (capabilities, endpoints) in [
        (embedding(), json!(["embed", "rerank"])),
        (reranker(), json!(["rerank"])),
        (classifier(&["a", "b"]), json!([])),
    ] {
        let app = Setup::new(capabilities).build();
        let list = get(&app, "/v1/models").await.json();
        assert_eq!((list["data"].as_array().unwrap().len(), &list["data"]), (2, &list["models"]));
        let model = &list["models"][0];
        assert_eq!((&model["name"], &model["id"], &model["endpoints"]), (&json!("fake"), &json!("fake"), &endpoints));
        assert_eq!((&model["context_length"], &model["default_endpoints"]), (&json!(256), &endpoints));
        assert_eq!(list["models"][1]["default_endpoints"], json!([]));
        assert_eq!(&get(&app, "/v1/models/fake").await.json(), model);
    }
    let app = Setup::new(embedding()).build();
    for (query, count) in [
        ("endpoint=embed", 2),
        ("endpoint=embed&default_only=true&page_size=20.0", 1),
        ("endpoint=chat", 0),
        ("endpoint=rerank&default_only=maybe", 2),
        ("limit=7", 2),
    ] {
        let list = get(&app, &format!("/v1/models?{query}")).await.json();
        assert_eq!(list["models"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(list["data"].as_array().unwrap().len(), 2, "{query}");
    }
}
