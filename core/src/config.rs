//! Configuration of the engine.

use crate::error::Error;
use crate::request::ForeignIds;
use std::time::Duration;
use thiserror::Error as ThisError;

/// Maximum default number of tokenization workers. More do not keep a faster device busy, and each copies the tokenizer's state.
const MAX_DEFAULT_TOKENIZATION_WORKERS: usize = 8;

/// Limits and choices of an [`Engine`](crate::Engine); the server has a flag for each.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Maximum rows computed in a batch: distinct tokens if batches are compacted, all tokens otherwise.
    pub max_batch_tokens: usize,
    /// Maximum tokens in a batch, with repeated tokens counted each time;
    /// [`RAGGED_TOKENS_FACTOR`](Self::RAGGED_TOKENS_FACTOR) times `max_batch_tokens` when absent.
    pub max_batch_ragged_tokens: Option<usize>,
    /// Maximum sequences in a batch.
    pub max_batch_requests: Option<usize>,
    /// Maximum estimated time of a batch in milliseconds, 0 for no bound. When absent: no bound on a GPU; on a CPU
    /// [`MAX_BATCH_MS_OF_PREFIXES`](Self::MAX_BATCH_MS_OF_PREFIXES) if batches compute shared prefixes once and short requests
    /// interrupt them, [`MAX_BATCH_MS_ON_CPU`](Self::MAX_BATCH_MS_ON_CPU) otherwise.
    pub max_batch_ms: Option<u64>,
    /// Maximum tokens in an input; the model's limit when absent.
    pub max_input_length: Option<usize>,
    /// Limit on tokens that wait for a batch; requests are refused while the queue holds this many.
    pub max_queued_tokens: usize,
    /// Limit on inputs that wait for a batch; requests are refused while the queue holds this many.
    pub max_queued_inputs: usize,
    /// Inputs of one request that are processed at once. A larger request is split into chunks of this size, at most
    /// [`MAX_CHUNKS`](Self::MAX_CHUNKS) of them.
    pub max_client_batch_size: usize,
    /// Choice of the waiting inputs that form a batch together.
    pub scheduling: Scheduling,
    /// Maximum N'/N of a batch that is compacted; 0 turns compaction off. A batch of more tokens than `max_batch_tokens` is
    /// always compacted.
    pub radix_mlp_threshold: f32,
    /// Multiple to which N' is rounded up; must divide `max_batch_tokens`.
    pub radix_mlp_pad: usize,
    /// Threads that encode texts.
    pub tokenization_workers: usize,
    /// Cache the tokens of words across texts of all scopes. The time that a text takes may then reveal whether another text
    /// contained a word.
    pub caches_words: bool,
    /// Distinct tokens of the warm-up passes on a CPU; 0 for no warm-up. On a GPU a full batch runs.
    pub warmup_tokens: usize,
    /// Value of `truncate` for requests without it.
    pub auto_truncate: bool,
    /// Accept empty texts instead of refusing them. Their vectors mean nothing, and may be close to the vector of any text.
    pub allow_empty_inputs: bool,
    /// Treatment of token ids that look like another tokenizer's.
    pub token_ids: ForeignIds,
}

impl Default for EngineConfig {
    /// The server's defaults.
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            max_batch_tokens: 16_384,
            max_batch_ragged_tokens: None,
            max_batch_requests: None,
            max_batch_ms: None,
            max_input_length: None,
            max_queued_tokens: 1 << 20,
            max_queued_inputs: 1 << 15,
            max_client_batch_size: 2048,
            scheduling: Scheduling::Prefix,
            radix_mlp_threshold: 0.95,
            radix_mlp_pad: 1,
            caches_words: true,
            tokenization_workers: (cores - 1).clamp(1, MAX_DEFAULT_TOKENIZATION_WORKERS),
            warmup_tokens: 64,
            auto_truncate: true,
            allow_empty_inputs: false,
            token_ids: ForeignIds::default(),
        }
    }
}

impl EngineConfig {
    /// Ratio of the default `max_batch_ragged_tokens` to `max_batch_tokens`.
    pub const RAGGED_TOKENS_FACTOR: usize = 8;

