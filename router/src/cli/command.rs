//! Subcommands, each a crate of its own. Without one, `prefold` serves.

use super::args::SourceArgs;
use super::config::model::model_source;
use clap::Subcommand;
use std::process::ExitCode;

/// A command to run instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Measure throughput and latency of any embedding or reranking server
    Bench(Box<prefold_loadgen::Bench>),
    /// Estimate from texts, without running the model, what compaction would save
    Analyze(Box<AnalyzeArgs>),
}

/// The model and the texts to analyse.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    analyze: prefold_analyze::Analyze,
}

impl Command {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Bench(bench) => bench.run(),
            Self::Analyze(args) => args.run(),
        }
    }
}

impl AnalyzeArgs {
    fn run(self) -> ExitCode {
        match model_source(&self.source, true) {
            Ok((_, source)) => self.analyze.run(source, self.source.given()),
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::from(2)
            }
        }
    }
}
