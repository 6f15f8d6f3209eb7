//! What clients ask, after the wire format and before tokens.

use crate::Pooling;
use crate::answer_size::AnswerSize;
use std::sync::Arc;
use std::time::Duration;

/// One thing to run through the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A text, encoded with the tokenizer's special tokens.
    Text(String),
    /// A pair, joined as the tokenizer's post-processor says.
    Pair(String, String),
    /// Token ids as they are; nothing is added.
    Ids(Vec<u32>),
    /// A prompt of the model's [`RerankTemplate`](crate::RerankTemplate).
    Rerank {
        /// The template's own when absent.
        instruction: Option<Arc<str>>,
        /// The query.
        query: Arc<str>,
        /// Where the query stands, for messages.
        query_place: Place,
        /// The document; the only part that truncation may shorten.
        document: String,
    },
}

/// Where something stands in its request, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The request's field.
    pub field: &'static str,
    /// Present when the field holds several items; counted from 0.
    pub index: Option<usize>,
}

/// Which end of a too long text is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TruncationDirection {
    /// The end.
    #[default]
    Right,
    /// The beginning.
    Left,
}

/// How inputs become tokens.
#[derive(Debug, Clone)]
pub struct EncodeOptions {
    /// Cut what is too long instead of refusing it; the server's `--auto-truncate` when absent.
    pub truncate: Option<bool>,
    /// Cut to this many tokens, whatever `truncate` says; the model's own limit when absent.
    pub max_tokens: Option<usize>,
    /// Which end to cut.
    pub direction: TruncationDirection,
    /// A name from the model's prompts; the default prompt when absent.
    pub prompt_name: Option<String>,
    /// Add the tokenizer's special tokens to texts.
    pub add_special_tokens: bool,
    /// The request's field that the inputs came from, for messages.
    pub field: &'static str,
}

impl EncodeOptions {
    /// The defaults for inputs from `field`.
    pub fn new(field: &'static str) -> Self {
        Self {
            truncate: None,
            max_tokens: None,
            direction: TruncationDirection::Right,
            prompt_name: None,
            add_special_tokens: true,
            field,
        }
    }
}

/// What an encoder keeps to, whatever a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodeLimits {
    /// Token ids must be below this.
    pub vocab_size: usize,
    /// The longest sequence in tokens.
    pub max_input_length: usize,
    /// What [`EncodeOptions::truncate`] is when absent.
    pub auto_truncate: bool,
}

/// An answer with what it cost.
#[derive(Debug, Clone)]
pub struct Response<T> {
    /// One result for each input, in their order.
    pub results: Vec<T>,
    /// Counts over the whole request.
    pub usage: Usage,
    /// Where the time went.
    pub timings: Timings,
    /// What the answer takes of what all answers may have, as long as it is there.
    pub(crate) size: Option<Arc<AnswerSize>>,
}

impl<T> Response<T> {
    /// The same answer with its results replaced, one for one or as a whole.
    pub fn map<U>(self, f: impl FnOnce(Vec<T>) -> Vec<U>) -> Response<U> {
        let Self { results, usage, timings, size } = self;
        Response { results: f(results), usage, timings, size }
    }
}

/// Counts over a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Characters of the inputs' texts.
    pub characters: usize,
    /// Tokens of all inputs after truncation.
    pub tokens: usize,
    /// Those of `tokens` that were computed for this request. The others begin like an input before them in the same
    /// batch, and were computed for that one. Summed over all requests this is N'.
    pub computed_tokens: usize,
    /// N summed over the batches this request's inputs were in.
    pub batch_tokens: usize,
    /// N' (rows computed) summed over the same batches.
    pub batch_unique_tokens: usize,
}

impl Usage {
    /// Tokens that were not computed again because the batch had them already.
    pub fn saved_tokens(&self) -> usize {
        self.tokens.saturating_sub(self.computed_tokens)
    }

    /// N'/N of the batches this request's inputs were in; 1 when nothing was compacted.
    pub fn compaction_ratio(&self) -> f64 {
        if self.batch_tokens == 0 { 1.0 } else { self.batch_unique_tokens as f64 / self.batch_tokens as f64 }
    }
}

/// Where a request's time went: wall time for tokenization, the mean over its inputs for the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// From arrival to the answer.
    pub total: Duration,
    /// Encoding all inputs.
    pub tokenization: Duration,
    /// Waiting in the queue, until the batch began to form, and again until the backend took it.
    pub queue: Duration,
    /// Choosing what goes into the batch, forming it and its plan.
    pub planning: Duration,
    /// The forward pass.
    pub inference: Duration,
}

impl Timings {
    /// The part of the whole time that tokenization took, 0 to 1.
    pub fn tokenization_share(&self) -> f64 {
        if self.total.is_zero() { 0.0 } else { self.tokenization.as_secs_f64() / self.total.as_secs_f64() }
    }
}

/// How embeddings are asked for.
#[derive(Debug, Clone)]
pub struct EmbedOptions {
    /// How inputs become tokens.
    pub encode: EncodeOptions,
    /// Scale vectors to unit length (after `dimensions`).
    pub normalize: bool,
    /// Keep only the first values of each vector.
    pub dimensions: Option<usize>,
}

