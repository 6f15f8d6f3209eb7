//! Names of the metrics, and functions that record them through the [`metrics`] facade.
//!
//! Metrics with the same meaning as in text-embeddings-inference have its names. Durations are in seconds.
//! The engine counts every call that reaches it exactly once: `te_request_count` is
//! `te_request_success` plus `te_request_failure` plus the calls in progress.

use crate::admission::quota::Quota;
use crate::error::Error;
use crate::response::{Response, Timings};
use crate::schedule::entry::BatchReport;
use crate::schedule::level::Level;
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// Calls that reached the engine; label `method`.
const REQUEST_COUNT: &str = "te_request_count";
/// Calls that were answered; label `method`.
const REQUEST_SUCCESS: &str = "te_request_success";
/// Calls that failed; label `err`, see [`error_label`].
const REQUEST_FAILURE: &str = "te_request_failure";

const LABELLED: [&str; 3] = [REQUEST_COUNT, REQUEST_SUCCESS, REQUEST_FAILURE];

/// The values of [`REQUEST_FAILURE`]'s label.
const ERROR_LABELS: [&str; 8] =
    ["validation", "tokenization", "batch_size", "model_type", "overloaded", "inference", "shutting_down", DROPPED];

/// The client left before the answer.
const DROPPED: &str = "dropped";

const COUNTERS: [(&str, &str); 11] = [
    (REQUEST_COUNT, "Calls that reached the engine, by method"),
    (REQUEST_SUCCESS, "Calls that were answered, by method"),
    (REQUEST_FAILURE, "Calls that failed, by kind of error"),
    ("te_embed_count", "Inputs of accepted (not refused) calls to embed"),
    ("te_embed_success", "Inputs embedded"),
    ("te_predict_count", "Inputs of accepted (not refused) calls to score or classify"),
    ("te_predict_success", "Inputs scored or classified"),
    ("prefold_truncated_inputs_total", "Inputs that were too long and were truncated"),
    ("prefold_failed_sequences_total", "Sequences whose forward pass failed or gave a non-finite value"),
    ("prefold_tokens_saved_total", "Rows that compaction did not compute (N - N', padding not counted)"),
    (
        "prefold_attention_work_saved_total",
        "Query-key pairs that compact attention skipped, per head in a layer of full attention",
    ),
];

/// Queue time of requests, by the tokens of all their inputs; label `tokens`.
const QUEUE_BY_SIZE: &str = "prefold_request_queue_duration";

/// Upper bounds of the size classes of requests, in tokens. Larger requests are in the class `more`.
const SIZE_CLASSES: [(usize, &str); 4] = [(64, "64"), (512, "512"), (4096, "4096"), (32_768, "32768")];

/// Time until the model computes for a request, by the tokens of all its inputs; label `tokens`.
const START_DELAY: &str = "prefold_request_start_delay";

/// Batches that interrupted others; label `level`.
const INTERRUPTING: &str = "prefold_interrupting_batch_duration";

