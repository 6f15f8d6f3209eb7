use super::*;
use prefold_core::{Capabilities, Classify, Prompts};
use serde_json::{Value, json};
use std::sync::Arc;

async fn rendered(error: &ApiError, dialect: Dialect) -> (StatusCode, Value) {
    let response = error.render(dialect);
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

/// Errors, with the statuses of TEI's and of OpenAI's routes, TEI's type, and the field.
fn table() -> Vec<(ApiError, [u16; 2], &'static str, Option<&'static str>)> {
    let field = "inputs";
    let problem = "is wrong".to_owned();
    vec![
        (Error::Empty { field, problem: problem.clone() }.into(), [400, 400], "Empty", Some("inputs")),
        (Error::Validation { field, problem: problem.clone() }.into(), [422, 400], "Validation", Some("inputs")),
        (Error::TooLong { field, problem: problem.clone() }.into(), [413, 400], "Validation", Some("inputs")),
        (Error::ForeignIds { field, problem: problem.clone() }.into(), [422, 400], "Validation", Some("inputs")),
        (Error::Tokenization { field, problem: problem.clone() }.into(), [422, 400], "Tokenizer", Some("inputs")),
        (Error::BatchTooLarge { field, got: 3, limit: 2 }.into(), [413, 400], "Validation", Some("inputs")),
        (not_capable(Capabilities::default()).into(), [422, 400], "Validation", None),
        (
            Error::Overloaded { resource: Resource::Requests, limit: 8, fair_part: None }.into(),
            [429, 429],
            "Overloaded",
            None,
        ),
        (Error::Backend(BackendError::Compute("broken".to_owned())).into(), [424, 424], "Backend", None),
        (Error::Backend(not_finite("row 3", "int8")).into(), [424, 424], "Backend", None),
        (Error::Backend(BackendError::DeviceLost("gone".to_owned())).into(), [503, 503], "Unhealthy", None),
        (Error::ShuttingDown.into(), [503, 503], "Unhealthy", None),
        (ApiError::Syntax("EOF".to_owned()), [400, 400], "Validation", None),
        (ApiError::Body { field: Some("inputs[1]".to_owned()), problem }, [422, 400], "Validation", Some("inputs[1]")),
        (ApiError::UnknownField("x".to_owned()), [422, 400], "Validation", Some("x")),
        (ApiError::PayloadTooLarge { limit: 10 }, [413, 413], "Validation", None),
        (
            ApiError::Encoded { header: "Content-Encoding", coding: "br".to_owned(), supported: "gzip" },
            [415, 415],
            "Validation",
            None,
        ),
        (ApiError::Host(2), [400, 400], "Validation", None),
        (ApiError::Unreadable("gone".to_owned()), [400, 400], "Validation", None),
        (ApiError::Unauthorized, [401, 401], "Unauthorized", None),
        (ApiError::NotFound { path: "/x".to_owned(), nearest: None }, [404, 404], "NotFound", None),
        (ApiError::UnknownModel { name: "a".to_owned(), known: "b".to_owned() }, [404, 404], "NotFound", None),
        (ApiError::MethodNotAllowed("/x".to_owned()), [405, 405], "MethodNotAllowed", None),
        (ApiError::Unhealthy("stuck".to_owned()), [503, 503], "Unhealthy", None),
        (ApiError::Panic, [500, 500], "Internal", None),
    ]
}

#[tokio::test]
async fn every_error_has_its_status_and_both_bodies() {
    for (error, [tei_status, openai_status], error_type, param) in table() {
        let message = error.to_string();
        assert_eq!(error.clone().into_response().status(), tei_status, "{error:?}");

        let (got, tei) = rendered(&error, Dialect::Tei).await;
        assert_eq!(got, tei_status, "{error:?}");
        assert_eq!(tei, json!({ "error": message, "error_type": error_type }));

        let (got, openai) = rendered(&error, Dialect::OpenAi).await;
        assert_eq!(got, openai_status, "{error:?}");
        assert_eq!(openai["error"]["message"], message);
        assert_eq!(openai["error"]["param"], json!(param));
        assert!(openai["error"]["type"].is_string() && openai["error"].get("code").is_some());
        assert_eq!((&openai["message"], &openai["type"]), (&json!(message), &json!(error_type)));
        assert_eq!((&openai["code"], &openai["detail"]), (&json!(openai_status), &json!(message)));

        let (got, mut vllm) = rendered(&error, Dialect::Vllm).await;
        assert_eq!(got, openai_status, "{error:?}");
        assert_eq!(vllm["error"]["code"], json!(openai_status));
        vllm["error"]["code"] = openai["error"]["code"].clone();
        assert_eq!(vllm, openai);
    }
}

fn not_finite(problem: &str, dtype: &'static str) -> BackendError {
    BackendError::NotFinite { problem: problem.to_owned(), dtype }
}

fn not_capable(capabilities: Capabilities) -> Error {
    Error::NotCapable { asked: Task::Embed, model_type: "x".to_owned(), capabilities: Arc::new(capabilities) }
}

#[test]
fn a_task_that_the_model_lacks_names_the_routes_of_those_it_has() {
    let labels = |labels: &[&str]| {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Classify::of_labels(labels, Prompts::default())
    };
    for (capabilities, words) in [
        (Capabilities::classifier(labels(&["a", "b"]), 8), "with 2 labels; use /predict or /v1/classify"),
        (
            Capabilities::classifier(labels(&["a"]), 8),
            "with one label; use /rerank, /v1/rerank, /v1/score, /predict or /v1/classify",
        ),
    ] {
        let message = ApiError::from(not_capable(capabilities)).to_string();
        assert!(message.starts_with("embedding is not possible: the model (x) is a"), "{message}");
        assert!(message.ends_with(words), "{message}");
    }
}

#[test]
fn limits_that_are_reached_name_their_flags() {
    let overloaded = |resource| Error::Overloaded { resource, limit: 8, fair_part: None };
    for (error, words) in [
        (overloaded(Resource::Requests), "too many concurrent requests (limit 8); raise --max-concurrent-requests"),
        (overloaded(Resource::QueuedTokens), "too many waiting tokens (limit 8); raise --max-queued-tokens"),
        (overloaded(Resource::QueuedInputs), "too many waiting inputs (limit 8); raise --max-queued-inputs"),
        (overloaded(Resource::BufferedBytes), "requests and their responses (limit 8); raise --max-buffered-bytes"),
        (
            overloaded(Resource::TokenizeInput),
            "too many bytes of text and token ids being tokenized or decoded (limit 8)",
        ),
        (
            Error::BatchTooLarge { field: "inputs", got: 3, limit: 2 },
            "`inputs` has 3 items, the limit is 2 (64 times --max-client-batch-size)",
        ),
        (not_finite("value 1 is NaN", "bfloat16").into(), "value 1 is NaN (--dtype float32)"),
        (not_finite("value 1 is NaN", "float32").into(), "value 1 is NaN"),
    ] {
        let message = ApiError::from(error).to_string();
        assert!(message.ends_with(words), "{message}");
    }
}

#[test]
fn those_turned_away_are_told_when_to_come_back() {
    for (error, [status, _], ..) in table() {
        let retry = error.render(Dialect::Tei).headers().contains_key(header::RETRY_AFTER);
        assert_eq!(retry, matches!(status, 429 | 503), "{error:?}");
    }
}