    /// Maximum chunks of a request: all its answers are in memory before the first is sent.
    pub const MAX_CHUNKS: usize = 64;

    /// Maximum tokenization workers. Each is a thread, and more threads than cores gain nothing.
    pub const MAX_TOKENIZATION_WORKERS: usize = 1024;

    /// Default `max_batch_ms` on a CPU.
    pub const MAX_BATCH_MS_ON_CPU: u64 = 250;

    /// The same if batches compute shared prefixes once. Each further batch computes them again: 2% of this for a prefix that takes
    /// 0.2 s, such as 512 tokens in a model of 0.6 billion parameters on two cores.
    pub const MAX_BATCH_MS_OF_PREFIXES: u64 = 10_000;

    /// Maximum tokens in a batch of longer requests that interrupt others because their turn comes first.
    pub const MAX_DUE_TOKENS: usize = 4096;

    /// Maximum tokens in a batch of short requests that interrupt others.
    pub const MAX_URGENT_TOKENS: usize = 1024;

    /// Maximum estimated time of a batch on a device with this name; `shares_prefixes`: batches compute shared prefixes once.
    pub fn max_batch_time(&self, device: &str, shares_prefixes: bool) -> Option<Duration> {
        let default = match (device, shares_prefixes, self.scheduling) {
            ("cpu", true, Scheduling::Prefix) => Self::MAX_BATCH_MS_OF_PREFIXES,
            ("cpu", _, _) => Self::MAX_BATCH_MS_ON_CPU,
            _ => 0,
        };
        let millis = self.max_batch_ms.unwrap_or(default);
        (millis > 0).then(|| Duration::from_millis(millis))
    }

    /// Maximum inputs in one request.
    pub fn max_request_inputs(&self) -> usize {
        self.max_client_batch_size.saturating_mul(Self::MAX_CHUNKS)
    }

    /// Maximum tokens in a batch: the setting or its default.
    pub fn ragged_tokens_limit(&self) -> usize {
        let default = self.max_batch_tokens.saturating_mul(Self::RAGGED_TOKENS_FACTOR).min(i32::MAX as usize);
        self.max_batch_ragged_tokens.unwrap_or(default)
    }

    /// Checks the settings, each alone and all together, as far as possible without the model.
    ///
    /// # Errors
    /// The first setting that is out of its range.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        at_least_one([
            ("max_batch_tokens", self.max_batch_tokens),
            ("max_batch_ragged_tokens", self.ragged_tokens_limit()),
            ("max_batch_requests", self.max_batch_requests.unwrap_or(1)),
            ("max_input_length", self.max_input_length.unwrap_or(1)),
            ("max_queued_tokens", self.max_queued_tokens),
            ("max_queued_inputs", self.max_queued_inputs),
            ("max_client_batch_size", self.max_client_batch_size),
            ("radix_mlp_pad", self.radix_mlp_pad),
            ("tokenization_workers", self.tokenization_workers),
        ])?;
        let (workers, limit) = (self.tokenization_workers, Self::MAX_TOKENIZATION_WORKERS);
        if workers > limit {
            let problem = format!("is {workers}, the limit is {limit}");
            return Err(InvalidSetting { setting: "tokenization_workers", problem });
        }
        self.check_batch()
    }

    /// The settings of a batch, none of which is 0.
    fn check_batch(&self) -> Result<(), InvalidSetting> {
        let (tokens, ragged_tokens, pad) = (self.max_batch_tokens, self.ragged_tokens_limit(), self.radix_mlp_pad);
        let invalid = |setting, problem| Err(InvalidSetting { setting, problem });
        // Row indices are 32 bits wide.
        let limit = i32::MAX as usize;
        if tokens > limit {
            return invalid("max_batch_tokens", format!("is {tokens}, the limit is {limit}"));
        }
        if ragged_tokens > limit {
            return invalid("max_batch_ragged_tokens", format!("is {ragged_tokens}, the limit is {limit}"));
        }
        if ragged_tokens < tokens {
            let problem = format!("is {ragged_tokens}, it must be at least the {tokens} distinct tokens of a batch");
            return invalid("max_batch_ragged_tokens", problem);
        }
        // Divisibility keeps the rows of a batch within the budget after padding.
        if !tokens.is_multiple_of(pad) {
            return invalid(
                "radix_mlp_pad",
                format!("is {pad}, it must divide the {tokens} distinct tokens of a batch"),
            );
        }
        let threshold = self.radix_mlp_threshold;
        if !(0.0..=1.0).contains(&threshold) {
            let problem =
                format!("is {threshold}, it must be between 0 (never compact) and 1 (whenever anything is shared)");
            return invalid("radix_mlp_threshold", problem);
        }
        Ok(())
    }
}

