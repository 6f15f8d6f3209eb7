//! The endpoints: each turns its wire format into a request, asks the engine and writes the answer.

pub(crate) mod embed;
pub(crate) mod health;
pub(crate) mod info;
pub(crate) mod openai;
pub(crate) mod predict;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod task;
pub(crate) mod tokenize;

use crate::answer::Answer;
use crate::error::ApiError;
use std::hash::{BuildHasher, RandomState};
use std::time::SystemTime;

/// What a handler gives back.
type Result = std::result::Result<Answer, ApiError>;

/// A fresh id for a response, such as `rerank-1f9a…`.
fn response_id(prefix: &str) -> String {
    // Every RandomState has keys of its own, so hashing nothing gives a number of its own.
    format!("{prefix}-{:016x}", RandomState::new().hash_one(()))
}

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_secs())
}

#[cfg(test)]
mod tests;