/// Queries and documents to score against each other.
#[derive(Debug, Clone)]
pub struct ScoreRequest {
    /// One for all documents, or one for each of them.
    pub queries: Vec<String>,
    /// The request's field that the queries came from, for messages.
    pub query_field: &'static str,
    /// The documents.
    pub documents: Vec<String>,
    /// For models with a template; its default when absent.
    pub instruction: Option<String>,
    /// How inputs become tokens; `field` names the documents' field.
    pub encode: EncodeOptions,
}

/// A document's score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RerankScore {
    /// The logit of a score head, yes less no of a reranker; the cosine of an embedding model.
    pub raw: f32,
    /// The same as a probability; the cosine of an embedding model.
    pub score: f32,
}

/// One token as `/tokenize` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenInfo {
    /// Its id.
    pub id: u32,
    /// The tokenizer's string for a special token, the piece of the text otherwise.
    pub text: String,
    /// Whether the post-processor added it or it is a special token.
    pub special: bool,
    /// Where the piece begins in the text (its prompt included), counted in characters; absent for special tokens.
    pub start: Option<usize>,
    /// One past the piece's last character; absent for special tokens.
    pub stop: Option<usize>,
}

/// What the engine is configured with.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Rows to compute in a batch at most: distinct tokens where batches are compacted, tokens where they are not
    /// (`--max-batch-tokens`).
    pub max_batch_tokens: usize,
    /// Tokens in a batch at most, repeated ones counted each time (`--max-batch-ragged-tokens`);
    /// [`RAGGED_TOKENS_FACTOR`](Self::RAGGED_TOKENS_FACTOR) times `max_batch_tokens` when absent.
    pub max_batch_ragged_tokens: Option<usize>,
    /// Sequences in a batch at most (`--max-batch-requests`).
    pub max_batch_requests: Option<usize>,
    /// Requests in the server at once (`--max-concurrent-requests`).
    pub max_concurrent_requests: usize,
    /// While so many tokens wait for a batch, requests are refused (`--max-queued-tokens`).
    pub max_queued_tokens: usize,
    /// While so many inputs wait for a batch, requests are refused (`--max-queued-inputs`).
    pub max_queued_inputs: usize,
    /// Inputs of one request that are worked on at once (`--max-client-batch-size`). A larger request is done in parts
    /// of this size, up to [`MAX_PARTS`](Self::MAX_PARTS) of them.
    pub max_client_batch_size: usize,
    /// Which waiting inputs go into a batch together (`--scheduling`).
    pub scheduling: Scheduling,
    /// Compact a batch that shares anything when N'/N is at or under this; 0 is never (`--radix-mlp-threshold`). A batch of
    /// more tokens than `max_batch_tokens` is always compacted.
    pub radix_mlp_threshold: f32,
    /// Round N' up to a multiple of this, which divides `max_batch_tokens` (`--radix-mlp-pad`).
    pub pad_to_multiple: usize,
    /// Threads that encode texts (`--tokenization-workers`).
    pub tokenization_workers: usize,
    /// What `truncate` is when a request does not say (`--auto-truncate`).
    pub auto_truncate: bool,
}

impl EngineConfig {
    /// How many times `max_batch_tokens` the tokens of a batch may be, counted with repetitions, unless the
    /// configuration says otherwise.
    pub const RAGGED_TOKENS_FACTOR: usize = 8;

    /// Parts that a request may have at most: its answers are all in memory before the first is sent.
    pub const MAX_PARTS: usize = 64;

    /// Inputs in one request at most.
    pub fn max_request_inputs(&self) -> usize {
        self.max_client_batch_size.saturating_mul(Self::MAX_PARTS)
    }

    /// The bound of a batch's tokens that holds.
    pub fn ragged_tokens_limit(&self) -> usize {
        let default = self.max_batch_tokens.saturating_mul(Self::RAGGED_TOKENS_FACTOR).min(i32::MAX as usize);
        self.max_batch_ragged_tokens.unwrap_or(default)
    }
}

/// Which waiting inputs go into a batch together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// The oldest leads, and those that share the longest prefixes with what is chosen already fill the batch. None
    /// waits more than one batch longer than with [`Fifo`](Self::Fifo). The same as that when nothing is compacted.
    #[default]
    Prefix,
    /// First in, first out.
    Fifo,
}

impl std::str::FromStr for Scheduling {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "prefix" => Ok(Self::Prefix),
            "fifo" => Ok(Self::Fifo),
            other => Err(format!("scheduling `{other}` is not known (prefix, fifo)")),
        }
    }
}

/// The prompts that a model's `config_sentence_transformers.json` names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prompts {
    /// Text by name.
    pub by_name: std::collections::BTreeMap<String, String>,
    /// The prompt put before every text when a request names none.
    pub default: Option<String>,
}

/// Pooling as a flag or a file names it.
impl std::str::FromStr for Pooling {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "last-token" | "last_token" | "lasttoken" => Ok(Self::LastToken),
            "mean" => Ok(Self::Mean),
            "cls" => Ok(Self::Cls),
            other => Err(format!("pooling `{other}` is not supported (cls, mean, last-token)")),
        }
    }
}
