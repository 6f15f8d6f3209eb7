//! The command line, parsed; no other code reads the environment.
//!
//! Every flag is also an environment variable ([`environment`]) and a key of the configuration file. A flag overrides its
//! variable, the variable overrides the file.

pub(crate) mod environment;
mod messages;
mod peers;

pub(crate) use self::messages::sentence;
use self::messages::without_secret;
use super::args::Args;
use super::command::Command;
use super::config_file::{self, FileError};
use crate::telemetry::version::version_and_commit;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// The word for serving in other servers' command lines, which may come first.
const SERVE: &str = "serve";

/// An embedding and reranking inference server that computes every shared prefix once.
#[derive(Debug, Clone, Parser)]
#[command(name = "prefold", version = version_and_commit(), max_term_width = 110, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    /// The command to run instead of serving.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    /// Model to serve; the same as --model-id
    #[arg(value_name = "MODEL")]
    positional: Option<String>,

    /// Flags whose values come from environment variables, each with its variable.
    #[arg(skip)]
    pub(crate) origins: Vec<(String, String)>,

    /// Sentences about environment variables that are not read: with this program's prefix, or another server's API key.
    #[arg(skip)]
    pub(crate) unread_variables: Vec<String>,

    /// TOML file of flags, keyed by flag name (`max-batch-tokens = 16384`). Flags and environment variables override it
    #[arg(long, env = "PREFOLD_CONFIG")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) serve: Args,
}

impl Cli {
    /// Reads the arguments after the program and the environment. Prints help or errors and exits if clap asks for it.
    pub(crate) fn read(arguments: &[OsString]) -> Self {
        let name = OsString::from("prefold");
        let checked = Self::try_read(std::iter::once(&name).chain(arguments)).and_then(|cli| {
            let room = environment::check_room(&environment::threads());
            room.map_err(|problem| Self::command().error(ErrorKind::Io, problem)).map(|()| cli)
        });
        checked.unwrap_or_else(|error| error.exit())
    }

    /// Reads `arguments`, the program's name first, and the environment.
    pub(crate) fn try_read<T: Into<OsString> + Clone>(
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<Self, clap::Error> {
        let mut arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        // `prefold serve MODEL`, as in other servers.
        if arguments.get(1).is_some_and(|word| word == SERVE) {
            arguments.remove(1);
        }
        let mut matches = Self::with_variables().try_get_matches_from(&arguments).map_err(|error| {
            let error = environment::name_variable(error, &mut Self::with_variables(), &arguments);
            let error = peers::name_alias(error, &mut Self::with_variables(), &arguments);
            let error = peers::name_peer(error, &mut Self::with_variables(), &arguments);
            peers::name_separator(error, &mut Self::with_variables(), &arguments)
        })?;
        if let Err(problem) = environment::check_threads(|name| std::env::var_os(name)) {
            return Err(Self::command().error(ErrorKind::ValueValidation, problem));
        }
        let given_twice = given_twice(&matches)
            .or_else(|| matches.subcommand().and_then(|(_, matches)| given_twice(matches)))
            .map(|model| format!("`{model}` and --model-id: give one of them"));
        let config = matches.get_one::<PathBuf>("config").filter(|_| matches.subcommand_name().is_none());
        if let Some(path) = config {
            let from_file = Self::read_file(path, &matches)?;
            // An invalid value now must come from the file: the other arguments have been parsed before.
            let read = Self::with_variables().try_get_matches_from(arguments.iter().cloned().chain(from_file));
            matches = read.map_err(|error| file_error(path, &without_secret(&error, &mut Self::with_variables())))?;
        }
        let mut cli = Self::from_arg_matches(&matches)?;
        if let Some(model) = cli.positional.take() {
            if model == SERVE || Self::command().find_subcommand(&model).is_some() {
                let problem = format!("the subcommand '{model}' cannot be used with flags before it; put it first");
                return Err(Self::command().error(ErrorKind::ArgumentConflict, problem));
            }
            // The word may be a secret, which must not become a model that is looked up on the hub.
            if let Some(problem) = peers::word_after_key(&arguments, &model) {
                return Err(Self::command().error(ErrorKind::ArgumentConflict, problem));
            }
            cli.serve.model.source.model_id = Some(model);
        }
        if let Some(problem) = given_twice {
            let problem = peers::further_value(&arguments).unwrap_or(problem);
            return Err(Self::command().error(ErrorKind::ArgumentConflict, problem));
        }
        cli.unread_variables = environment::unknown(&Self::command(), environment::set());
        cli.unread_variables.extend(environment::service_links(&Self::command(), environment::set()));
        if cli.serve.server.api_key.is_empty() && cli.serve.server.api_key_file.is_none() {
            cli.unread_variables.extend(environment::unread_keys(environment::set()));
        }
        cli.origins = environment::origins(&Self::with_variables(), &matches);
        Ok(cli)
    }

    /// The command with the environment variable of each flag.
    fn with_variables() -> clap::Command {
        environment::with_variables(Self::command())
    }

    fn read_file(path: &Path, matches: &ArgMatches) -> Result<Vec<OsString>, clap::Error> {
        let mut command = Self::command();
        command.build();
        let text = std::fs::read_to_string(path).map_err(FileError::from);
        text.and_then(|text| config_file::arguments(&text, &command, matches)).map_err(|error| file_error(path, &error))
    }
}

/// The model argument, if the command line also has --model-id.
fn given_twice(matches: &ArgMatches) -> Option<&String> {
    let model = matches.try_get_one::<String>("positional").ok().flatten()?;
    (matches.value_source("model_id") == Some(ValueSource::CommandLine)).then_some(model)
}

fn file_error(path: &Path, problem: &dyn Display) -> clap::Error {
    let problem = problem.to_string();
    Cli::command().error(ErrorKind::ValueValidation, format!("{}: {}", path.display(), sentence(&problem)))
}

#[cfg(test)]
mod tests;