const HISTOGRAMS: [(&str, Unit, &str); 24] = [
    ("te_request_duration", Unit::Seconds, "From arrival to answer"),
    ("te_request_tokenization_duration", Unit::Seconds, "Encoding all inputs of a request"),
    ("te_request_queue_duration", Unit::Seconds, "Waiting for a batch, mean over the inputs of a request"),
    ("te_request_inference_duration", Unit::Seconds, "Forward pass, mean over the inputs of a request"),
    (QUEUE_BY_SIZE, Unit::Seconds, "As te_request_queue_duration, by the tokens of the request (at most, or `more`)"),
    ("te_embed_duration", Unit::Seconds, "As te_request_duration, embeddings only"),
    ("te_embed_tokenization_duration", Unit::Seconds, "As te_request_tokenization_duration, embeddings only"),
    ("te_embed_queue_duration", Unit::Seconds, "As te_request_queue_duration, embeddings only"),
    ("te_embed_inference_duration", Unit::Seconds, "As te_request_inference_duration, embeddings only"),
    ("te_predict_duration", Unit::Seconds, "As te_request_duration, scores and classes only"),
    ("te_predict_tokenization_duration", Unit::Seconds, "As te_request_tokenization_duration, scores and classes only"),
    ("te_predict_queue_duration", Unit::Seconds, "As te_request_queue_duration, scores and classes only"),
    ("te_predict_inference_duration", Unit::Seconds, "As te_request_inference_duration, scores and classes only"),
    (
        "prefold_request_tokenization_share",
        Unit::Count,
        "Fraction of a request's time spent encoding its inputs, 0 to 1",
    ),
    ("te_request_input_length", Unit::Count, "Tokens of an input after truncation"),
    ("te_batch_next_size", Unit::Count, "Sequences in a batch"),
    ("te_batch_next_tokens", Unit::Count, "Tokens in a batch (N)"),
    ("te_radix_mlp_compression_ratio", Unit::Count, "N'/N of a batch, 1 where it was not compacted"),
    ("prefold_batch_unique_tokens", Unit::Count, "Distinct rows of a batch (N'), without padding"),
    ("prefold_planning_duration", Unit::Seconds, "Choosing the inputs of a batch, forming it and its plan"),
    ("prefold_batch_inference_duration", Unit::Seconds, "Forward pass of a batch, without what interrupted it"),
    ("prefold_batch_interruptions", Unit::Count, "More urgent batches that ran at the yield points of a batch"),
    (INTERRUPTING, Unit::Seconds, "Forward pass of a batch that interrupted another, by level (`urgent` or `due`)"),
    (START_DELAY, Unit::Seconds, "From arrival until the first input is computed, by the tokens of the request"),
];

/// Units that requests hold of a quota; label `quota`, as of the next two.
const QUOTA_HELD: &str = "prefold_quota_held";
/// Limit of a quota.
const QUOTA_LIMIT: &str = "prefold_quota_limit";
/// Accounts that hold some of a quota.
const QUOTA_KEYS: &str = "prefold_quota_keys";

/// Registers units and descriptions with the installed recorder. Counters start at zero instead of absent, so that a
/// rate includes their first increment.
pub fn describe() {
    for (name, _) in COUNTERS.into_iter().filter(|(name, _)| !LABELLED.contains(name)) {
        counter!(name).increment(0);
    }
    for method in Method::ALL {
        counter!(REQUEST_COUNT, "method" => method.label()).increment(0);
        counter!(REQUEST_SUCCESS, "method" => method.label()).increment(0);
    }
    for level in Level::INTERRUPTING {
        // Exposed without a value, until a batch is interrupted.
        drop(histogram!(INTERRUPTING, "level" => level.name()));
    }
    for err in ERROR_LABELS {
        counter!(REQUEST_FAILURE, "err" => err).increment(0);
    }
    for (name, description) in COUNTERS {
        describe_counter!(name, Unit::Count, description);
    }
    for (name, unit, description) in HISTOGRAMS {
        describe_histogram!(name, unit, description);
    }
    describe_gauge!("te_queue_size", Unit::Count, "Inputs that wait for a batch to begin");
    describe_gauge!("prefold_queue_tokens", Unit::Count, "Tokens of the inputs that wait for a batch to begin");
    describe_gauge!(QUOTA_HELD, Unit::Count, "Requests, inputs, tokens or bytes of a quota in use");
    describe_gauge!(QUOTA_LIMIT, Unit::Count, "Limit of a quota, at which requests get status 429");
    describe_gauge!(QUOTA_KEYS, Unit::Count, "API keys that hold some of a quota and share it (1 without keys)");
    describe_histogram!("prefold_backend_idle_duration", Unit::Seconds, "A backend's wait for its next batch");
}

