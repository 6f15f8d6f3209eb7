//! The one mapping from what went wrong to what the client sees.
//!
//! | status | when |
//! | --- | --- |
//! | 400 | the body is not JSON, or ended early |
//! | 401 | the API key is missing or wrong |
//! | 404, 405 | there is no such route or model, or not with this method |
//! | 408 | the body did not arrive in time |
//! | 413 | too many bytes or values in the body, too many inputs in the request |
//! | 415 | the body is compressed |
//! | 422 | the client's fault otherwise: wrong types and values, nothing to work on, a text that cannot be encoded, a request that the served kind of model cannot answer |
//! | 424 | the forward pass failed |
//! | 429 | overloaded; `Retry-After` says when to come back |
//! | 500 | a bug |
//! | 503 | unhealthy, or shutting down |
//!
//! A handler's error travels as an extension of an empty response until [`ApiError::render`] writes the body, because
//! the body's form depends on the route and not on the error.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use prefold_core::Error;
use serde_json::json;
use std::time::Duration;
use thiserror::Error as ThisError;
use utoipa::ToSchema;

/// Seconds after which a client that was turned away may come back.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Why a request was not answered.
#[derive(Debug, Clone, ThisError)]
pub(crate) enum ApiError {
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// The body is not JSON.
    #[error("the request body is not valid JSON: {0}")]
    Syntax(String),
    /// The body is JSON of the wrong form.
    #[error("{}{problem}", field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default())]
    Body {
        /// The path of the field, when it is inside one.
        field: Option<String>,
        /// What is wrong with it, and the position in the body.
        problem: String,
    },
    /// The body is too large.
    #[error("the request body is larger than {limit} bytes (--payload-limit)")]
    PayloadTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// There are more values in the body than any request needs.
    #[error("the request body has more than {limit} strings, lists and objects")]
    TooManyValues {
        /// How many are allowed.
        limit: usize,
    },
    /// The body is compressed.
    #[error("the request body has `Content-Encoding: {0}`; send it as it is, without compression")]
    Encoded(String),
    /// The body ended early.
    #[error("the request body could not be read: {0}")]
    Incomplete(String),
    /// The body did not arrive in time.
    #[error("the request body did not arrive within {} s (--client-timeout)", .0.as_secs_f32())]
    Slow(Duration),
    /// The API key is missing or wrong.
    #[error("the API key is missing or wrong: send `Authorization: Bearer <API_KEY>`")]
    Unauthorized,
    /// There is no such route.
    #[error("there is no route `{0}`")]
    NotFound(String),
    /// The served model has other names.
    #[error("there is no model `{name}`; the served model is called {known}")]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The names, separated by commas.
        known: String,
    },
    /// The route exists with another method.
    #[error("the route `{0}` does not take this method")]
    MethodNotAllowed(String),
    /// The backend does not answer.
    #[error("unhealthy: {0}")]
    Unhealthy(String),
    /// A panic was caught.
    #[error("internal error; the server's log has the details")]
    Panic,
}

/// The form of an error's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `{"error": "...", "error_type": "..."}`
    Tei,
    /// `{"error": {"message", "type", "param", "code"}}`, with the flat fields of TEI's compatible routes beside it
    /// (which Cohere's clients read too) and the `detail` of Voyage's.
    OpenAi,
}

impl Dialect {
    /// The dialect of the routes under `path`.
    pub(crate) fn of(path: &str) -> Self {
        let compatible = path.starts_with("/v1/")
            || path.starts_with("/v2/")
            || matches!(path, "/embeddings" | "/score" | "/classify");
        if compatible { Self::OpenAi } else { Self::Tei }
    }
}

/// An error of the routes of text-embeddings-inference.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is written by hand; this describes it")]
pub(crate) struct TeiError {
    /// What is wrong.
    error: String,
    /// `Validation`, `Empty`, `Tokenizer`, `Backend`, `Overloaded`, `Unhealthy`, ...
    error_type: String,
}

/// An error of the routes under `/v1` and `/v2`: OpenAI's object, and beside it the flat fields of
/// text-embeddings-inference and Voyage.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is written by hand; this describes it")]
pub(crate) struct OpenAiError {
    error: OpenAiErrorObject,
    /// What is wrong.
    message: String,
    /// `Validation`, `Empty`, `Tokenizer`, `Backend`, `Overloaded`, `Unhealthy`, ...
    #[schema(rename = "type")]
    error_type: String,
    /// The status.
    code: u16,
    /// What is wrong, where Voyage's clients read it.
    detail: String,
}

