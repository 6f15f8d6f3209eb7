//! The only mapping from errors to responses.
//!
//! | status | when |
//! | --- | --- |
//! | 400 | body not JSON, damaged or incomplete; no `Host` header, or two; no inputs; on OpenAI's and Ollama's routes also 422 and inputs too many or too long |
//! | 401 | the API key is missing or wrong |
//! | 404, 405 | there is no such route or model, or not with this method |
//! | 408 | the body did not arrive in time |
//! | 413 | too many bytes or values in the body; too many inputs, or one that is too long |
//! | 415 | the body has another coding than gzip or zstd |
//! | 422 | other faults of the client: wrong types and values, a text that cannot be encoded, a task that the model does not support |
//! | 424 | the forward pass failed |
//! | 429 | overloaded; `Retry-After` says when to retry |
//! | 500 | a bug |
//! | 503 | unhealthy, or shutting down, or the device has failed permanently |
//!
//! A handler's error travels as an extension of an empty response until [`ApiError::render`] writes the body, because
//! the body's form depends on the route and not on the error.

mod dialect;

pub(crate) use dialect::{Dialect, OllamaError, OpenAiError, TeiError};

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dialect::{ErrorCode, OpenAiErrorObject};
use prefold_core::{BackendError, EngineConfig, Error, Resource, Task};
use std::time::Duration;
use thiserror::Error as ThisError;