/// Limits on what the requests of a process hold together, whatever their models; the server has a flag for each.
#[derive(Debug, Clone, Copy)]
pub struct ProcessLimits {
    /// Maximum requests in the engines at once.
    pub max_concurrent_requests: usize,
    /// Limit on the bytes of request bodies, and of the values of responses until clients have read them; a request is refused
    /// while the others hold this many.
    pub max_buffered_bytes: usize,
}

impl Default for ProcessLimits {
    /// The server's defaults.
    fn default() -> Self {
        Self { max_concurrent_requests: 512, max_buffered_bytes: 256_000_000 }
    }
}

impl ProcessLimits {
    /// # Errors
    /// The first limit that is out of its range.
    pub(crate) fn check(&self) -> Result<(), InvalidSetting> {
        at_least_one([
            ("max_concurrent_requests", self.max_concurrent_requests),
            ("max_buffered_bytes", self.max_buffered_bytes),
        ])
    }
}

/// # Errors
/// The first setting that is 0.
fn at_least_one<const N: usize>(settings: [(&'static str, usize); N]) -> Result<(), InvalidSetting> {
    match settings.into_iter().find(|(_, value)| *value == 0) {
        Some((setting, _)) => Err(InvalidSetting { setting, problem: "must be at least 1".to_owned() }),
        None => Ok(()),
    }
}

/// Failure to start an [`Engine`](crate::Engine).
#[derive(Debug, Clone, ThisError)]
pub enum StartError {
    /// A setting is invalid.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The model contradicts itself, its template cannot be encoded, or a thread cannot be started.
    #[error(transparent)]
    Other(#[from] Error),
}

/// A setting that is out of its range, or does not fit another or the device.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[error("`{setting}` {problem}")]
pub struct InvalidSetting {
    /// The field of [`EngineConfig`] or [`ProcessLimits`].
    pub setting: &'static str,
    /// The fault and the limit, as the rest of a sentence.
    pub problem: String,
}

/// Choice of the waiting inputs that form a batch together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// Fair shares between API keys and between their requests; among requests whose turn it is, the batch takes those that
    /// share the longest prefixes with the inputs chosen already.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_beyond_their_limits_are_refused_by_name() {
        let refused = |config: EngineConfig| config.check().err().map(|invalid| (invalid.setting, invalid.problem));
        let limit = EngineConfig::MAX_TOKENIZATION_WORKERS;
        let with = |tokenization_workers| EngineConfig { tokenization_workers, ..EngineConfig::default() };
        assert_eq!(refused(with(limit)), None);
        let problem = format!("is {}, the limit is {limit}", limit + 1);
        assert_eq!(refused(with(limit + 1)), Some(("tokenization_workers", problem)));
        assert_eq!(refused(with(0)).map(|(setting, _)| setting), Some("tokenization_workers"));
        let rows = i32::MAX as usize;
        let with = |max_batch_tokens| EngineConfig { max_batch_tokens, ..EngineConfig::default() };
        assert_eq!(refused(with(rows)), None);
        assert_eq!(refused(with(rows + 1)).map(|(setting, _)| setting), Some("max_batch_tokens"));
        let ragged = EngineConfig { max_batch_ragged_tokens: Some(rows + 1), ..EngineConfig::default() };
        assert_eq!(refused(ragged).map(|(setting, _)| setting), Some("max_batch_ragged_tokens"));
    }
}
