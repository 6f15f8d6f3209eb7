//! Errors between a request's arrival and its answer.
//!
//! They name resources and limits, never flags or statuses, which belong to the server.

use crate::capabilities::{Capabilities, Task};
use crate::yield_point::Stopped;
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Failure of a request or of one of its inputs.
///
/// The variants are grouped by the party at fault, which decides the HTTP status: the client
/// ([`Empty`](Self::Empty), [`Validation`](Self::Validation), [`TooLong`](Self::TooLong), [`ForeignIds`](Self::ForeignIds),
/// [`Tokenization`](Self::Tokenization), [`BatchTooLarge`](Self::BatchTooLarge), [`NotCapable`](Self::NotCapable)), the load
/// ([`Overloaded`](Self::Overloaded)), or the server ([`Backend`](Self::Backend), [`ShuttingDown`](Self::ShuttingDown)).
#[derive(Debug, Clone, Error)]
pub enum Error {
    /// No inputs, or an input without tokens.
    #[error("`{field}` {problem}")]
    Empty {
        /// The request's field.
        field: &'static str,
        /// The fault, as the rest of a sentence.
        problem: String,
    },
    /// A value is out of its range or of the wrong form.
    #[error("`{field}` {problem}")]
    Validation {
        /// The request's field.
        field: &'static str,
        /// The fault and the limit, as the rest of a sentence.
        problem: String,
    },
    /// An input exceeds the token limit and must not be truncated.
    #[error("`{field}` {problem}")]
    TooLong {
        /// The request's field.
        field: &'static str,
        /// The fault and the limit, as the rest of a sentence.
        problem: String,
    },
    /// Token ids that the model's tokenizer cannot have made, or that look like another tokenizer's.
    #[error("`{field}` {problem}")]
    ForeignIds {
        /// The request's field.
        field: &'static str,
        /// The fault, as the rest of a sentence.
        problem: String,
    },
    /// The tokenizer could not encode or decode a text.
    #[error("`{field}` could not be tokenized: {problem}")]
    Tokenization {
        /// The request's field.
        field: &'static str,
        /// The tokenizer's message.
        problem: String,
    },
    /// A request has more inputs than its chunks may hold.
    #[error("`{field}` has {got} items, the limit is {limit}")]
    BatchTooLarge {
        /// The request's field.
        field: &'static str,
        /// Items in the request.
        got: usize,
        /// Items allowed.
        limit: usize,
    },
    /// The served model does not support the task.
    #[error("{} is not possible: the model ({model_type}) {capabilities}", asked.noun())]
    NotCapable {
        /// The requested task.
        asked: Task,
        /// The model's family.
        model_type: String,
        /// The answers that the model can give.
        capabilities: Arc<Capabilities>,
    },
    /// A quota is used up by other requests; the client should retry later.
    #[error("the server is overloaded: too many {resource} (limit {limit}{})", shown_part(.fair_part.as_ref()))]
    Overloaded {
        /// The resource whose quota is used up.
        resource: Resource,
        /// The quota's limit.
        limit: usize,
        /// The account's fair part of it, if other accounts hold some too.
        fair_part: Option<FairPart>,
    },
    /// The forward pass failed.
    #[error("inference failed: {0}")]
    Backend(#[from] BackendError),
    /// The engine no longer takes requests.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl Error {
    /// [`Validation`](Self::Validation) of a field.
    pub fn invalid(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Validation { field, problem: problem.into() }
    }

    /// The same with the name `to` of the field `from`, also where the problem names it: a field has other names in other APIs.
    #[must_use]
    pub fn renamed(mut self, from: &str, to: &'static str) -> Self {
        if let Self::Empty { field, .. }
        | Self::Validation { field, .. }
        | Self::TooLong { field, .. }
        | Self::Tokenization { field, .. }
        | Self::ForeignIds { field, .. }
        | Self::BatchTooLarge { field, .. } = &mut self
            && *field == from
        {
            *field = to;
        }
        if let Self::Empty { problem, .. } | Self::Validation { problem, .. } | Self::TooLong { problem, .. } =
            &mut self
        {
            *problem = problem.replace(&format!("`{from}`"), &format!("`{to}`"));
        }
        self
    }

    /// True if the request was not accepted; false if it was accepted and its computation failed.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Empty { .. }
            | Self::Validation { .. }
            | Self::TooLong { .. }
            | Self::ForeignIds { .. }
            | Self::Tokenization { .. }
            | Self::BatchTooLarge { .. }
            | Self::NotCapable { .. }
            | Self::Overloaded { .. }
            | Self::ShuttingDown => true,
            Self::Backend(_) => false,
        }
    }
}