/// Seconds after which a refused client may retry.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// Failure of a request as its client sees it.
#[derive(Debug, Clone, ThisError)]
pub(crate) enum ApiError {
    /// From the engine.
    #[error("{0}{flags}", flags = advice(.0))]
    Engine(#[from] Error),
    /// The body is not JSON.
    #[error("the request body is not valid JSON: {0}")]
    Syntax(String),
    /// The body is JSON of the wrong form.
    #[error("{}{problem}", field.as_ref().map(|field| format!("`{field}`: ")).unwrap_or_default())]
    Body {
        /// Path of the field, if the fault is inside one.
        field: Option<String>,
        /// The fault, and its position in the body.
        problem: String,
    },
    /// The body has a field that no route reads, and the server is strict.
    #[error("`{0}`: unknown field (--strict-fields)")]
    UnknownField(String),
    /// The body is too large.
    #[error("the request body is larger than {limit} bytes (--payload-limit)")]
    PayloadTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// There are more values in the body than any request needs.
    #[error("the request body has more than {limit} strings, lists and objects")]
    TooManyValues {
        /// Values allowed.
        limit: usize,
    },
    /// The body has an unsupported coding.
    #[error("the request has `{header}: {coding}`; supported: {supported}")]
    Encoded {
        /// The header that says so.
        header: &'static str,
        /// Its value.
        coding: String,
        /// The values that are supported.
        supported: &'static str,
    },
    /// The host is missing, or there are two.
    #[error("the request has {0} `Host` headers; it must have one")]
    Host(usize),
    /// The body ended early, or its compressed data is damaged.
    #[error("the request body could not be read: {0}")]
    Unreadable(String),
    /// The body did not arrive in time.
    #[error("the request body did not arrive within {} s (--client-timeout)", .0.as_secs_f32())]
    Slow(Duration),
    /// The API key is missing or wrong.
    #[error(
        "the API key is missing or wrong: send `Authorization: Bearer <API_KEY>`, or the key in `api-key` or `x-api-key`"
    )]
    Unauthorized,
    /// There is no such route.
    #[error("there is no route `{path}`{}", instead(path, *nearest))]
    NotFound {
        /// The path, as messages show it.
        path: String,
        /// The route whose path is most like it, if one is; the same path if the route is on another port.
        nearest: Option<&'static str>,
    },
    /// The served model has other names.
    #[error("there is no model `{name}`; the served model is called {known}")]
    UnknownModel {
        /// Name in the request.
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

/// Status and types of an error in a response.
struct ErrorClass {
    status: StatusCode,
    /// TEI's `error_type`.
    error_type: &'static str,
    /// OpenAI's `type`.
    openai_type: &'static str,
    /// OpenAI's `code`.
    code: Option<&'static str>,
}

impl ErrorClass {
    const fn client(status: StatusCode, error_type: &'static str) -> Self {
        Self { status, error_type, openai_type: "invalid_request_error", code: None }
    }

    const fn server(status: StatusCode, error_type: &'static str) -> Self {
        Self { status, error_type, openai_type: "server_error", code: None }
    }
}

/// Clause about the route that a client may have meant.
fn instead(path: &str, nearest: Option<&str>) -> String {
    match nearest {
        None => "; / shows the main routes".to_owned(),
        Some(known) if known == path => {
            " on this port: with --prometheus-port, /metrics alone is on that port".to_owned()
        }
        Some(known) => format!("; did you mean {known}?"),
    }
}

impl ApiError {
    fn class(&self, dialect: Dialect) -> ErrorClass {
        let of_tei = |status| if dialect.has_one_status() { StatusCode::BAD_REQUEST } else { status };
        let unprocessable = of_tei(StatusCode::UNPROCESSABLE_ENTITY);
        let too_large = of_tei(StatusCode::PAYLOAD_TOO_LARGE);
        match self {
            Self::Engine(error) => match error {
                Error::Empty { .. } => ErrorClass::client(StatusCode::BAD_REQUEST, "Empty"),
                Error::Validation { .. } | Error::ForeignIds { .. } | Error::NotCapable { .. } => {
                    ErrorClass::client(unprocessable, "Validation")
                }
                Error::TooLong { .. } => {
                    ErrorClass { code: Some("context_length_exceeded"), ..ErrorClass::client(too_large, "Validation") }
                }
                Error::Tokenization { .. } => ErrorClass::client(unprocessable, "Tokenizer"),
                Error::BatchTooLarge { .. } => ErrorClass::client(too_large, "Validation"),
                Error::Overloaded { .. } => ErrorClass {
                    openai_type: "rate_limit_error",
                    code: Some("rate_limit_exceeded"),
                    ..ErrorClass::server(StatusCode::TOO_MANY_REQUESTS, "Overloaded")
                },
                Error::Backend(BackendError::DeviceLost(_)) => {
                    ErrorClass::server(StatusCode::SERVICE_UNAVAILABLE, "Unhealthy")
                }
                Error::Backend(_) => ErrorClass::server(StatusCode::FAILED_DEPENDENCY, "Backend"),
                Error::ShuttingDown => ErrorClass::server(StatusCode::SERVICE_UNAVAILABLE, "Unhealthy"),
            },
            Self::Syntax(_) | Self::Unreadable(_) | Self::Host(_) => {
                ErrorClass::client(StatusCode::BAD_REQUEST, "Validation")
            }
            Self::Body { .. } | Self::UnknownField(_) => ErrorClass::client(unprocessable, "Validation"),
            Self::Encoded { .. } => ErrorClass::client(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Validation"),
            Self::Slow(_) => ErrorClass::client(StatusCode::REQUEST_TIMEOUT, "Validation"),
            Self::PayloadTooLarge { .. } | Self::TooManyValues { .. } => {
                ErrorClass::client(StatusCode::PAYLOAD_TOO_LARGE, "Validation")
            }
            Self::Unauthorized => ErrorClass {
                code: Some("invalid_api_key"),
                ..ErrorClass::client(StatusCode::UNAUTHORIZED, "Unauthorized")
            },
            Self::NotFound { .. } => ErrorClass::client(StatusCode::NOT_FOUND, "NotFound"),
            Self::UnknownModel { .. } => {
                ErrorClass { code: Some("model_not_found"), ..ErrorClass::client(StatusCode::NOT_FOUND, "NotFound") }
            }
            Self::MethodNotAllowed(_) => ErrorClass::client(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::Unhealthy(_) => ErrorClass::server(StatusCode::SERVICE_UNAVAILABLE, "Unhealthy"),
            Self::Panic => ErrorClass::server(StatusCode::INTERNAL_SERVER_ERROR, "Internal"),
        }
    }

    /// The quota whose limit refused the request.
    pub(crate) fn quota(&self) -> Option<Resource> {
        match self {
            Self::Engine(Error::Overloaded { resource, .. }) => Some(*resource),
            _ => None,
        }
    }

    /// The same with the client's names of fields, each after the name in the code.
    pub(crate) fn in_names(self, sent: &[(&'static str, &'static str)]) -> Self {
        match self {
            Self::Engine(error) => {
                Self::Engine(sent.iter().fold(error, |error, (field, sent)| error.renamed(field, sent)))
            }
            other => other,
        }
    }

    /// The field at fault.
    fn param(&self) -> Option<&str> {
        match self {
            Self::Engine(
                Error::Empty { field, .. }
                | Error::Validation { field, .. }
                | Error::TooLong { field, .. }
                | Error::ForeignIds { field, .. }
                | Error::Tokenization { field, .. }
                | Error::BatchTooLarge { field, .. },
            ) => Some(field),
            Self::Body { field, .. } => field.as_deref(),
            Self::UnknownField(field) => Some(field),
            Self::Engine(
                Error::NotCapable { .. } | Error::Overloaded { .. } | Error::Backend(_) | Error::ShuttingDown,
            )
            | Self::Syntax(_)
            | Self::PayloadTooLarge { .. }
            | Self::TooManyValues { .. }
            | Self::Encoded { .. }
            | Self::Host(_)
            | Self::Unreadable(_)
            | Self::Slow(_)
            | Self::Unauthorized
            | Self::NotFound { .. }
            | Self::UnknownModel { .. }
            | Self::MethodNotAllowed(_)
            | Self::Unhealthy(_)
            | Self::Panic => None,
        }
    }

    /// The message, with the words by which Ollama's clients know an input that is too long.
    fn in_ollamas_words(&self, message: String) -> String {
        match self {
            Self::Engine(Error::TooLong { .. }) => format!("the input length exceeds the context length: {message}"),
            _ => message,
        }
    }

    /// The response with its body.
    pub(crate) fn render(&self, dialect: Dialect) -> Response {
        let ErrorClass { status, error_type, openai_type, code } = self.class(dialect);
        let message = self.to_string();
        let mut response = match dialect {
            Dialect::Tei => Json(TeiError { error: message, error_type }).into_response(),
            Dialect::Ollama => Json(OllamaError { error: self.in_ollamas_words(message) }).into_response(),
            Dialect::OpenAi | Dialect::Vllm => {
                let (param, detail) = (self.param().map(ToOwned::to_owned), message.clone());
                let code = if dialect == Dialect::Vllm {
                    Some(ErrorCode::Status(status.as_u16()))
                } else {
                    code.map(ErrorCode::Name)
                };
                let error = OpenAiErrorObject { code, message: message.clone(), param, error_type: openai_type };
                Json(OpenAiError { code: status.as_u16(), detail, error, message, error_type }).into_response()
            }
        };
        *response.status_mut() = status;
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        if let Self::Encoded { header: "Content-Encoding", .. } = self {
            response.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"));
        }
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Advice after the message of an engine's error: flags and routes that help.
fn advice(error: &Error) -> String {
    match error {
        Error::Overloaded { resource, .. } => match resource {
            Resource::Requests => "; raise --max-concurrent-requests".to_owned(),
            Resource::QueuedTokens => "; raise --max-queued-tokens".to_owned(),
            Resource::QueuedInputs => "; raise --max-queued-inputs".to_owned(),
            Resource::BufferedBytes => "; raise --max-buffered-bytes".to_owned(),
            Resource::TokenizeInput => String::new(),
        },
        Error::NotCapable { capabilities, .. } => {
            let routes: Vec<&str> = capabilities.tasks().flat_map(routes_of).copied().collect();
            match routes.split_last() {
                None => String::new(),
                Some((only, [])) => format!("; use {only}"),
                Some((last, others)) => format!("; use {} or {last}", others.join(", ")),
            }
        }
        Error::BatchTooLarge { .. } => format!(" ({} times --max-client-batch-size)", EngineConfig::MAX_CHUNKS),
        Error::ForeignIds { .. } => {
            "; send texts, or ids of the served model's tokenizer. LangChain's OpenAIEmbeddings must have \
                                     check_embedding_ctx_length=False, or it sends ids of OpenAI's (--token-ids)"
                .to_owned()
        }
        Error::Backend(BackendError::NotFinite { dtype, .. }) if *dtype != "float32" => " (--dtype float32)".to_owned(),
        Error::Empty { .. }
        | Error::Validation { .. }
        | Error::TooLong { .. }
        | Error::Tokenization { .. }
        | Error::Backend(_)
        | Error::ShuttingDown => String::new(),
    }
}

/// The flag of the engine's setting.
pub(crate) fn flag(setting: &str) -> String {
    format!("--{}", setting.replace('_', "-"))
}

/// Routes of a task, as errors recommend them. A test of `routes::table` checks that they exist.
pub(crate) fn routes_of(task: Task) -> &'static [&'static str] {
    match task {
        Task::Embed => &["/v1/embeddings", "/embed", "/embed_all"],
        Task::Rerank => &["/rerank", "/v1/rerank", "/v1/score"],
        Task::Classify => &["/predict", "/v1/classify"],
        Task::ClassifyTokens => &["/predict_tokens"],
    }
}

/// An error whose form the body may decide instead of the route.
pub(crate) struct ErrorIn {
    /// The form that the body decides.
    pub(crate) dialect: Option<Dialect>,
    pub(crate) error: ApiError,
}

impl From<ApiError> for ErrorIn {
    fn from(error: ApiError) -> Self {
        Self { dialect: None, error }
    }
}

impl IntoResponse for ErrorIn {
    fn into_response(self) -> Response {
        let mut response = self.error.into_response();
        if let Some(dialect) = self.dialect {
            response.extensions_mut().insert(dialect);
        }
        response
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.class(Dialect::Tei).status.into_response();
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests;
