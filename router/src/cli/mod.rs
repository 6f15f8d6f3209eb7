//! The command line: flags, the configuration file, and the configuration that they make.

mod args;
#[cfg(feature = "builtin-model")]
mod builtin;
mod check_model;
mod command;
mod command_line;
mod config;
mod config_file;
#[cfg(test)]
mod document;
mod parsing;
pub(crate) mod settings;

pub use self::command_line::CommandLine;
pub(crate) use self::config::Config;
pub(crate) use self::parsing::Cli;
