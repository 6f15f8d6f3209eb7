//! What can go wrong between a request's arrival and its answer.

use thiserror::Error;

/// Why a request, or one of its inputs, was not answered.
///
/// The variants follow whose fault it is, because that decides the HTTP status: the client's
/// ([`Empty`](Self::Empty), [`Validation`](Self::Validation), [`Tokenization`](Self::Tokenization),
/// [`BatchTooLarge`](Self::BatchTooLarge), [`WrongModelKind`](Self::WrongModelKind)), the load's
/// ([`Overloaded`](Self::Overloaded)), or ours ([`Backend`](Self::Backend), [`ShuttingDown`](Self::ShuttingDown)).
#[derive(Debug, Clone, Error)]
pub enum Error {
    /// Nothing to work on: no inputs, or an input without a single token.
    #[error("`{field}` {problem}")]
    Empty {
        /// The request's field.
        field: &'static str,
        /// What is wrong with it, as the rest of a sentence.
        problem: String,
    },
    /// A value is out of its range or of the wrong form.
    #[error("`{field}` {problem}")]
    Validation {
        /// The request's field.
        field: &'static str,
        /// What is wrong with it and what the limit is, as the rest of a sentence.
        problem: String,
    },
    /// The tokenizer could not encode or decode a text.
    #[error("`{field}` could not be tokenized: {problem}")]
    Tokenization {
        /// The request's field.
        field: &'static str,
        /// The tokenizer's words.
        problem: String,
    },
    /// More inputs in one request than can be split into parts.
    #[error(
        "`{field}` has {got} items, the limit is {limit} ({} times --max-client-batch-size)",
        crate::EngineConfig::MAX_PARTS
    )]
    BatchTooLarge {
        /// The request's field.
        field: &'static str,
        /// Items in the request.
        got: usize,
        /// Items allowed.
        limit: usize,
    },
    /// The served model cannot answer this kind of request.
    #[error("{0}")]
    WrongModelKind(String),
    /// Every place is taken; the client should come back later.
    #[error("the server is overloaded: {0}")]
    Overloaded(String),
    /// The forward pass failed.
    #[error("inference failed: {0}")]
    Backend(#[from] BackendError),
    /// The engine no longer takes requests.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// A failed forward pass.
#[derive(Debug, Clone, Error)]
pub enum BackendError {
    /// An operation on the device failed.
    #[error("{0}")]
    Compute(String),
    /// The device has no memory left for this batch.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A panic was caught in the backend's thread.
    #[error("the backend panicked: {0}")]
    Panic(String),
    /// The output is not finite.
    #[error("the output is not finite (NaN or infinity): {0}")]
    NotFinite(String),
    /// The backend broke its contract, for example by returning too few outputs.
    #[error("contract broken: {0}")]
    Contract(String),
}