/// The label `err` of [`REQUEST_FAILURE`].
fn error_label(error: &Error) -> &'static str {
    match error {
        Error::Empty { .. } | Error::Validation { .. } | Error::TooLong { .. } | Error::ForeignIds { .. } => {
            "validation"
        }
        Error::Tokenization { .. } => "tokenization",
        Error::BatchTooLarge { .. } => "batch_size",
        Error::NotCapable { .. } => "model_type",
        Error::Overloaded { .. } => "overloaded",
        Error::Backend(_) => "inference",
        Error::ShuttingDown => "shutting_down",
    }
}

/// Sets the gauges of the queue: tokens and inputs that wait.
pub(crate) fn queue(tokens: usize, inputs: usize) {
    gauge!("te_queue_size").set(inputs as f64);
    gauge!("prefold_queue_tokens").set(tokens as f64);
}

/// Sets the gauges of a quota.
pub(crate) fn quota(quota: &Quota) {
    let label = quota.resource().label();
    let (held, accounts) = quota.held_by();
    gauge!(QUOTA_HELD, "quota" => label).set(held as f64);
    gauge!(QUOTA_LIMIT, "quota" => label).set(quota.limit() as f64);
    gauge!(QUOTA_KEYS, "quota" => label).set(accounts as f64);
}

/// Records the time that a backend waited for a batch.
pub(crate) fn backend_idle(duration: Duration) {
    histogram!("prefold_backend_idle_duration").record(duration);
}

/// Records a batch that was computed.
pub(crate) fn batch(report: &BatchReport, sequences: usize) {
    let &BatchReport { total_tokens, unique_tokens, attention_work_saved, planning, inference, .. } = report;
    histogram!("te_batch_next_size").record(sequences as f64);
    histogram!("te_batch_next_tokens").record(total_tokens as f64);
    histogram!("prefold_batch_unique_tokens").record(unique_tokens as f64);
    histogram!("te_radix_mlp_compression_ratio").record(unique_tokens as f64 / total_tokens as f64);
    histogram!("prefold_planning_duration").record(planning);
    histogram!("prefold_batch_inference_duration").record(inference);
    counter!("prefold_tokens_saved_total").increment((total_tokens - unique_tokens) as u64);
    counter!("prefold_attention_work_saved_total").increment(attention_work_saved);
}

/// Records the interruptions of a pass, and its time where it interrupted another as a batch of `level`.
pub(crate) fn interruptions(level: Option<Level>, inference: Duration, interruptions: usize) {
    histogram!("prefold_batch_interruptions").record(interruptions as f64);
    if let Some(level) = level {
        histogram!(INTERRUPTING, "level" => level.name()).record(inference);
    }
}

/// Counts the sequences of a failed batch.
pub(crate) fn failed_sequences(count: usize) {
    counter!("prefold_failed_sequences_total").increment(count as u64);
}

/// Records an answered request of `tokens` tokens: the mean queue time of its inputs, and the `delay` until the first was computed.
pub(crate) fn queue_time(tokens: usize, queue: Duration, delay: Duration) {
    let class = SIZE_CLASSES.iter().find(|(limit, _)| tokens <= *limit).map_or("more", |(_, name)| name);
    histogram!(QUEUE_BY_SIZE, "tokens" => class).record(queue);
    histogram!(START_DELAY, "tokens" => class).record(delay);
}

/// Counts truncated inputs.
pub(crate) fn truncated_inputs(count: usize) {
    counter!("prefold_truncated_inputs_total").increment(count as u64);
}

/// Records the length of an input in tokens.
pub(crate) fn input_length(tokens: usize) {
    histogram!("te_request_input_length").record(tokens as f64);
}

/// Names of the metrics that a group of methods has in addition to `te_request_*`.
struct Group {
    count: &'static str,
    success: &'static str,
    duration: &'static str,
    tokenization: &'static str,
    queue: &'static str,
    inference: &'static str,
}

const EMBED: Group = Group {
    count: "te_embed_count",
    success: "te_embed_success",
    duration: "te_embed_duration",
    tokenization: "te_embed_tokenization_duration",
    queue: "te_embed_queue_duration",
    inference: "te_embed_inference_duration",
};

