//! Endpoints: each turns its wire format into a request to the engine and writes the response.

pub(crate) mod cohere;
pub(crate) mod docs;
pub(crate) mod embed;
pub(crate) mod health;
mod home;
pub(crate) mod infinity;
pub(crate) mod info;
pub(crate) mod invocations;
mod kept;
pub(crate) mod models;
pub(crate) mod ollama;
pub(crate) mod openai;
pub(crate) mod pooling;
pub(crate) mod predict;
pub(crate) mod predict_tokens;
mod quantized;
pub(crate) mod ranked;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod tokenize;
mod two_apis;

use crate::error::ApiError;
use crate::wire::answer::Answer;

/// Result of a handler.
type Result = std::result::Result<Answer, ApiError>;

/// The path without a slash at its end, which has no meaning.
pub(crate) fn without_slash(path: &str) -> &str {
    match path.strip_suffix('/') {
        None | Some("") => path,
        Some(bare) => bare,
    }
}

#[cfg(test)]
mod tests;
