//! Environment variables of the flags.
//!
//! A flag's variable is `PREFOLD_` and its name; for a subcommand, the prefix is `PREFOLD_BENCH_` or similar. Names of
//! text-embeddings-inference and Hugging Face's tools are read after it. Other names without the prefix are not: `TASK`
//! may be anybody's.

use super::messages::{sentence, without_value};
use crate::cli::config_file::differ_by_one;
use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use prefold_core::shown;
use std::env;
use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Mutex;
use std::thread::{self, available_parallelism};

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
    "HF_HUB_CACHE",
    "HF_HUB_DOWNLOAD_TIMEOUT",
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "HOSTNAME",
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

/// Older names of shared variables, in order of priority after the newer one, as in Hugging Face's tools and
/// text-embeddings-inference.
const OLDER: [(&str, &str); 3] =
    [("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"), ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), ("HF_TOKEN", "HF_API_TOKEN")];

/// The command with the variable of each flag: the first of its names that is set. A `-1` after a flag is its value.
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

/// A flag's or subcommand's name as part of a variable name.
fn in_variable(name: &str) -> String {
    name.to_uppercase().replace('-', "_")
}

/// The variables of a declared flag, in order of priority.
pub(crate) fn names(declared: &Arg) -> Vec<String> {
    let Some(own) = declared.get_env().map(|name| name.to_string_lossy().into_owned()) else { return Vec::new() };
    let long = declared.get_long().unwrap_or_default();
    let prefixed = format!("{PREFIX}{}", in_variable(long));
    let older = OLDER.into_iter().filter(|(newer, _)| *newer == own).map(|(_, older)| older.to_owned());
    let older: Vec<_> = older.collect();
    let shared = SHARED.contains(&own.as_str()).then_some(own);
    std::iter::once(prefixed).chain(shared).chain(older).collect()
}

/// True if the variable is set and meant for the server. Templates set empty ones, containers set `HOSTNAME` to their own name.
fn counts(name: &str) -> bool {
    let Some(value) = env::var_os(name).filter(|value| !value.is_empty()) else { return false };
    match name {
        "HOSTNAME" => value.to_str().is_some_and(|value| value.parse::<IpAddr>().is_ok()),
        name => !is_service_link(name, &value.to_string_lossy()),
    }
}

/// True for the variable that Kubernetes sets to the address of a service, such as `PREFOLD_PORT` for one called prefold.
fn is_service_link(name: &str, value: &str) -> bool {
    (name == "PORT" || name.ends_with("_PORT")) && value.contains("://")
}

/// A sentence about each variable of a port that is a service's address.
pub(super) fn service_links(command: &Command, variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let known = all_names(command);
    let links = variables.into_iter().filter(|(name, value)| known.contains(name) && is_service_link(name, value));
    let sentence = |(name, _)| {
        format!("the environment variable {name} is a service's address, as Kubernetes sets it, and is ignored")
    };
    let mut sentences: Vec<String> = links.map(sentence).collect();
    sentences.sort();
    sentences
}

/// Variables from which libraries read their numbers of threads, with the smallest valid value. They start that many
/// threads, and tokio panics on an invalid value.
const THREADS: [(&str, usize); 2] = [("RAYON_NUM_THREADS", 0), ("TOKIO_WORKER_THREADS", 1)];

/// Maximum threads in such a variable: more threads than cores gain nothing.
const MAX_THREADS: usize = 1024;

/// Checks the variables that libraries read, as `value` returns them.
///
/// # Errors
/// A sentence about a variable that is not a valid number of threads.
pub(super) fn check_threads(value: impl Fn(&str) -> Option<OsString>) -> Result<(), String> {
    for (name, least) in THREADS {
        let given = value(name).map(|value| value.to_string_lossy().into_owned());
        let is_good = |given: &String| {
            let number = given.parse::<usize>();
            number.is_ok_and(|number| (least..=MAX_THREADS).contains(&number)) || least == 0 && given.is_empty()
        };
        if let Some(given) = given.filter(|given| !is_good(given)) {
            return Err(format!(
                "the environment variable {name} is `{}`; it must be a whole number from {least} to {MAX_THREADS}",
                shown(&given)
            ));
        }
    }
    Ok(())
}

/// Threads of the server itself, at least: for the shutdown, loading, tokenization, planning and the backend.
const OWN_THREADS: usize = 6;

/// Threads that the process will start, with the part of a sentence that says whose they are.
pub(super) fn threads() -> Vec<(String, usize)> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let of_libraries = THREADS.iter().map(|(name, _)| {
        let given = env::var(name).ok().and_then(|number| number.parse().ok());
        (format!("by the environment variable {name}, or one per core"), given.filter(|&it| it > 0).unwrap_or(cores))
    });
    of_libraries.chain([("of the server itself".to_owned(), OWN_THREADS)]).collect()
}

