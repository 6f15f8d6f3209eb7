//! Environment variables of the flags.
//!
//! The variable of a flag is its name with `PREFOLD_` before it, of a subcommand's flag with the
//! subcommand's name too, as `PREFOLD_BENCH_`. Names that text-embeddings-inference and Hugging Face's tools
//! use are read too, after it. Other names without a prefix are not: `TASK` or `DEVICE` may be anybody's.

use super::messages::{sentence, without_value};
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use std::env;
use std::ffi::OsString;
use std::net::IpAddr;

const PREFIX: &str = "PREFOLD_";

/// Variables without the prefix that are read, because other servers and tools read them.
const SHARED: [&str; 31] = [
    "API_KEY",
    "AUTO_TRUNCATE",
    "CORS_ALLOW_ORIGIN",
    "DEFAULT_PROMPT",
    "DEFAULT_PROMPT_NAME",
    "DENSE_PATH",
    "DISABLE_SPANS",
    "DTYPE",
    "HF_ENDPOINT",
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HOSTNAME",
    "HUGGINGFACE_HUB_CACHE",
    "JSON_OUTPUT",
    "LOG_LEVEL",
    "MAX_BATCH_REQUESTS",
    "MAX_BATCH_TOKENS",
    "MAX_CLIENT_BATCH_SIZE",
    "MAX_CONCURRENT_REQUESTS",
    "MODEL_ID",
    "OTLP_ENDPOINT",
    "OTLP_SERVICE_NAME",
    "PAYLOAD_LIMIT",
    "POOLING",
    "PORT",
    "PROMETHEUS_PORT",
    "REVISION",
    "RUST_LOG",
    "SERVED_MODEL_NAME",
    "TOKENIZATION_WORKERS",
];

/// The command with the variable of each flag: of its names the first that is set. A flag's `-1` is its value.
pub(super) fn with_variables(command: Command) -> Command {
    let command = command.mut_args(|flag| {
        let takes_values = flag.get_long().is_some() && flag.get_action().takes_values();
        let names = names(&flag);
        with_variable(flag.allow_negative_numbers(takes_values), &names)
    });
    command.mut_subcommands(|subcommand| {
        let prefix = format!("{PREFIX}{}_", in_variable(subcommand.get_name()));
        subcommand.mut_args(|flag| {
            let own = flag.get_long().map(|long| format!("{prefix}{}", in_variable(long)));
            let names: Vec<_> = own.into_iter().chain(names(&flag)).collect();
            with_variable(flag, &names)
        })
    })
}

/// The flag with the first of its variables that is set.
fn with_variable(flag: Arg, names: &[String]) -> Arg {
    let is_absent = |name: &&String| env::var_os(name).is_none();
    // The first one, if it is absent, is for the help.
    match names.iter().find(|name| counts(name)).or(names.first().filter(is_absent)) {
        Some(name) => flag.env(name.clone()),
        None => flag.env(Resettable::Reset),
    }
}

/// A flag's or subcommand's name as a part of a variable's.
fn in_variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The variables of a flag as it was declared, the first one first.
pub(crate) fn names(declared: &Arg) -> Vec<String> {
    let Some(own) = declared.get_env().map(|name| name.to_string_lossy().into_owned()) else { return Vec::new() };
    let long = declared.get_long().unwrap_or_default();
    let prefixed = format!("{PREFIX}{}", in_variable(long));
    let shared = SHARED.contains(&own.as_str()).then_some(own);
    std::iter::once(prefixed).chain(shared).collect()
}

/// True if the variable is set and meant for the server. Templates set empty ones, containers set `HOSTNAME` to their own name,
/// and Kubernetes sets `PREFOLD_PORT` to `tcp://...` for a service that is called prefold.
fn counts(name: &str) -> bool {
    let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else { return false };
    match name {
        "HOSTNAME" => value.to_str().is_some_and(|value| value.parse::<IpAddr>().is_ok()),
        "PORT" | "PREFOLD_PORT" => value.to_str().is_none_or(|value| !value.contains("://")),
        _ => true,
    }
}

/// The error with the variable that the value at fault comes from, if it is from one.
pub(super) fn name_variable(error: clap::Error, command: &mut Command, arguments: &[OsString]) -> clap::Error {
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return error };
    command.build();
    let subcommand = arguments.get(1).and_then(|word| command.find_subcommand(word));
    let Some(flag) = subcommand.unwrap_or(&*command).get_arguments().find(|flag| flag.to_string() == *shown) else {
        return error;
    };
    let Some(variable) = flag.get_env().filter(|name| env::var_os(name).is_some() && !is_given(flag, arguments)) else {
        return error;
    };
    let variable = variable.to_string_lossy().into_owned();
    let message = if flag.is_hide_env_values_set() { without_value(&error) } else { error.to_string() };
    command.error(error.kind(), format!("{} (environment variable {variable})", sentence(&message)))
}

/// True if the arguments have the flag.
fn is_given(flag: &Arg, arguments: &[OsString]) -> bool {
    let longs = flag.get_long_and_visible_aliases().unwrap_or_default();
    let is_flag = |argument: &str| {
        let long = argument.strip_prefix("--").map(|rest| rest.split_once('=').map_or(rest, |(name, _)| name));
        let is_short = !argument.starts_with("--") && argument.starts_with('-');
        long.is_some_and(|long| longs.contains(&long))
            || is_short && argument.chars().nth(1).is_some_and(|short| flag.get_short() == Some(short))
    };
    arguments.iter().filter_map(|argument| argument.to_str()).any(is_flag)
}

/// The flags whose values come from variables, with these.
pub(super) fn origins(command: &Command, matches: &ArgMatches) -> Vec<(String, String)> {
    let from_environment = |flag: &&Arg| matches.value_source(flag.get_id().as_str()) == Some(ValueSource::EnvVariable);
    let origin = |flag: &Arg| Some((flag.get_long()?.to_owned(), flag.get_env()?.to_string_lossy().into_owned()));
    command.get_arguments().filter(from_environment).filter_map(origin).collect()
}
