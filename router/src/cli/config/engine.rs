//! Settings of the engine, from the flags.

use super::error::ConfigError;
use crate::cli::args::{BatchingArgs, InputLength};
use crate::state::SharePrefixes;
use prefold_core::EngineConfig;

/// The engine's config.
///
/// # Errors
/// Its values contradict each other.
pub(super) fn engine_config(args: BatchingArgs, share_prefixes: SharePrefixes) -> Result<EngineConfig, ConfigError> {
    let workers = args.tokenization_workers.unwrap_or_else(|| EngineConfig::default().tokenization_workers);
    let config = EngineConfig {
        max_batch_tokens: args.max_batch_tokens,
        max_batch_ragged_tokens: args.max_batch_ragged_tokens,
        max_batch_requests: args.max_batch_requests,
        max_batch_ms: args.max_batch_ms,
        max_input_length: args.max_input_length.and_then(|InputLength(tokens)| tokens),
        max_queued_tokens: args.max_queued_tokens,
        max_queued_inputs: args.max_queued_inputs,
        max_client_batch_size: args.max_client_batch_size,
        scheduling: args.scheduling,
        radix_mlp_threshold: args.radix_mlp_threshold,
        radix_mlp_pad: args.radix_mlp_pad,
        warmup_tokens: args.warmup_tokens,
        tokenization_workers: workers,
        caches_words: share_prefixes == SharePrefixes::All,
        auto_truncate: args.auto_truncate,
        allow_empty_inputs: args.allow_empty_inputs,
        token_ids: args.token_ids.into(),
    };
    config.check()?;
    Ok(config)
}
