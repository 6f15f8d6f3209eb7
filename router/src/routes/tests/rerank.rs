//! Reranking and scores of pairs.

use super::strings;
use crate::testing::{Setup, ask, classifier, embedding, post, reranker};
use axum::body::Body;
use axum::http::Request;
use prefold_core::{Rerank, sigmoid};
use serde_json::{Value, json};
use tower::ServiceExt;

#[tokio::test]
async fn rerank_answers_tei_and_cohere_clients() {
    let app = Setup::new(reranker()).build();
    let texts = ["green tea", "red fox", "blue whale"];
    let tei = ask(&app, "/rerank", json!({ "query": "fox", "texts": texts, "return_text": true })).await;
    let scores: Vec<f64> = tei.as_array().unwrap().iter().map(|line| line["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|a, b| a > b), "{tei}");
    for line in tei.as_array().unwrap() {
        assert_eq!(line["text"], texts[line["index"].as_u64().unwrap() as usize]);
    }
    let bare = ask(&app, "/rerank", json!({ "query": "fox", "texts": texts })).await;
    assert!(bare[0].get("text").is_none());
    assert_eq!(ask(&app, "/", json!({ "query": "fox", "texts": texts })).await, bare);

    let raw = ask(&app, "/rerank", json!({ "query": "fox", "texts": texts, "raw_scores": true })).await;
    assert_eq!(strings(&raw, "index"), strings(&tei, "index"));
    for (raw, score) in raw.as_array().unwrap().iter().zip(&scores) {
        assert!((f64::from(sigmoid(raw["score"].as_f64().unwrap() as f32)) - score).abs() < 1e-6);
    }

    let object = ask(&app, "/rerank", json!({ "query": "fox", "documents": texts })).await;
    assert_eq!(strings(&object["results"], "index"), strings(&tei, "index"));
    assert_eq!(object["results"][0]["relevance_score"], tei[0]["score"]);
}

#[tokio::test]
async fn texts_that_are_returned_count() {
    let app = Setup::new(reranker()).build();
    let text = "a ".repeat(5000);
    let held = async |path: &str, body: Value| {
        let request = Request::post(path).body(Body::from(body.to_string())).unwrap();
        let response = crate::server::routing::router(app.clone()).oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        app.quotas.buffered().held()
    };
    for (path, list, flag) in [("/rerank", "texts", "return_text"), ("/v1/rerank", "documents", "return_documents")] {
        let [without, with] = [false, true].map(|returned| json!({ "query": "q", list: [text, text], flag: returned }));
        let (without, with) = (held(path, without).await, held(path, with).await);
        assert!(with >= without + 2 * text.len(), "{path}: {with} and {without} without texts");
    }
    assert_eq!(app.quotas.buffered().held(), 0);
}

#[tokio::test]
async fn rerank_objects_serve_all_clients() {
    let app = Setup::new(reranker()).build();
    let documents = json!(["green tea", { "text": "red fox" }, "blue whale"]);
    let body = json!({ "model": "m", "query": "fox", "documents": documents, "top_n": 2, "return_documents": true });
    let answer = ask(&app, "/v1/rerank", body.clone()).await;
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("m")));
    assert!(answer["id"].as_str().unwrap().starts_with("rerank-"));
    assert_ne!(answer["id"], ask(&app, "/v1/rerank", body.clone()).await["id"]);
    assert_eq!(answer["results"].as_array().unwrap().len(), 2);
    for result in answer["results"].as_array().unwrap() {
        let document = &documents[result["index"].as_u64().unwrap() as usize];
        assert_eq!(&result["document"]["text"], document.get("text").unwrap_or(document));
    }
    assert!(answer["usage"]["total_tokens"].as_u64().unwrap() > 100);
    assert_eq!(answer["meta"]["api_version"]["version"], "1");
    assert_eq!(answer["meta"]["billed_units"]["search_units"], 1);

    let second = ask(&app, "/v2/rerank", json!({ "query": "fox", "documents": documents, "top_k": 1 })).await;
    assert_eq!(second["meta"]["api_version"]["version"], "2");
    assert_eq!(second["model"], "fake");
    assert_eq!(second["results"].as_array().unwrap().len(), 1);
    assert!(second["results"][0].get("document").is_none());
    let told = ask(&app, "/v1/rerank", json!({ "query": "fox", "documents": documents, "instruction": "other" })).await;
    assert_ne!(strings(&told["results"], "relevance_score"), strings(&second["results"], "relevance_score"));

    for (path, body, status, problem) in [
        ("/v1/rerank", json!({ "query": "fox", "texts": ["a"] }), 400, "`documents` is missing"),
        ("/rerank", json!({ "query": "fox" }), 422, "`texts` is missing"),
        (
            "/rerank",
            json!({ "query": "fox", "texts": ["a"], "documents": ["a"] }),
            422,
            "either `texts` or `documents`",
        ),
        ("/v1/rerank", json!({ "query": "fox", "documents": [] }), 400, "`documents` has no items"),
        ("/v1/rerank", json!({ "query": "fox", "documents": [5] }), 400, "`documents[0]`"),
        ("/v1/rerank", json!({ "query": "fox", "documents": ["a"], "top_n": -1 }), 400, "`top_n`"),
    ] {
        let got = post(&app, path, &body).await;
        assert!(got.status == status && got.body.contains(problem), "{path} {body}: {}", got.body);
    }
}

