//! Flags of the queue, batches and compaction.

use super::values::{InputLength, TokenIds, boolean, count, input_length, positive, threshold, whole};
use prefold_core::{EngineConfig, Scheduling};

/// Flags of the queue, batches and compaction.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Batching")]
pub(crate) struct BatchingArgs {
    /// Maximum requests in progress. Further requests get status 429, unless their API key holds less than its fair
    /// part: the limit divided by the number of keys that hold some
    #[arg(long, env, default_value_t = 512, value_parser = positive)]
    pub(crate) max_concurrent_requests: usize,

    /// Maximum tokens waiting for a batch. While this many wait, new requests get status 429, unless their API key
    /// holds less than its fair part: the limit divided by the number of keys that hold some
    #[arg(long, env, default_value_t = 1 << 20, value_parser = positive)]
    pub(crate) max_queued_tokens: usize,

    /// Maximum inputs waiting for a batch. While this many wait, new requests get status 429, unless their API key
    /// holds less than its fair part: the limit divided by the number of keys that hold some
    #[arg(long, env, default_value_t = 1 << 15, value_parser = positive)]
    pub(crate) max_queued_inputs: usize,

    /// Maximum tokens per batch, after compaction. Lower it to save memory
    #[arg(long, env, alias = "max-num-batched-tokens", default_value_t = 16384, value_parser = positive)]
    pub(crate) max_batch_tokens: usize,

    /// Maximum tokens per batch before compaction. Default: 8 times --max-batch-tokens
    #[arg(long, env, value_parser = positive)]
    pub(crate) max_batch_ragged_tokens: Option<usize>,

    /// Maximum tokens per input. Longer inputs are truncated or refused (--auto-truncate). Default: the model's limit
    #[arg(long, env, alias = "max-model-len", value_parser = input_length)]
    pub(crate) max_input_length: Option<InputLength>,

    /// Maximum estimated batch time in ms, excluding a shared prompt; 0 means no limit. Default: on a CPU 10000 for
    /// decoders with --scheduling prefix and 250 otherwise, on a GPU 0. Short requests interrupt long batches in any
    /// case
    #[arg(long, env, value_parser = count::<u64>)]
    pub(crate) max_batch_ms: Option<u64>,

    /// Order in which waiting inputs enter a batch: prefix (fair between API keys and between requests, inputs that
    /// share a prefix together) or fifo (in the order of arrival)
    #[arg(long, env, default_value = "prefix")]
    pub(crate) scheduling: Scheduling,

    /// Maximum inputs per batch. Default: no limit
    #[arg(long, env, alias = "max-num-seqs", value_parser = positive)]
    pub(crate) max_batch_requests: Option<usize>,

    /// Inputs per chunk: a larger request is processed in chunks of this size. A request of more than 64 chunks gets
    /// status 413
    #[arg(long, env, default_value_t = 2048, value_parser = positive)]
    pub(crate) max_client_batch_size: usize,

    /// Truncate inputs that are too long unless the request says otherwise; false refuses them
    #[arg(long, env, default_value_t = true, num_args = 0..=1, default_missing_value = "true",
          action = clap::ArgAction::Set, value_parser = boolean)]
    pub(crate) auto_truncate: bool,

    /// Accept empty texts. By default they are refused, because their vectors mean nothing and may rank first
    #[arg(long, env, value_parser = boolean)]
    pub(crate) allow_empty_inputs: bool,

    /// Token ids that look like another tokenizer's: `warn` computes them, with a warning in the log and the number of such inputs
    /// in the response header x-foreign-token-ids; `refuse` refuses the request; `accept` looks only whether the vocabulary has them.
    /// LangChain's OpenAIEmbeddings sends OpenAI's ids unless it has check_embedding_ctx_length=False
    #[arg(long, env, value_enum, default_value_t = TokenIds::Warn)]
    pub(crate) token_ids: TokenIds,

    /// Tokenizer threads, up to 1024. Default: the number of cores minus one, from 1 to 8
    #[arg(long, env, value_parser = whole::<usize, 1, { EngineConfig::MAX_TOKENIZATION_WORKERS as u64 }>)]
    pub(crate) tokenization_workers: Option<usize>,

    /// Distinct tokens of the warm-up passes before the server is ready, so that the first request is as fast as later
    /// ones. On a GPU a full batch runs instead. The start fails if no output is finite. The warm-up also allocates the
    /// memory of a full batch. 0 turns it off
    #[arg(long, env, default_value_t = 64, value_parser = count::<usize>)]
    pub(crate) warmup_tokens: usize,

    /// Compact a batch if its distinct tokens are at most this fraction of all its tokens: 0 means never, 1 whenever a
    /// prefix is shared
    #[arg(long, env, default_value_t = 0.95, value_parser = threshold)]
    pub(crate) radix_mlp_threshold: f32,

    /// Multiple to which the distinct tokens of a batch are padded; it must divide --max-batch-tokens
    #[arg(long, env, default_value_t = 1, value_parser = positive)]
    pub(crate) radix_mlp_pad: usize,
}
