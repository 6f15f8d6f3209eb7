//! The endpoints: each turns its wire format into a request, asks the engine and writes the answer.

pub(crate) mod embed;
pub(crate) mod info;
pub(crate) mod openai;
pub(crate) mod predict;
pub(crate) mod rerank;
pub(crate) mod tokenize;

use crate::answer::Answer;
use crate::error::ApiError;
use std::hash::{BuildHasher, RandomState};

/// What a handler gives back.
type Result = std::result::Result<Answer, ApiError>;

/// A fresh id for a response, such as `rerank-1f9a…`.
fn response_id(prefix: &str) -> String {
    // Every RandomState has keys of its own, so hashing nothing gives a number of its own.
    format!("{prefix}-{:016x}", RandomState::new().hash_one(()))
}

#[cfg(test)]
mod tests;