/// What OpenAI's clients read.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it is written by hand; this describes it")]
struct OpenAiErrorObject {
    /// What is wrong.
    message: String,
    /// `invalid_request_error`, `rate_limit_error` or `server_error`.
    #[schema(rename = "type")]
    error_type: String,
    /// The field at fault.
    param: Option<String>,
    code: Option<String>,
}

/// How an error looks from outside.
struct Face {
    status: StatusCode,
    /// TEI's `error_type`.
    error_type: &'static str,
    /// OpenAI's `type`.
    openai_type: &'static str,
    /// OpenAI's `code`.
    code: Option<&'static str>,
}

impl Face {
    const fn client(status: StatusCode, error_type: &'static str) -> Self {
        Self { status, error_type, openai_type: "invalid_request_error", code: None }
    }

    const fn server(status: StatusCode, error_type: &'static str) -> Self {
        Self { status, error_type, openai_type: "server_error", code: None }
    }
}

impl ApiError {
    fn face(&self) -> Face {
        match self {
            Self::Engine(error) => match error {
                Error::Empty { .. } => Face::client(StatusCode::UNPROCESSABLE_ENTITY, "Empty"),
                Error::Validation { .. } | Error::WrongModelKind(_) => {
                    Face::client(StatusCode::UNPROCESSABLE_ENTITY, "Validation")
                }
                Error::Tokenization { .. } => Face::client(StatusCode::UNPROCESSABLE_ENTITY, "Tokenizer"),
                Error::BatchTooLarge { .. } => Face::client(StatusCode::PAYLOAD_TOO_LARGE, "Validation"),
                Error::Overloaded(_) => Face {
                    openai_type: "rate_limit_error",
                    code: Some("rate_limit_exceeded"),
                    ..Face::server(StatusCode::TOO_MANY_REQUESTS, "Overloaded")
                },
                Error::Backend(_) => Face::server(StatusCode::FAILED_DEPENDENCY, "Backend"),
                Error::ShuttingDown => Face::server(StatusCode::SERVICE_UNAVAILABLE, "Unhealthy"),
            },
            Self::Syntax(_) | Self::Incomplete(_) => Face::client(StatusCode::BAD_REQUEST, "Validation"),
            Self::Body { .. } => Face::client(StatusCode::UNPROCESSABLE_ENTITY, "Validation"),
            Self::Encoded(_) => Face::client(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Validation"),
            Self::Slow(_) => Face::client(StatusCode::REQUEST_TIMEOUT, "Validation"),
            Self::PayloadTooLarge { .. } | Self::TooManyValues { .. } => {
                Face::client(StatusCode::PAYLOAD_TOO_LARGE, "Validation")
            }
            Self::Unauthorized => {
                Face { code: Some("invalid_api_key"), ..Face::client(StatusCode::UNAUTHORIZED, "Unauthorized") }
            }
            Self::NotFound(_) => Face::client(StatusCode::NOT_FOUND, "NotFound"),
            Self::UnknownModel { .. } => {
                Face { code: Some("model_not_found"), ..Face::client(StatusCode::NOT_FOUND, "NotFound") }
            }
            Self::MethodNotAllowed(_) => Face::client(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::Unhealthy(_) => Face::server(StatusCode::SERVICE_UNAVAILABLE, "Unhealthy"),
            Self::Panic => Face::server(StatusCode::INTERNAL_SERVER_ERROR, "Internal"),
        }
    }

    /// The field at fault.
    fn param(&self) -> Option<&str> {
        match self {
            Self::Engine(
                Error::Empty { field, .. }
                | Error::Validation { field, .. }
                | Error::Tokenization { field, .. }
                | Error::BatchTooLarge { field, .. },
            ) => Some(field),
            Self::Body { field, .. } => field.as_deref(),
            Self::Engine(Error::WrongModelKind(_) | Error::Overloaded(_) | Error::Backend(_) | Error::ShuttingDown)
            | Self::Syntax(_)
            | Self::PayloadTooLarge { .. }
            | Self::TooManyValues { .. }
            | Self::Encoded(_)
            | Self::Incomplete(_)
            | Self::Slow(_)
            | Self::Unauthorized
            | Self::NotFound(_)
            | Self::UnknownModel { .. }
            | Self::MethodNotAllowed(_)
            | Self::Unhealthy(_)
            | Self::Panic => None,
        }
    }

    /// The response with its body.
    pub(crate) fn render(&self, dialect: Dialect) -> Response {
        let Face { status, error_type, openai_type, code } = self.face();
        let message = self.to_string();
        let body = match dialect {
            Dialect::Tei => json!({ "error": message, "error_type": error_type }),
            Dialect::OpenAi => json!({
                "error": { "message": message, "type": openai_type, "param": self.param(), "code": code },
                "message": message,
                "type": error_type,
                "code": status.as_u16(),
                "detail": message,
            }),
        };
        let mut response = (status, Json(body)).into_response();
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.face().status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefold_core::BackendError;
    use serde_json::Value;

    async fn rendered(error: &ApiError, dialect: Dialect) -> (StatusCode, Value) {
        let response = error.render(dialect);
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    fn table() -> Vec<(ApiError, u16, &'static str, Option<&'static str>)> {
        let field = "inputs";
        let problem = "is wrong".to_owned();
        vec![
            (Error::Empty { field, problem: problem.clone() }.into(), 422, "Empty", Some("inputs")),
            (Error::Validation { field, problem: problem.clone() }.into(), 422, "Validation", Some("inputs")),
            (Error::Tokenization { field, problem: problem.clone() }.into(), 422, "Tokenizer", Some("inputs")),
            (Error::BatchTooLarge { field, got: 3, limit: 2 }.into(), 413, "Validation", Some("inputs")),
            (Error::WrongModelKind("no".to_owned()).into(), 422, "Validation", None),
            (Error::Overloaded("full".to_owned()).into(), 429, "Overloaded", None),
            (Error::Backend(BackendError::Compute("broken".to_owned())).into(), 424, "Backend", None),
            (Error::Backend(BackendError::NotFinite("row 3".to_owned())).into(), 424, "Backend", None),
            (Error::ShuttingDown.into(), 503, "Unhealthy", None),
            (ApiError::Syntax("EOF".to_owned()), 400, "Validation", None),
            (ApiError::Body { field: Some("inputs[1]".to_owned()), problem }, 422, "Validation", Some("inputs[1]")),
            (ApiError::PayloadTooLarge { limit: 10 }, 413, "Validation", None),
            (ApiError::Encoded("gzip".to_owned()), 415, "Validation", None),
            (ApiError::Incomplete("gone".to_owned()), 400, "Validation", None),
            (ApiError::Unauthorized, 401, "Unauthorized", None),
            (ApiError::NotFound("/x".to_owned()), 404, "NotFound", None),
            (ApiError::UnknownModel { name: "a".to_owned(), known: "b".to_owned() }, 404, "NotFound", None),
            (ApiError::MethodNotAllowed("/x".to_owned()), 405, "MethodNotAllowed", None),
            (ApiError::Unhealthy("stuck".to_owned()), 503, "Unhealthy", None),
            (ApiError::Panic, 500, "Internal", None),
        ]
    }

    #[tokio::test]
    async fn every_error_has_its_status_and_both_bodies() {
        for (error, status, error_type, param) in table() {
            let message = error.to_string();
            assert_eq!(error.clone().into_response().status(), status, "{error:?}");

            let (got, tei) = rendered(&error, Dialect::Tei).await;
            assert_eq!(got, status);
            assert_eq!(tei, json!({ "error": message, "error_type": error_type }));

            let (got, openai) = rendered(&error, Dialect::OpenAi).await;
            assert_eq!(got, status);
            assert_eq!(openai["error"]["message"], message);
            assert_eq!(openai["error"]["param"], json!(param));
            assert!(openai["error"]["type"].is_string() && openai["error"].get("code").is_some());
            assert_eq!((&openai["message"], &openai["type"]), (&json!(message), &json!(error_type)));
            assert_eq!((&openai["code"], &openai["detail"]), (&json!(status), &json!(message)));
        }
    }

    #[test]
    fn those_turned_away_are_told_when_to_come_back() {
        for (error, status, ..) in table() {
            let retry = error.render(Dialect::Tei).headers().contains_key(header::RETRY_AFTER);
            assert_eq!(retry, matches!(status, 429 | 503), "{error:?}");
        }
    }

    #[test]
    fn dialects_follow_the_route() {
        for path in ["/v1/embeddings", "/embeddings", "/score", "/classify", "/v2/rerank", "/v1/nothing"] {
            assert_eq!(Dialect::of(path), Dialect::OpenAi, "{path}");
        }
        for path in ["/embed", "/rerank", "/", "/v1", "/nothing"] {
            assert_eq!(Dialect::of(path), Dialect::Tei, "{path}");
        }
    }
}
