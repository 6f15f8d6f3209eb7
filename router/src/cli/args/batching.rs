//! Flags of the queue, batches and compaction.

use super::values::{count, positive, threshold, whole};
use clap::builder::BoolishValueParser;
use prefold_core::{EngineConfig, Scheduling};

/// Flags of the queue, batches and compaction.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Batching")]
pub(crate) struct BatchingArgs {
    /// Requests in the server at once. Further requests get status 429, except those of API keys below their fair part: the limit
    /// over the number of keys that hold some
    #[arg(long, env, default_value_t = 512, value_parser = positive)]
    pub(crate) max_concurrent_requests: usize,

    /// Tokens waiting for a batch. While this many wait, new requests get status 429, except those of API keys below
    /// their fair part: the limit over the number of keys that hold some
    #[arg(long, env, default_value_t = 1 << 20, value_parser = positive)]
    pub(crate) max_queued_tokens: usize,

    /// Inputs waiting for a batch. While this many wait, new requests get status 429, except those of API keys below
    /// their fair part: the limit over the number of keys that hold some
    #[arg(long, env, default_value_t = 1 << 15, value_parser = positive)]
    pub(crate) max_queued_inputs: usize,

    /// Tokens per batch; where batches are compacted, distinct tokens. Lower it to save memory
    #[arg(long, env, alias = "max-num-batched-tokens", default_value_t = 16384, value_parser = positive)]
    pub(crate) max_batch_tokens: usize,

    /// Tokens per batch, counting repeated ones each time. Default: 8 times --max-batch-tokens
    #[arg(long, env, value_parser = positive)]
    pub(crate) max_batch_ragged_tokens: Option<usize>,

    /// Tokens per input. Longer inputs are truncated or refused (--auto-truncate). Default: the model's limit
    #[arg(long, env, alias = "max-model-len", value_parser = positive)]
    pub(crate) max_input_length: Option<usize>,

    /// Estimated milliseconds of a batch at most, beside those of a prompt that its texts share; 0 for no such limit.
    /// Default: on a CPU 10000 for decoders with --scheduling prefix and 250 for other models, 0 on a GPU. Short requests
    /// interrupt long batches, whatever this is
    #[arg(long, env, value_parser = count::<u64>)]
    pub(crate) max_batch_ms: Option<u64>,

    /// Order in which waiting inputs enter a batch: prefix (fair shares between API keys and their requests, inputs that
    /// share a prefix together) or fifo (in the order of arrival)
    #[arg(long, env, default_value = "prefix")]
    pub(crate) scheduling: Scheduling,

    /// Inputs per batch. Default: no limit
    #[arg(long, env, alias = "max-num-seqs", value_parser = positive)]
    pub(crate) max_batch_requests: Option<usize>,

    /// Inputs of one request processed at once. A larger request is split into chunks of this size, at most 64; beyond
    /// that it gets status 413
    #[arg(long, env, default_value_t = 2048, value_parser = positive)]
    pub(crate) max_client_batch_size: usize,

    /// Truncate inputs that are too long unless a request says otherwise; false rejects them
    #[arg(long, env, default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          action = clap::ArgAction::Set, value_parser = BoolishValueParser::new())]
    pub(crate) auto_truncate: bool,

    /// Compute empty texts too. By default they are refused, because their vectors mean nothing and may rank first
    #[arg(long, env, value_parser = BoolishValueParser::new())]
    pub(crate) allow_empty_inputs: bool,

    /// Tokenizer threads, at most 1024. Default: one less than the CPU's cores, at least 1 and at most 8
    #[arg(long, env, value_parser = whole::<usize, 1, { EngineConfig::MAX_TOKENIZATION_WORKERS as u64 }>)]
    pub(crate) tokenization_workers: Option<usize>,

    /// Distinct tokens of the forward passes that run before the server is ready, so that the first request is as fast as
    /// the others. If none of their answers is finite, the start fails. The memory of a full batch is reserved too. 0 turns all
    /// of this off. On a GPU a full batch runs
    #[arg(long, env, default_value_t = 64, value_parser = count::<usize>)]
    pub(crate) warmup_tokens: usize,

    /// Compact batches whose distinct tokens are at most this fraction of all their tokens: 0 never, 1 whenever a
    /// prefix is shared
    #[arg(long, env, default_value_t = 0.95, value_parser = threshold)]
    pub(crate) radix_mlp_threshold: f32,

    /// Multiple to which the distinct tokens of a batch are padded; it must divide --max-batch-tokens
    #[arg(long, env, default_value_t = 1, value_parser = positive)]
    pub(crate) radix_mlp_pad: usize,
}