#[tokio::test]
async fn an_embedding_model_reranks_by_cosine() {
    let app = Setup::new(embedding()).build();
    let texts = ["blue whale", "red fox"];
    let answer = ask(&app, "/rerank", json!({ "query": "red fox", "texts": texts, "raw_scores": false })).await;
    assert_eq!(answer[0]["index"], 1);
    assert!((answer[0]["score"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

#[tokio::test]
async fn an_instruction_that_no_prompt_takes_is_ignored_aloud() {
    let mut without_place = reranker();
    if let Some(Rerank::Prompt(template)) = &mut without_place.rerank {
        template.before.iter_mut().for_each(|piece| *piece = piece.replace("{instruction}", ""));
        template.document = template.document.replace("{instruction}", "");
    }
    for (capabilities, words) in [
        (embedding(), "by the cosine"),
        (classifier(&["score"]), "cross-encoder"),
        (without_place, "no place for it"),
        (reranker(), ""),
    ] {
        let app = Setup::new(capabilities.clone()).build();
        let mut strict = Setup::new(capabilities);
        strict.http.strict_fields = true;
        let strict = strict.build();
        for path in ["/rerank", "/v1/rerank", "/v2/rerank", "/v1/score"] {
            let mut body = json!({ "query": "fox", "documents": ["a"] });
            assert_eq!(post(&app, path, &body).await.headers.get("x-ignored-fields"), None, "{path}");
            body["instruction"] = json!("i");
            let (got, refused) = (post(&app, path, &body).await, post(&strict, path, &body).await);
            let ignored = got.headers.get("x-ignored-fields").map(|names| names.to_str().unwrap());
            assert_eq!((got.status.as_u16(), ignored), (200, (!words.is_empty()).then_some("instruction")), "{path}");
            assert_eq!(refused.status == 200, words.is_empty(), "{path}: {}", refused.body);
            assert!(refused.body.contains(words), "{path}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn rerank_answers_voyage_too() {
    let app = Setup::new(reranker()).build();
    let body =
        json!({ "query": "fox", "documents": ["a", "b"], "top_k": 1, "truncation": true, "return_documents": true });
    let answer = ask(&app, "/v1/rerank", body).await;
    let (data, result) = (&answer["data"][0], &answer["results"][0]);
    assert_eq!((&data["index"], &data["relevance_score"]), (&result["index"], &result["relevance_score"]));
    assert_eq!(data["document"], result["document"]["text"]);
    assert_eq!(answer["data"].as_array().unwrap().len(), 1);
    assert!(answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() > 50, "{answer}");
    assert!(answer["created"].as_u64().unwrap() > 1_600_000_000);
    let many = vec!["a"; 150];
    assert_eq!(
        ask(&app, "/v1/rerank", json!({ "query": "q", "documents": many })).await["meta"]["billed_units"]["search_units"],
        2
    );
}

#[tokio::test]
async fn scores_are_those_of_reranking() {
    for capabilities in [reranker(), embedding(), classifier(&["score"])] {
        let app = Setup::new(capabilities).build();
        let documents = ["red", "blue", "green"];
        let ranked = ask(&app, "/rerank", json!({ "query": "fox", "texts": documents })).await;
        for (queries, items) in
            [("queries", "documents"), ("text_1", "text_2"), ("data_1", "data_2"), ("query", "items")]
        {
            let answer = ask(&app, "/v1/score", json!({ "model": "m", queries: "fox", items: documents })).await;
            assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("m")));
            assert!(answer["id"].as_str().unwrap().starts_with("score-"));
            for line in ranked.as_array().unwrap() {
                let index = line["index"].as_u64().unwrap() as usize;
                assert_eq!(answer["data"][index], json!({ "index": index, "object": "score", "score": line["score"] }));
            }
        }
        let paired = ask(&app, "/score", json!({ "queries": ["fox", "whale"], "documents": ["red", "blue"] })).await;
        let whale = ask(&app, "/score", json!({ "queries": "whale", "documents": "blue" })).await;
        assert_eq!(paired["data"][1]["score"], whale["data"][0]["score"]);
        let raw = json!({ "query": "fox", "texts": documents, "raw_scores": true });
        let raw = ask(&app, "/rerank", raw).await;
        let unactivated = json!({ "queries": "fox", "documents": documents, "use_activation": false });
        let unactivated = ask(&app, "/score", unactivated).await;
        let best = raw[0]["index"].as_u64().unwrap() as usize;
        assert_eq!(unactivated["data"][best]["score"], raw[0]["score"]);
        let odd = post(&app, "/v1/score", json!({ "queries": ["a", "b"], "documents": ["a", "b", "c"] })).await;
        assert_eq!((odd.status.as_u16(), &odd.json()["error"]["param"]), (400, &json!("queries")));
        assert_eq!(post(&app, "/v1/score", json!({ "queries": "a", "documents": [] })).await.status, 400);
    }
}

#[tokio::test]
async fn documents_may_have_fewer_tokens() {
    for capabilities in [reranker(), embedding(), classifier(&["score"])] {
        let app = Setup::new(capabilities).build();
        let long = "the tide comes in and out ".repeat(8);
        let body = |limit: Value| json!({ "query": "when does the tide come in", "documents": [long], "max_tokens_per_doc": limit });
        for path in ["/rerank", "/v1/rerank", "/v2/rerank"] {
            let tokens = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
            let whole = ask(&app, path, body(Value::Null)).await;
            let [five, four] = [ask(&app, path, body(json!(5))).await, ask(&app, path, body(json!(4))).await];
            assert_eq!(tokens(&five), tokens(&four) + 1, "{path}");
            assert!(tokens(&five) + 20 < tokens(&whole), "{path}");
            assert_eq!(ask(&app, path, body(json!(4096))).await["results"], whole["results"], "{path}");
            assert_eq!(post(&app, path, body(json!(5))).await.headers["x-truncated-inputs"], "1", "{path}");
            assert_eq!(ask(&app, path, body(json!(0))).await["results"], whole["results"], "{path}: no limit");
            for limit in [json!(-1), json!("5")] {
                let refused = post(&app, path, body(limit)).await;
                assert!(
                    refused.status.is_client_error() && refused.body.contains("`max_tokens_per_doc`"),
                    "{}",
                    refused.body
                );
            }
        }
    }
}

#[tokio::test]
async fn what_is_not_read_of_documents_is_refused() {
    let app = Setup::new(reranker()).build();
    let body =
        |name: &str, value: Value| json!({ "query": "fox", "documents": [{ "text": "a", "title": "b" }], name: value });
    for (name, value) in [
        ("rank_fields", json!(["title", "text"])),
        ("rank_fields", json!(["title"])),
        ("relevant_spans", json!({ "mode": "enabled" })),
    ] {
        let got = post(&app, "/v1/rerank", body(name, value.clone())).await;
        assert!(got.status == 400 && got.body.contains(&format!("`{name}")), "{name} {value}: {}", got.body);
    }
    for (name, value) in [
        ("rank_fields", json!(["text"])),
        ("rank_fields", json!(null)),
        ("relevant_spans", json!({ "mode": "disabled" })),
    ] {
        let got = post(&app, "/v1/rerank", body(name, value.clone())).await;
        let ignored = got.headers["x-ignored-fields"].to_str().unwrap();
        assert_eq!((got.status.as_u16(), ignored), (200, "documents[].title"), "{name} {value}");
    }
}
