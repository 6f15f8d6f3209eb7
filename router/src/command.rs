//! The subcommands, each a crate of its own. Without one, `prefold` serves.

use clap::Subcommand;
use std::process::ExitCode;

/// What `prefold` does in place of serving.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Sends requests to any embedding or reranking server and reports throughput and latency
    Bench(Box<prefold_loadgen::Bench>),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Bench(bench) => bench.run(),
        }
    }
}
