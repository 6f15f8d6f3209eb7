//! Requests that other servers answer in another way: ids of another tokenizer, half an emoji, slashes, keys.

use crate::state::InvalidUnicode;
use crate::state::api_keys::Keys;
use crate::testing::{Got, Setup, ask, classifier, embedding, get, post, reranker, send};
use axum::body::Body;
use axum::http::Request;
use prefold_core::ForeignIds;
use serde_json::{Value, json};

/// The advice to users of LangChain.
const ADVICE: &str = "check_embedding_ctx_length=False";

fn header<'a>(got: &'a Got, name: &str) -> Option<&'a str> {
    got.headers.get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn ids_of_another_tokenizer_are_named_or_refused() {
    let app = |token_ids| {
        let mut setup = Setup::new(embedding());
        setup.engine.token_ids = token_ids;
        setup.build()
    };
    let tokens = ask(&app(ForeignIds::Count), "/tokenize", json!({ "inputs": "red fox" })).await;
    let own: Vec<&Value> = tokens[0].as_array().unwrap().iter().map(|token| &token["id"]).collect();
    let bare = &own[..own.len() - 1];
    for (policy, status, count) in
        [(ForeignIds::Count, 200, Some("2")), (ForeignIds::Accept, 200, None), (ForeignIds::Refuse, 400, None)]
    {
        let app = app(policy);
        let got = post(&app, "/v1/embeddings", json!({ "input": [own, bare, bare] })).await;
        assert_eq!((got.status.as_u16(), header(&got, "x-foreign-token-ids")), (status, count), "{}", got.body);
        assert_eq!(got.body.contains(ADVICE) && got.body.contains("`input` item 1"), status == 400, "{}", got.body);
        for inputs in [json!({ "input": [own, "red fox"] }), json!({ "input": "red fox" })] {
            let got = post(&app, "/v1/embeddings", &inputs).await;
            assert_eq!((got.status.as_u16(), header(&got, "x-foreign-token-ids")), (200, None), "{}", got.body);
        }
        let beyond = post(&app, "/v1/embeddings", json!({ "input": [[9906, 1917]] })).await;
        assert!(
            beyond.status == 400 && beyond.body.contains("9906") && beyond.body.contains(ADVICE),
            "{}",
            beyond.body
        );
    }
}