/// Checks that the system lets this process start as many threads. Without them rayon and tokio panic, and tokio may then wait forever.
///
/// # Errors
/// A sentence about the first thread that cannot be started.
pub(super) fn check_room(threads: &[(String, usize)]) -> Result<(), String> {
    let door = Mutex::new(());
    thread::scope(|scope| {
        // All threads are there at once, because each waits for this lock.
        let _closed = door.lock();
        for (whose, count) in threads {
            for number in 1..=*count {
                let started = thread::Builder::new().spawn_scoped(scope, || drop(door.lock()));
                started.map_err(|error| format!("thread {number} of {count} ({whose}) cannot be started: {error}"))?;
            }
        }
        Ok(())
    })
}

/// Variables with the prefix that belong to another program of this project.
const OF_OTHERS: [&str; 1] = ["PREFOLD_FAULTS"];

/// The variables of the process whose names are UTF-8.
pub(super) fn set() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
}

/// A sentence about each variable with the prefix that matches no flag, without its value, which may be a secret.
pub(super) fn unknown(command: &Command, variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let known = all_names(command);
    let is_stray = |(name, value): &(String, String)| {
        let is_set = name.starts_with(PREFIX) && !value.is_empty() && !is_of_kubernetes(name, value);
        is_set && !known.contains(name) && !OF_OTHERS.contains(&name.as_str())
    };
    let mut strays: Vec<String> = variables.into_iter().filter(is_stray).map(|(name, _)| name).collect();
    strays.sort();
    let sentence = |name: String| {
        let hint = match known.iter().find(|known| differ_by_one(known, &name)) {
            Some(meant) => format!("; is {meant} meant?"),
            None => " (prefold --help lists all flags)".to_owned(),
        };
        format!("the environment variable {name} matches no flag and is ignored{hint}")
    };
    strays.into_iter().map(sentence).collect()
}

/// Variables of the API key of other servers: vLLM and Infinity.
const KEYS_OF_OTHERS: [&str; 2] = ["VLLM_API_KEY", "INFINITY_API_KEY"];

/// A sentence about each API key for another server, where this server has none. Without its value.
pub(super) fn unread_keys(variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
    let is_key = |(name, value): &(String, String)| KEYS_OF_OTHERS.contains(&name.as_str()) && !value.is_empty();
    let sentence = |(name, _)| {
        format!("the environment variable {name} is not read, and no key is required; API_KEY or --api-key sets one")
    };
    variables.into_iter().filter(is_key).map(sentence).collect()
}

/// The variables of all flags, subcommands included.
fn all_names(command: &Command) -> Vec<String> {
    let own = command.get_arguments().flat_map(names);
    let of_subcommands = command.get_subcommands().flat_map(|subcommand| {
        let prefix = format!("{PREFIX}{}_", in_variable(subcommand.get_name()));
        let flags = subcommand.get_arguments();
        flags.flat_map(move |flag| {
            let own = flag.get_long().map(|long| format!("{prefix}{}", in_variable(long)));
            own.into_iter().chain(names(flag)).collect::<Vec<_>>()
        })
    });
    own.chain(of_subcommands).collect()
}

/// True for Kubernetes' variables of services whose names begin with prefold: `PREFOLD_SERVICE_HOST`, `PREFOLD_PORT_3000_TCP_ADDR`.
fn is_of_kubernetes(name: &str, value: &str) -> bool {
    let of_a_port = || {
        let rest = name.split_once("_PORT_").map_or("", |(_, rest)| rest);
        let (port, protocol) = rest.split_once('_').unwrap_or_default();
        port.parse::<u16>().is_ok() && ["TCP", "UDP", "SCTP"].iter().any(|known| protocol.starts_with(known))
    };
    name.ends_with("_SERVICE_HOST")
        || name.ends_with("_SERVICE_PORT")
        || name.contains("_SERVICE_PORT_")
        || is_service_link(name, value)
        || of_a_port()
}

/// The error with the variable that the value at fault comes from, if any.
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

/// The flags whose values come from variables, each with its variable.
pub(super) fn origins(command: &Command, matches: &ArgMatches) -> Vec<(String, String)> {
    let from_environment = |flag: &&Arg| matches.value_source(flag.get_id().as_str()) == Some(ValueSource::EnvVariable);
    let origin = |flag: &Arg| Some((flag.get_long()?.to_owned(), flag.get_env()?.to_string_lossy().into_owned()));
    command.get_arguments().filter(from_environment).filter_map(origin).collect()
}
