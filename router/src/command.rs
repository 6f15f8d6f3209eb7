//! The subcommands, each a crate of its own. Without one, `prefold` serves.

use crate::args::SourceArgs;
use crate::config;
use clap::Subcommand;
use std::process::ExitCode;

/// What `prefold` does in place of serving.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Sends requests to any embedding or reranking server and reports throughput and latency
    Bench(Box<prefold_loadgen::Bench>),
    /// Tells from texts, without running the model, what computing shared prefixes once would save
    Analyze(Box<AnalyzeArgs>),
}

/// The model, and what to analyse.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    analyze: prefold_analyze::Analyze,
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Bench(bench) => bench.run(),
            Self::Analyze(args) => args.run(),
        }
    }
}

impl AnalyzeArgs {
    fn run(self) -> ExitCode {
        match config::model_source(&self.source, true) {
            Ok((_, source)) => self.analyze.run(source),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        }
    }
}
