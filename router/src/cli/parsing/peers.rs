//! Flags of other servers: unknown ones are named as such, and other spellings are explained.

use super::messages::{sentence, without_secret};
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Flags of another server, and their replacement.
struct Replaced {
    server: &'static str,
    flags: &'static [&'static str],
    /// The words of docs/migrating.md.
    instead: &'static str,
}

/// Flags by replacement. Flags with the meaning of a prefold flag are its aliases instead.
const REPLACED: &[Replaced] = &[
    Replaced { server: "text-embeddings-inference and Infinity", flags: &["device-id"], instead: "`--device cuda:N`" },
    Replaced { server: "vLLM", flags: &["model"], instead: "`--model-id`, or the model without a flag" },
    Replaced {
        server: "vLLM",
        flags: &["runner", "convert"],
        instead: "`--task`, if the files do not determine the task",
    },
    Replaced { server: "vLLM", flags: &["pooler-config", "override-pooler-config"], instead: "`--pooling`" },
    Replaced {
        server: "vLLM",
        flags: &["hf-overrides", "chat-template"],
        instead: "`--rerank-recipe` for a reranker's prompt; Qwen3-Reranker needs none, its prompt is built in",
    },
    Replaced { server: "vLLM", flags: &["download-dir"], instead: "`--huggingface-hub-cache`" },
    Replaced { server: "vLLM", flags: &["quantization"], instead: "a GGUF file, or `--dtype int8` on a CPU" },
    Replaced {
        server: "vLLM",
        flags: &["data-parallel-size"],
        instead: "`--cpu-replicas` on a CPU; on GPUs one process each",
    },
    Replaced {
        server: "vLLM",
        flags: &["api-server-count"],
        instead: "leave out; `--tokenization-workers` sets the tokenizer threads",
    },
    Replaced {
        server: "vLLM",
        flags: &["enable-prefix-caching", "no-enable-prefix-caching"],
        instead: "compaction is on by default; `--radix-mlp-threshold 0` turns it off",
    },
    Replaced { server: "vLLM", flags: &["allowed-origins"], instead: "`--cors-allow-origin`" },
    Replaced {
        server: "vLLM",
        flags: &[
            "enable-log-requests",
            "no-enable-log-requests",
            "disable-log-requests",
            "disable-uvicorn-access-log",
            "uvicorn-log-level",
        ],
        instead: "requests are logged by default; `--log-level info,request=off` silences them",
    },
    Replaced {
        server: "vLLM",
        flags: &["enable-lora", "lora-modules"],
        instead: "an adapter in the model's folder is merged when the model is loaded",
    },
    Replaced {
        server: "vLLM",
        flags: &["enable-request-id-headers"],
        instead: "leave out: each response has the header `x-request-id`",
    },
    Replaced { server: "vLLM", flags: &["otlp-traces-endpoint"], instead: "`--otlp-endpoint`" },
    Replaced { server: "vLLM", flags: &["max-num-queued-reqs"], instead: "`--max-concurrent-requests`" },
    Replaced { server: "vLLM", flags: &["tokenizer-revision"], instead: "`--revision`" },
    Replaced {
        server: "vLLM",
        flags: &["enable-ssl-refresh"],
        instead: "leave out: a certificate that changes is loaded",
    },
    Replaced {
        server: "vLLM",
        flags: &["ssl-ca-certs", "ssl-cert-reqs"],
        instead: "a proxy in front of the server that checks client certificates, which this server does not",
    },
    Replaced {
        server: "vLLM",
        flags: &["disable-fastapi-docs"],
        instead: "`--protect-docs`, which asks for the API key",
    },
    Replaced { server: "vLLM", flags: &["root-path", "middleware"], instead: "a proxy in front of the server" },
    Replaced {
        server: "vLLM",
        flags: &["gpu-memory-utilization", "cpu-offload-gb", "swap-space", "block-size", "kv-cache-dtype"],
        instead: "leave out: there is no KV cache; `--max-batch-tokens` bounds the memory",
    },
    Replaced {
        server: "vLLM",
        flags: &[
            "tensor-parallel-size",
            "pipeline-parallel-size",
            "enforce-eager",
            "compilation-config",
            "enable-chunked-prefill",
            "max-num-partial-prefills",
            "limit-mm-per-prompt",
            "load-format",
            "model-impl",
            "trust-remote-code",
            "tokenizer",
            "tokenizer-mode",
            "seed",
            "disable-log-stats",
        ],
        instead: "leave out: no equivalent",
    },
    Replaced { server: "Infinity", flags: &["batch-size"], instead: "`--max-batch-tokens` (in tokens)" },
    Replaced {
        server: "Infinity",
        flags: &["permissive-cors"],
        instead: "leave out: every origin is allowed by default",
    },
    Replaced {
        server: "Infinity",
        flags: &["model-warmup", "no-model-warmup"],
        instead: "the warm-up is on by default; `--warmup-tokens 0` turns it off",
    },
    Replaced {
        server: "Infinity",
        flags: &["embedding-dtype"],
        instead: "in requests: `embed_dtype` (`float32`, `float16`, `bfloat16`, `fp8_e4m3`, `fp8_e5m2`) or `output_dtype` (`int8`, `uint8`, `binary`, `ubinary`)",
    },
    Replaced {
        server: "Infinity",
        flags: &["url-prefix", "proxy-root-path"],
        instead: "a proxy that removes the prefix",
    },
    Replaced {
        server: "Infinity",
        flags: &[
            "engine",
            "compile",
            "no-compile",
            "bettertransformer",
            "no-bettertransformer",
            "vector-disk-cache",
            "lengths-via-tokenize",
            "preload-only",
        ],
        instead: "leave out: no equivalent",
    },
];

