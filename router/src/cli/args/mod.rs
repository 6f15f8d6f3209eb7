//! The command line; no other code reads the environment.
//!
//! Names are those of text-embeddings-inference where the meaning is the same. Every flag is also an environment
//! variable, in most cases its name in upper case with underscores, and a key of the configuration file. A flag
//! overrides its variable, the variable overrides the file.

mod batching;
mod model;
mod server;
mod telemetry;
mod values;

pub(crate) use self::batching::BatchingArgs;
use self::model::ModelArgs;
pub(crate) use self::model::SourceArgs;
use self::server::ANY_ADDRESS;
pub(crate) use self::server::ServerArgs;
pub(crate) use self::telemetry::TelemetryArgs;
use super::command::Command;
use super::config_file::{self, FileError};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::fmt::Display;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// An embedding and reranking inference server that computes every shared prefix once.
#[derive(Debug, Clone, Parser)]
#[command(name = "prefold", version, max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// The command to run instead of serving.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// TOML file of flags, keyed by flag name (`max-batch-tokens = 16384`). Flags and environment variables override it
    #[arg(long, env = "PREFOLD_CONFIG")]
    pub(crate) config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) batching: BatchingArgs,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    #[command(flatten)]
    pub(crate) telemetry: TelemetryArgs,
}

impl Args {
    /// Reads the command line and the environment. Prints help or errors and exits where clap asks for it.
    pub(crate) fn read() -> Self {
        Self::try_read(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    /// Reads `arguments`, the program's name first, and the environment.
    pub(crate) fn try_read<T: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        let mut matches = Self::command().try_get_matches_from(&arguments)?;
        let config = matches.get_one::<PathBuf>("config").filter(|_| matches.subcommand_name().is_none());
        if let Some(path) = config {
            let from_file = Self::read_file(path, &matches)?;
            // An invalid value now must be the file's: the other arguments have been parsed before.
            let read = Self::command().try_get_matches_from(arguments.into_iter().chain(from_file));
            matches = read.map_err(|error| file_error(path, &without_value(&error)))?;
        }
        let mut args = Self::from_arg_matches(&matches)?;
        let from_environment = matches.value_source("hostname") == Some(ValueSource::EnvVariable);
        if from_environment && !is_address(&args.server.hostname) {
            args.server.hostname = ANY_ADDRESS.to_owned();
        }
        Ok(args)
    }

    fn read_file(path: &Path, matches: &ArgMatches) -> Result<Vec<OsString>, clap::Error> {
        let mut command = Self::command();
        command.build();
        let text = std::fs::read_to_string(path).map_err(FileError::from);
        text.and_then(|text| config_file::arguments(&text, &command, matches)).map_err(|error| file_error(path, &error))
    }
}

/// The error without the value at fault, which may be a secret at the wrong place.
fn without_value(error: &clap::Error) -> String {
    let message = error.to_string();
    match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) if !value.is_empty() => message.replace(value, "..."),
        _ => message,
    }
}

fn file_error(path: &Path, problem: &dyn Display) -> clap::Error {
    let problem = problem.to_string();
    // Only the sentence of clap's errors, without usage and hints.
    let problem = problem.strip_prefix("error: ").unwrap_or(&problem).split("\n\n").next().unwrap_or_default();
    Args::command().error(ErrorKind::ValueValidation, format!("{}: {problem}", path.display()))
}

fn is_address(hostname: &str) -> bool {
    hostname.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests;
