//! Forms of an error's body.

use serde::Serialize;
use utoipa::ToSchema;

/// The form of an error's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// `{"error": "...", "error_type": "..."}`
    Tei,
    /// `{"error": {"message", "type", "param", "code"}}`, plus the flat fields of TEI (which Cohere's clients read too)
    /// and the `detail` of Voyage.
    OpenAi,
    /// The same, with the status as the `code` of `error`.
    Vllm,
    /// `{"error": "..."}`
    Ollama,
}

/// Paths whose errors are vLLM's.
const VLLM_PATHS: [&str; 7] =
    ["/pooling", "/detokenize", "/invocations", "/v1/score", "/v1/classify", "/v1/rerank", "/v2/rerank"];

impl Dialect {
    /// The dialect of a path, unless it is an alias.
    pub(crate) fn of(path: &str) -> Self {
        if VLLM_PATHS.contains(&path) {
            Self::Vllm
        } else if path.starts_with("/v1/") || path.starts_with("/v2/") {
            Self::OpenAi
        } else if path.starts_with("/api/") {
            Self::Ollama
        } else {
            Self::Tei
        }
    }

    /// True if every fault of a request is 400, as its clients expect.
    pub(crate) fn has_one_status(self) -> bool {
        match self {
            Self::Tei => false,
            Self::OpenAi | Self::Vllm | Self::Ollama => true,
        }
    }
}

/// An error of Ollama's routes.
#[derive(Serialize, ToSchema)]
pub(crate) struct OllamaError {
    /// The message.
    pub(super) error: String,
}

/// An error of the routes of text-embeddings-inference.
#[derive(Serialize, ToSchema)]
pub(crate) struct TeiError {
    /// The message.
    pub(super) error: String,
    /// `Validation`, `Empty`, `Tokenizer`, `Backend`, `Overloaded`, `Unhealthy`, ...
    pub(super) error_type: &'static str,
}

/// An error of the routes under `/v1` and `/v2`: OpenAI's object, plus the flat fields of text-embeddings-inference and
/// Voyage.
#[derive(Serialize, ToSchema)]
pub(crate) struct OpenAiError {
    /// The status.
    pub(super) code: u16,
    /// The message, where Voyage's clients read it.
    pub(super) detail: String,
    pub(super) error: OpenAiErrorObject,
    /// The message.
    pub(super) message: String,
    /// `Validation`, `Empty`, `Tokenizer`, `Backend`, `Overloaded`, `Unhealthy`, ...
    #[serde(rename = "type")]
    pub(super) error_type: &'static str,
}

/// The error as OpenAI's clients read it.
#[derive(Serialize, ToSchema)]
pub(super) struct OpenAiErrorObject {
    pub(super) code: Option<ErrorCode>,
    /// The message.
    pub(super) message: String,
    /// The field at fault.
    pub(super) param: Option<String>,
    /// `invalid_request_error`, `rate_limit_error` or `server_error`.
    #[serde(rename = "type")]
    pub(super) error_type: &'static str,
}

/// Code of an error.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub(super) enum ErrorCode {
    /// OpenAI's name for it, such as `context_length_exceeded`.
    Name(&'static str),
    /// The status, as in vLLM's API.
    Status(u16),
}