/// Other flags of `vllm serve` 0.33.0, without a counterpart here: one a line, sorted.
const OTHER_FLAGS_OF_VLLM: &str = include_str!("flags_of_vllm.txt");

/// Short flags of vLLM, and their long names.
const SHORT_FLAGS_OF_VLLM: [(&str, &str); 3] =
    [("-tp", "tensor-parallel-size"), ("-q", "quantization"), ("-dp", "data-parallel-size")];

/// The long name of vLLM's short flag in the arguments; to clap `-tp` is several flags, of which `given` is the first.
fn long_of_vllm(given: &str, arguments: &[OsString]) -> Option<&'static str> {
    let is_in = |argument: &OsString, short: &str| argument.to_str().and_then(|it| it.split('=').next()) == Some(short);
    let is_given = |short: &str| short.starts_with(given) && arguments.iter().any(|argument| is_in(argument, short));
    let is_short = given.starts_with('-') && !given.starts_with("--");
    SHORT_FLAGS_OF_VLLM.iter().find(|(short, _)| is_short && is_given(short)).map(|(_, long)| *long)
}

/// The error about an invalid value names the other name of the flag, under which it was given.
pub(super) fn name_alias(error: clap::Error, command: &mut Command, arguments: &[OsString]) -> clap::Error {
    let (Some(ContextValue::String(shown)), ErrorKind::ValueValidation) =
        (error.get(ContextKind::InvalidArg), error.kind())
    else {
        return error;
    };
    command.build();
    let Some(flag) = command.get_arguments().find(|flag| flag.to_string() == *shown) else { return error };
    let long = |argument: &OsString| Some(argument.to_str()?.strip_prefix("--")?.split('=').next()?.to_owned());
    let is_alias = |name: &String| flag.get_all_aliases().unwrap_or_default().contains(&name.as_str());
    let (Some(alias), Some(name)) = (arguments.iter().filter_map(long).find(is_alias), flag.get_long()) else {
        return error;
    };
    let origin = format!("--{alias} is another name of --{name}");
    let message = without_secret(&error, command);
    command.error(error.kind(), format!("{} ({origin})", sentence(&message)))
}

/// The error about an unknown flag names the server that it belongs to, instead of the nearest spelling.
pub(super) fn name_peer(error: clap::Error, command: &mut Command, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else { return error };
    let bare = || given.trim_start_matches('-').split('=').next().unwrap_or_default();
    let flag = long_of_vllm(given, arguments).unwrap_or_else(bare);
    let dashed = flag.replace('_', "-");
    let is_own = |arg: &clap::Arg| {
        arg.get_long_and_visible_aliases().is_some_and(|all| all.contains(&&*dashed))
            || arg.get_all_aliases().is_some_and(|all| all.contains(&&*dashed))
    };
    if error.kind() == ErrorKind::UnknownArgument && dashed != flag && command.get_arguments().any(is_own) {
        let problem = format!("--{flag} is written with hyphens here: --{dashed}");
        return command.error(ErrorKind::UnknownArgument, problem);
    }
    match replacement(flag).filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        Some((server, instead)) => {
            let problem = format!("--{flag} of {server} is not a flag here; docs/migrating.md says: {instead}");
            command.error(ErrorKind::UnknownArgument, problem)
        }
        None => error,
    }
}

/// The server that has this flag, and its replacement here. vLLM's may be written with underscores, after `no-`, and before a
/// field of an object: `--pooler_config.task`.
fn replacement(flag: &str) -> Option<(&'static str, &'static str)> {
    let named = |flag: &str| REPLACED.iter().find(|it| it.flags.contains(&flag)).map(|it| (it.server, it.instead));
    let dashed = flag.split('.').next().unwrap_or_default().replace('_', "-");
    let bare = dashed.strip_prefix("no-").unwrap_or(&dashed);
    let is_other = || OTHER_FLAGS_OF_VLLM.lines().any(|other| other == bare);
    named(&dashed).or_else(|| named(bare)).or_else(|| is_other().then_some(("vLLM", "leave out: no equivalent")))
}

/// The error about a word that is neither the model nor a subcommand. It may follow a flag that takes several values in vLLM.
pub(super) fn name_separator(error: clap::Error, command: &mut Command, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let is_second_model = || command.find_subcommand(word).is_none();
    let once = || is_second_model().then(|| format!("`{word}`: the model is given once, and a flag begins with `--`"));
    match further_value(arguments).or_else(once) {
        Some(problem) => command.error(ErrorKind::ArgumentConflict, problem),
        None => error,
    }
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
fn the_page_on_migrating_has_every_replacement() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/migrating.md")).unwrap();
    for Replaced { flags, instead, .. } in REPLACED {
        for flag in *flags {
            let row = page.lines().find(|row| row.starts_with("| `--") && row.contains(&format!("`--{flag}`")));
            assert!(row.is_some_and(|row| row.contains(&format!("| {instead}"))), "--{flag}: {row:?}");
        }
    }
}