/// Fair part of a quota, guaranteed to an account while others hold some too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairPart {
    /// Units: the limit over the number of accounts.
    pub size: usize,
    /// Accounts that hold some or wait for some, this one included.
    pub accounts: usize,
    /// Units that the other requests of the account hold.
    pub held: usize,
}

/// Fair part in an error message; to clients an account is an API key.
fn shown_part(part: Option<&FairPart>) -> String {
    let shown = |FairPart { size, accounts, held }: &FairPart| {
        format!(
            "; the fair part of this API key is {size} while {accounts} keys hold some, and its requests hold {held}"
        )
    };
    part.map(shown).unwrap_or_default()
}

/// Resource that all requests share; the unit of a [`Quota`](crate::Quota).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Requests in the engine.
    Requests,
    /// Tokens that wait for a batch.
    QueuedTokens,
    /// Inputs that wait for a batch.
    QueuedInputs,
    /// Bytes of text and token ids that are tokenized or decoded without a forward pass.
    TokenizeInput,
    /// Bytes of request bodies, and of the values of responses until clients have read them.
    BufferedBytes,
}

impl Resource {
    /// All resources.
    pub const ALL: [Self; 5] =
        [Self::Requests, Self::QueuedInputs, Self::QueuedTokens, Self::BufferedBytes, Self::TokenizeInput];

    /// Label `quota` of metrics.
    pub fn label(self) -> &'static str {
        match self {
            Self::Requests => "concurrent_requests",
            Self::QueuedInputs => "queued_inputs",
            Self::QueuedTokens => "queued_tokens",
            Self::BufferedBytes => "buffered_bytes",
            Self::TokenizeInput => "tokenization_bytes",
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Requests => "concurrent requests",
            Self::QueuedTokens => "waiting tokens",
            Self::QueuedInputs => "waiting inputs",
            Self::TokenizeInput => "bytes of text and token ids being tokenized or decoded",
            Self::BufferedBytes => "bytes of requests and their responses",
        })
    }
}

/// Failure of a forward pass.
#[derive(Debug, Clone, Error)]
pub enum BackendError {
    /// An operation on the device failed.
    #[error("{0}")]
    Compute(String),
    /// The device has no memory left for this batch.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// The device has failed permanently: every later call fails too, until the process is restarted.
    #[error("the device has failed: {0}")]
    DeviceLost(String),
    /// A panic was caught in the backend's thread.
    #[error("the backend panicked: {0}")]
    Panic(String),
    /// The output is not finite.
    #[error("the output is not finite (NaN or infinity): {problem}")]
    NotFinite {
        /// The values and their possible causes.
        problem: String,
        /// Data type of the weights and products, which may have overflowed.
        dtype: &'static str,
    },
    /// The pass ended at a yield point, because no request waits for it any more.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// The backend broke its contract, for example by returning too few outputs.
    #[error("contract broken: {0}")]
    Contract(String),
}

impl BackendError {
    /// Error for a non-finite output at `place`, with the possible causes for this data type.
    pub(crate) fn not_finite(place: &str, dtype: &'static str) -> Self {
        Self::NotFinite { problem: format!("{place}; {}", causes_of_not_finite(dtype)), dtype }
    }
}

/// Possible causes of a non-finite output of a model in this data type.
pub(crate) fn causes_of_not_finite(dtype: &str) -> String {
    const WEIGHT: &str = "possible causes: a weight that is not finite";
    match dtype {
        "float32" => WEIGHT.to_owned(),
        dtype => format!("{WEIGHT}, or in {dtype} an overflow, which float32 avoids"),
    }
}

/// Message of a caught panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}
