//! Flags of other servers that have no equivalent here.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Flags by server. Those that mean the same as one of ours are its aliases instead.
const FLAGS: [(&str, &[&str]); 2] = [
    (
        "vLLM",
        &[
            "allowed-origins",
            "api-server-count",
            "block-size",
            "chat-template",
            "compilation-config",
            "convert",
            "cpu-offload-gb",
            "data-parallel-size",
            "disable-log-requests",
            "disable-log-stats",
            "download-dir",
            "enable-chunked-prefill",
            "enable-log-requests",
            "enable-prefix-caching",
            "enforce-eager",
            "gpu-memory-utilization",
            "hf-overrides",
            "kv-cache-dtype",
            "limit-mm-per-prompt",
            "load-format",
            "max-num-partial-prefills",
            "middleware",
            "model-impl",
            "no-enable-prefix-caching",
            "override-pooler-config",
            "pipeline-parallel-size",
            "pooler-config",
            "quantization",
            "root-path",
            "runner",
            "seed",
            "ssl-certfile",
            "ssl-keyfile",
            "swap-space",
            "tensor-parallel-size",
            "tokenizer",
            "tokenizer-mode",
            "trust-remote-code",
            "uvicorn-log-level",
        ],
    ),
    (
        "Infinity",
        &[
            "batch-size",
            "bettertransformer",
            "compile",
            "device-id",
            "embedding-dtype",
            "engine",
            "lengths-via-tokenize",
            "model-warmup",
            "no-bettertransformer",
            "no-compile",
            "no-model-warmup",
            "permissive-cors",
            "preload-only",
            "proxy-root-path",
            "url-prefix",
            "vector-disk-cache",
        ],
    ),
];

/// An unknown flag that is another server's is named as such, instead of by the nearest spelling.
pub(super) fn name_peer(error: clap::Error, command: &mut Command) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let flag = given.trim_start_matches('-').split('=').next().unwrap_or_default();
    match FLAGS.iter().find(|(_, flags)| error.kind() == ErrorKind::UnknownArgument && flags.contains(&flag)) {
        Some((server, _)) => {
            let problem = format!("--{flag} of {server} has no equivalent; docs/migrating.md says what to use instead");
            command.error(ErrorKind::UnknownArgument, problem)
        }
        None => error,
    }
}