const PREDICT: Group = Group {
    count: "te_predict_count",
    success: "te_predict_success",
    duration: "te_predict_duration",
    tokenization: "te_predict_tokenization_duration",
    queue: "te_predict_queue_duration",
    inference: "te_predict_inference_duration",
};

/// Method of the engine, a label of the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Embed,
    EmbedAll,
    Rerank,
    Predict,
    Tokenize,
    Decode,
}

impl Method {
    const ALL: [Self; 6] = [Self::Embed, Self::EmbedAll, Self::Rerank, Self::Predict, Self::Tokenize, Self::Decode];

    fn label(self) -> &'static str {
        match self {
            Self::Embed => "embed",
            Self::EmbedAll => "embed_all",
            Self::Rerank => "rerank",
            Self::Predict => "predict",
            Self::Tokenize => "tokenize",
            Self::Decode => "decode",
        }
    }

    fn group(self) -> Option<Group> {
        match self {
            Self::Embed | Self::EmbedAll => Some(EMBED),
            Self::Rerank | Self::Predict => Some(PREDICT),
            Self::Tokenize | Self::Decode => None,
        }
    }
}

/// Counts a call to the engine and its outcome. The call is boxed, so that a connection that waits for its body does not
/// reserve memory for it.
pub(crate) async fn observe<T: Timed>(
    method: Method,
    inputs: usize,
    call: Pin<Box<impl Future<Output = Result<T, Error>>>>,
) -> Result<T, Error> {
    let counted = Call::start(method, inputs);
    let result = call.await;
    counted.finish(result.as_ref().map(Timed::timings));
    result
}

/// Result of a call, with timings if it went through the model.
pub(crate) trait Timed {
    fn timings(&self) -> Option<Timings>;
}

impl<T> Timed for Response<T> {
    fn timings(&self) -> Option<Timings> {
        Some(self.timings)
    }
}

impl<T> Timed for Vec<T> {
    fn timings(&self) -> Option<Timings> {
        None
    }
}

/// Counts one call, even if its future is dropped before it completes.
struct Call {
    method: Method,
    inputs: usize,
    start: Instant,
    over: bool,
}

impl Call {
    fn start(method: Method, inputs: usize) -> Self {
        counter!(REQUEST_COUNT, "method" => method.label()).increment(1);
        Self { method, inputs, start: Instant::now(), over: false }
    }

    fn count_accepted(&self) {
        if let Some(group) = self.method.group() {
            counter!(group.count).increment(self.inputs as u64);
        }
    }

    /// Records the outcome, which has timings if the call went through the model.
    fn finish(mut self, outcome: Result<Option<Timings>, &Error>) {
        self.over = true;
        let timings = match outcome {
            Ok(timings) => timings,
            Err(error) => {
                if !error.is_refusal() {
                    self.count_accepted();
                }
                return counter!(REQUEST_FAILURE, "err" => error_label(error)).increment(1);
            }
        };
        self.count_accepted();
        counter!(REQUEST_SUCCESS, "method" => self.method.label()).increment(1);
        histogram!("te_request_duration").record(self.start.elapsed());
        let group = self.method.group();
        if let Some(group) = &group {
            counter!(group.success).increment(self.inputs as u64);
            histogram!(group.duration).record(self.start.elapsed());
        }
        let Some(timings) = timings else { return };
        histogram!("te_request_tokenization_duration").record(timings.tokenization);
        histogram!("prefold_request_tokenization_share").record(timings.tokenization_share());
        histogram!("te_request_queue_duration").record(timings.queue);
        histogram!("te_request_inference_duration").record(timings.inference);
        if let Some(group) = group {
            histogram!(group.tokenization).record(timings.tokenization);
            histogram!(group.queue).record(timings.queue);
            histogram!(group.inference).record(timings.inference);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.over {
            self.count_accepted();
            counter!(REQUEST_FAILURE, "err" => DROPPED).increment(1);
        }
    }
}

#[cfg(test)]
#[path = "tests/metrics.rs"]
mod tests;