#[tokio::test]
async fn half_an_emoji_is_replaced_or_refused_by_name() {
    let app = |invalid_unicode| {
        let mut setup = Setup::new(embedding());
        setup.http.invalid_unicode = invalid_unicode;
        setup.build()
    };
    let (replacing, refusing) = (app(InvalidUnicode::Replace), app(InvalidUnicode::Refuse));
    let whole = ask(&replacing, "/v1/embeddings", json!({ "input": ["a", "b \u{fffd}"] })).await;
    for (texts, name) in [
        (r#"["a", "b \ud83d"]"#, "input[1]"),
        (r#"["a", "b \ude00"]"#, "input[1]"),
        (r#"["\udfff", "\ud800"]"#, "input[0] and 1 more"),
        (r#""\ud83d""#, "input"),
    ] {
        let body = format!(r#"{{"input": {texts}}}"#);
        let got = post(&replacing, "/v1/embeddings", &body).await;
        assert_eq!((got.status.as_u16(), header(&got, "x-replaced-unicode")), (200, Some(name)), "{}", got.body);
        assert_eq!(got.json()["data"] == whole["data"], texts.contains('b'), "{body}");
        let refused = post(&refusing, "/v1/embeddings", &body).await;
        let problem = format!("`{}`: not Unicode", name.split(' ').next().unwrap());
        assert!(refused.status == 400 && refused.body.contains(&problem), "{}", refused.body);
    }
    let bytes = [&b"{\"input\": [\"b \xff\"]}"[..], b"{\"input\": [\"\xed\xa0\xbd\"]}"];
    for bytes in bytes {
        let request = || Request::post("/v1/embeddings").body(Body::from(bytes)).unwrap();
        assert_eq!(header(&send(&replacing, request()).await, "x-replaced-unicode"), Some("input[0]"));
        assert_eq!(send(&refusing, request()).await.status, 400);
    }
    let document = r#"{"query": "a", "documents": [{"text": "b"}, {"text": "\ud83d", "title": "\ud83d"}]}"#;
    assert_eq!(
        header(&post(&replacing, "/rerank", document).await, "x-replaced-unicode"),
        Some("documents[1].text and 1 more")
    );
    // Fields that nothing reads, and names of fields, have no effect.
    for body in [
        r#"{"input": "a", "user": "\ud83d", "metadata": {"k": ["\ud83d"]}}"#,
        r#"{"input": "a", "\ud83d": 1, "x": {"\ud83d": "b"}}"#,
    ] {
        for app in [&replacing, &refusing] {
            let got = post(app, "/v1/embeddings", body).await;
            assert_eq!((got.status.as_u16(), header(&got, "x-replaced-unicode")), (200, None), "{}", got.body);
        }
    }
    let broken = post(&replacing, "/v1/embeddings", r#"{"input": "\ud83d""#).await;
    assert!(broken.status == 400 && broken.body.contains("not valid JSON"), "{}", broken.body);
}

#[tokio::test]
async fn a_text_that_is_too_long_is_told_in_openais_words() {
    let app = Setup::new(embedding()).build();
    let long = "a ".repeat(300);
    for (path, body) in [
        ("/v1/embeddings", json!({ "input": ["a", long], "truncate": false })),
        ("/embed", json!({ "inputs": [long], "truncate": false })),
        ("/rerank", json!({ "query": "a", "documents": [long], "truncate": false })),
        ("/rerank", json!({ "query": long, "documents": ["a"], "truncate": false })),
    ] {
        let message = post(&app, path, &body).await.body;
        for words in ["this model's maximum context length is 256 tokens", "Please reduce the length"] {
            assert!(message.contains(words), "{path}: {message}");
        }
    }
}

#[tokio::test]
async fn rerank_with_documents_errs_as_the_apis_that_have_them() {
    let app = Setup::new(reranker()).build();
    let long = "a ".repeat(300);
    for (list, status) in [("texts", [422, 413]), ("documents", [400, 400])] {
        for path in ["/rerank", "/rerank/", "/"] {
            let wrong = post(&app, path, json!({ "query": "q", list: ["a"], "top_n": -1 })).await;
            let too_long = post(&app, path, json!({ "query": "q", list: [long], "truncate": false })).await;
            assert_eq!([wrong.status.as_u16(), too_long.status.as_u16()], status, "{path} {list}");
            for got in [wrong, too_long] {
                assert_eq!(got.json()["error"].is_object(), list == "documents", "{}", got.body);
            }
        }
    }
    for body in ["{", "{}", r#"{"query": "q", "texts": ["a"], "documents": ["a"]}"#] {
        assert!(post(&app, "/rerank", body).await.json()["error"].is_string(), "{body}");
    }
}

#[tokio::test]
async fn no_documents_asked_for_are_all_of_them() {
    let app = Setup::new(reranker()).build();
    for (path, list) in
        [("/rerank", "texts"), ("/rerank", "documents"), ("/v1/rerank", "documents"), ("/v2/rerank", "documents")]
    {
        let [all, none] = [json!({}), json!({ "top_n": 0 })].map(|extra| {
            let mut body = json!({ "query": "q", list: ["a", "b", "c"] });
            body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            body
        });
        let scores = |answer: Value| answer.get("results").unwrap_or(&answer).clone();
        assert_eq!(scores(ask(&app, path, none).await), scores(ask(&app, path, all).await), "{path}");
    }
}

#[tokio::test]
async fn documents_come_back_where_jina_and_vllm_return_them() {
    let app = Setup::new(reranker()).build();
    for (path, asked, [results, data]) in [
        ("/v1/rerank", None, [true, false]),
        ("/rerank", None, [true, false]),
        ("/v2/rerank", None, [false, false]),
        ("/v1/rerank", Some(false), [false, false]),
        ("/v2/rerank", Some(true), [true, true]),
    ] {
        let body = json!({ "query": "q", "documents": ["a"], "return_documents": asked });
        let answer = ask(&app, path, body).await;
        assert_eq!(answer["results"][0].get("document").is_some(), results, "{path} {asked:?}: {answer}");
        assert_eq!(answer["data"][0].get("document").is_some(), data, "{path} {asked:?}: {answer}");
    }
}

#[tokio::test]
async fn a_slash_at_the_end_changes_nothing() {
    let app = Setup::new(embedding()).build();
    for path in ["/v1/embeddings", "/embeddings"] {
        let body = json!({ "input": "a" });
        let with_slash = format!("{path}/");
        assert_eq!(ask(&app, &with_slash, body.clone()).await["data"], ask(&app, path, body).await["data"], "{path}");
        let refused = post(&app, &with_slash, "{").await;
        assert!(refused.json()["error"].is_object(), "{}", refused.body);
    }
    for path in ["/v1/models/", "/v1/models/org/fake/", "/info/", "/health/", "/ready/", "/metrics/"] {
        assert_eq!(get(&app, path).await.status, 200, "{path}");
    }
    assert_eq!(get(&app, "/v1/models/none/").await.status, 404);
    let metrics = get(&app, "/metrics").await.body;
    assert!(!metrics.contains("route=\"/embeddings/\""), "{metrics}");
}

#[tokio::test]
async fn a_key_may_be_in_any_of_three_headers() {
    let mut setup = Setup::new(embedding());
    setup.http.api_keys = Keys::new(vec!["k".parse().unwrap()], None).unwrap();
    let app = setup.build();
    for (headers, status) in [
        (&[("authorization", "Bearer k")][..], 200),
        (&[("api-key", "k")], 200),
        (&[("x-api-key", " k ")], 200),
        (&[("authorization", "Basic abc"), ("x-api-key", "k")], 200),
        (&[("authorization", "Bearer wrong"), ("x-api-key", "k")], 401),
        (&[("api-key", "wrong")], 401),
        (&[("x-api-key", "")], 401),
        (&[], 401),
    ] {
        let mut request = Request::post("/embed").body(Body::from(r#"{"inputs": "a"}"#)).unwrap();
        for &(name, value) in headers {
            request.headers_mut().append(name, value.parse().unwrap());
        }
        let got = send(&app, request).await;
        assert_eq!(got.status, status, "{headers:?}: {}", got.body);
    }
}

#[tokio::test]
async fn embeddings_need_not_be_scaled() {
    let app = Setup::new(embedding()).build();
    let unscaled = ask(&app, "/embed", json!({ "inputs": "red fox", "normalize": false })).await;
    let scaled = ask(&app, "/embed", json!({ "inputs": "red fox" })).await;
    assert_ne!(scaled, unscaled);
    for (extra, vectors) in [
        (json!({ "use_activation": false }), &unscaled),
        (json!({ "normalize": false }), &unscaled),
        (json!({ "use_activation": true }), &scaled),
        (json!({ "use_activation": null }), &scaled),
    ] {
        let mut body = json!({ "input": "red fox" });
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let answer = ask(&app, "/v1/embeddings", body).await;
        assert_eq!(answer["data"][0]["embedding"], vectors[0], "{extra}");
    }
}

#[tokio::test]
async fn a_user_is_never_refused() {
    for (capabilities, path, body) in [
        (embedding(), "/v1/embeddings", json!({ "input": "a" })),
        (embedding(), "/embed", json!({ "inputs": "a" })),
        (reranker(), "/v1/rerank", json!({ "query": "q", "documents": ["a"] })),
        (reranker(), "/v1/score", json!({ "queries": "q", "documents": ["a"] })),
        (classifier(&["a", "b"]), "/v1/classify", json!({ "input": "a" })),
        (embedding(), "/tokenize", json!({ "inputs": "a" })),
    ] {
        let mut setup = Setup::new(capabilities);
        setup.http.strict_fields = true;
        let app = setup.build();
        for user in [json!("u"), json!(null), json!({ "id": 1 })] {
            let mut body = body.clone();
            body["user"] = user;
            ask(&app, path, body.clone()).await;
            body["users"] = json!(1);
            let refused = post(&app, path, &body).await;
            assert!(refused.body.contains("`users`: unknown field"), "{}", refused.body);
        }
    }
}

/// `body` with the fields of `extra`.
fn with(body: &Value, extra: Value) -> Value {
    let mut body = body.clone();
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn texts_may_be_objects_and_documents_one_text() {
    let (embedder, ranker) = (Setup::new(embedding()).build(), Setup::new(reranker()).build());
    let plain = ask(&embedder, "/v1/embeddings", json!({ "input": ["fox", "tide"] })).await;
    let objects = json!({ "input": [{ "text": "fox" }, "tide"] });
    assert_eq!(ask(&embedder, "/v1/embeddings", objects).await["data"], plain["data"]);
    let image = post(&embedder, "/v1/embeddings", json!({ "input": ["a", { "image": "b" }] })).await;
    assert!(image.status == 400 && image.body.contains("`input[1].image`: not supported"), "{}", image.body);
    assert_eq!(post(&ranker, "/predict", json!({ "inputs": { "text": "a", "text_pair": "b" } })).await.status, 422);
    for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
        let plain = ask(&ranker, path, json!({ "query": "q", "documents": ["a"] })).await;
        for body in [
            json!({ "query": { "text": "q" }, "documents": ["a"] }),
            json!({ "query": "q", "documents": "a" }),
            json!({ "query": "q", "documents": { "text": "a" } }),
        ] {
            assert_eq!(ask(&ranker, path, body).await["results"], plain["results"], "{path}");
        }
    }
}

#[tokio::test]
async fn an_element_type_may_have_jinas_older_name_and_be_a_list_of_one() {
    let app = Setup::new(embedding()).build();
    let body = json!({ "input": "fox" });
    let bits = ask(&app, "/v1/embeddings", with(&body, json!({ "embedding_type": "ubinary" }))).await;
    for field in [json!({ "encoding_type": "ubinary" }), json!({ "embedding_type": ["ubinary"] })] {
        assert_eq!(ask(&app, "/v1/embeddings", with(&body, field)).await["data"], bits["data"]);
    }
    for field in [
        json!({ "embedding_type": ["float", "ubinary"] }),
        json!({ "embedding_type": [] }),
        json!({ "embedding_type": "x".repeat(5000) }),
    ] {
        let refused = post(&app, "/v1/embeddings", with(&body, field)).await;
        assert!(refused.status == 400 && refused.body.contains("`embedding_type"), "{}", refused.body);
        assert!(refused.body.len() < 2000, "{}", refused.body);
    }
}

#[tokio::test]
async fn what_would_change_an_answer_is_refused_by_name() {
    let (embedder, ranker) = (Setup::new(embedding()).build(), Setup::new(reranker()).build());
    let labels = Setup::new(classifier(&["a", "b"])).build();
    let (input, pair) = (json!({ "input": "fox" }), json!({ "query": "q", "documents": ["a"] }));
    for (app, path, body, wrong, accepted) in [
        (
            &embedder,
            "/v1/embeddings",
            &input,
            json!({ "return_multivector": true }),
            json!({ "return_multivector": false }),
        ),
        (&embedder, "/v1/embeddings", &input, json!({ "padding": "max_length" }), json!({ "padding": "do_not_pad" })),
        (&embedder, "/v1/embeddings", &input, json!({ "messages": [] }), json!({ "messages": null })),
        (&embedder, "/v1/embeddings", &input, json!({ "input_type": "nix" }), json!({ "input_type": "query" })),
        (&embedder, "/pooling", &input, json!({ "padding": "max_length" }), json!({ "padding": null })),
        (&embedder, "/invocations", &input, json!({ "messages": [] }), json!({ "messages": null })),
        (&embedder, "/tokenize", &json!({ "prompt": "a" }), json!({ "messages": [] }), json!({ "messages": null })),
        (&labels, "/v1/classify", &input, json!({ "labels": ["c"] }), json!({ "labels": null })),
        (&labels, "/v1/classify", &input, json!({ "classifier_id": "c" }), json!({ "classifier_id": null })),
        (&ranker, "/v1/rerank", &pair, json!({ "max_tokens_per_query": 8 }), json!({ "max_tokens_per_query": 0 })),
        (&ranker, "/v1/score", &pair, json!({ "max_tokens_per_query": 8 }), json!({ "max_tokens_per_query": 0 })),
        (&ranker, "/v1/score", &pair, json!({ "padding": "max_length" }), json!({ "padding": "do_not_pad" })),
    ] {
        let name = wrong.as_object().unwrap().keys().next().unwrap();
        let refused = post(app, path, with(body, wrong.clone())).await;
        assert!(refused.status.is_client_error() && refused.body.contains(&format!("`{name}`")), "{}", refused.body);
        let got = post(app, path, with(body, accepted)).await;
        assert!(got.status == 200, "{path} {name}: {}", got.body);
    }
    for path in ["/v1/embeddings", "/pooling", "/invocations", "/v1/classify", "/tokenize"] {
        let refused = post(&embedder, path, json!({ "messages": [{ "role": "user", "content": "a" }] })).await;
        assert!(refused.body.contains("`messages`: chat messages are not supported"), "{path}: {}", refused.body);
    }
}

#[tokio::test]
async fn scores_take_limits_of_documents_and_an_instruction_for_the_template() {
    let app = Setup::new(reranker()).build();
    let body = json!({ "query": "q", "documents": ["the tide comes in and out ".repeat(8)] });
    let tokens = async |path: &str, extra: Value| {
        let got = post(&app, path, with(&body, extra)).await;
        assert_eq!((got.status.as_u16(), got.headers.get("x-ignored-fields")), (200, None), "{}", got.body);
        got.json()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    for path in ["/v1/score", "/v1/rerank"] {
        let whole = tokens(path, json!({ "max_tokens_per_doc": 0 })).await;
        assert_eq!(whole, tokens(path, json!({})).await, "{path}");
        assert!(tokens(path, json!({ "max_tokens_per_doc": 4 })).await + 20 < whole, "{path}");
        let instructed = tokens(path, json!({ "instruction": "Judge strictly and at length" })).await;
        assert_ne!(instructed, whole, "{path}");
        let by_template =
            json!({ "chat_template_kwargs": { "instruction": "Judge strictly and at length" }, "instruction": "x" });
        assert_eq!(tokens(path, by_template).await, instructed, "{path}");
        let other = post(&app, path, with(&body, json!({ "chat_template_kwargs": { "thinking": true } }))).await;
        assert_eq!(header(&other, "x-ignored-fields"), Some("chat_template_kwargs.thinking"), "{}", other.body);
    }
}

#[tokio::test]
async fn errors_of_vllms_routes_have_the_status_as_their_code() {
    let (embedder, ranker) = (Setup::new(embedding()).build(), Setup::new(reranker()).build());
    for (app, path, body, code) in [
        (&embedder, "/pooling", json!({ "input": 5 }), json!(400)),
        (&embedder, "/detokenize", json!({ "tokens": [[1], [2]] }), json!(400)),
        (&ranker, "/rerank", json!({ "query": 5, "documents": ["a"] }), json!(400)),
        (&ranker, "/score", json!({ "query": "q" }), json!(400)),
        (&embedder, "/v1/embeddings", json!({ "input": 5 }), json!(null)),
    ] {
        assert_eq!(post(app, path, body).await.json()["error"]["code"], code, "{path}");
    }
}
