//! Flags of other servers: unknown ones are named as such, and other spellings are explained.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Flags by server. Flags with the meaning of a prefold flag are its aliases instead.
const FLAGS: [(&str, &[&str]); 3] = [
    ("text-embeddings-inference and Infinity", &["device-id"]),
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
            "disable-uvicorn-access-log",
            "download-dir",
            "enable-chunked-prefill",
            "enable-log-requests",
            "enable-lora",
            "enable-prefix-caching",
            "enable-request-id-headers",
            "enable-ssl-refresh",
            "enforce-eager",
            "gpu-memory-utilization",
            "hf-overrides",
            "kv-cache-dtype",
            "limit-mm-per-prompt",
            "load-format",
            "lora-modules",
            "max-num-partial-prefills",
            "max-num-queued-reqs",
            "middleware",
            "model-impl",
            "no-enable-log-requests",
            "no-enable-prefix-caching",
            "otlp-traces-endpoint",
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
            "tokenizer-revision",
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

/// Other flags of `vllm serve` 0.33.0, without a counterpart here: one a line, sorted.
const OTHER_FLAGS_OF_VLLM: &str = include_str!("flags_of_vllm.txt");

/// The error about an unknown flag names the server that it belongs to, instead of the nearest spelling.
pub(super) fn name_peer(error: clap::Error, command: &mut Command, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let is_tp = |argument: &OsString| argument.to_str().is_some_and(|it| it == "-tp" || it.starts_with("-tp="));
    let flag = match given.as_str() {
        // To clap `-tp` is several flags.
        "-t" if arguments.iter().any(is_tp) => "tensor-parallel-size",
        given => given.trim_start_matches('-').split('=').next().unwrap_or_default(),
    };
    let dashed = flag.replace('_', "-");
    let is_own = |arg: &clap::Arg| {
        arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&&*dashed))
            || arg.get_all_aliases().is_some_and(|all| all.contains(&&*dashed))
    };
    if error.kind() == ErrorKind::UnknownArgument && dashed != flag && command.get_arguments().any(is_own) {
        let problem = format!("--{flag} is written with hyphens here: --{dashed}");
        return command.error(ErrorKind::UnknownArgument, problem);
    }
    match server_of(flag).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        Some(server) => {
            let problem = format!("--{flag} of {server} is not a flag here; docs/migrating.md lists the replacements");
            command.error(ErrorKind::UnknownArgument, problem)
        }
        None => error,
    }
}

/// The server that has this flag. vLLM's may be written with underscores, after `no-`, and before a field of an object:
/// `--pooler_config.task`.
fn server_of(flag: &str) -> Option<&'static str> {
    let named = |flag: &str| FLAGS.iter().find(|(_, flags)| flags.contains(&flag)).map(|&(server, _)| server);
    let dashed = flag.split('.').next().unwrap_or_default().replace('_', "-");
    let bare = dashed.strip_prefix("no-").unwrap_or(&dashed);
    let is_other = || OTHER_FLAGS_OF_VLLM.lines().any(|other| other == bare);
    named(&dashed).or_else(|| named(bare)).or_else(|| is_other().then_some("vLLM"))
}

/// The error about a word that is neither the model nor a subcommand, if it follows a flag that takes several values in
/// vLLM.
pub(super) fn name_separator(error: clap::Error, command: &mut Command, arguments: &[OsString]) -> clap::Error {
    let problem = error.get(ContextKind::InvalidSubcommand).and_then(|_| further_value(arguments));
    problem.map_or(error, |problem| command.error(ErrorKind::ArgumentConflict, problem))
}

/// The problem with a second word after `--served-model-name` or `--api-key`, which is a further value in vLLM.
pub(super) fn further_value(arguments: &[OsString]) -> Option<String> {
    if let Some((first, next)) = values_apart("--served-model-name", arguments) {
        return Some(format!(
            "`{next}` after `--served-model-name {first}`: names are separated by commas, without spaces \
             (`--served-model-name {first},{next}`), and the model is given once"
        ));
    }
    // The words are secret.
    values_apart("--api-key", arguments).map(|_| {
        "a second word after `--api-key KEY`: each key has its own flag (`--api-key KEY1 --api-key KEY2`), and the model \
         is given once"
            .to_owned()
    })
}

/// The problem with a model that stands after `--api-key KEY`, where vLLM has a further key.
pub(super) fn word_after_key(arguments: &[OsString], model: &str) -> Option<String> {
    let (_, word) = values_apart("--api-key", arguments)?;
    (word == model).then(|| {
        "the word after `--api-key KEY` is either the model or, as in vLLM, a further key: give the model by --model-id, and each \
         key its own flag (`--api-key KEY1 --api-key KEY2`)"
            .to_owned()
    })
}

/// The value of a flag and the word after it, unless that is a flag.
fn values_apart<'a>(flag: &str, arguments: &'a [OsString]) -> Option<(&'a str, &'a str)> {
    let word = |at: usize| arguments.get(at)?.to_str().filter(|word| !word.starts_with('-'));
    let places = arguments.iter().enumerate().filter(|(_, argument)| *argument == flag);
    places.map(|(at, _)| at).find_map(|at| Some((word(at + 1)?, word(at + 2)?)))
}

#[test]
fn the_page_on_migrating_names_every_flag() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/migrating.md")).unwrap();
    for flag in FLAGS.iter().flat_map(|(_, flags)| *flags) {
        assert!(page.contains(&format!("`--{flag}`")), "docs/migrating.md lacks --{flag}");
    }
}
