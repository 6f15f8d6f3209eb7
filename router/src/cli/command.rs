//! Subcommands, each a crate of its own. Without one, `prefold` serves.

use super::args::{LoadArgs, NamedSourceArgs, SourceArgs, chosen_dtype};
use super::check_model::CheckModelArgs;
use super::command_line::CommandLine;
use super::config::model::{adapter_base, load_options, model_source};
use crate::loading;
use clap::Subcommand;
use prefold_backends::{Dtype, LoadOptions, check_device};
use prefold_core::{EngineConfig, ProcessLimits, ProcessQuotas};
use std::convert::identity;
use std::fmt::Display;
use std::io;
use std::process::{self, ExitCode};

/// A command to run instead of serving.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Measure throughput and latency of any embedding or reranking server
    Bench(Box<prefold_loadgen::Bench>),
    /// Estimate from texts, without running the model, what compaction would save
    Analyze(Box<AnalyzeArgs>),
    /// Compare a model's answers in another dtype with its answers in float32
    Accuracy(Box<AccuracyArgs>),
    /// Check before the download whether a model runs, and what it needs
    CheckModel(Box<CheckModelArgs>),
}

/// The model and the texts to analyse.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AnalyzeArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    analyze: prefold_analyze::Analyze,
}

/// The model, the dtype and the texts of a comparison.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AccuracyArgs {
    #[command(flatten)]
    source: NamedSourceArgs,

    /// Type of weights and matrix products to compare with float32
    #[arg(long, default_value = "bfloat16", value_parser = chosen_dtype)]
    dtype: Dtype,

    /// Run one pass for the process that compares, in this type
    #[arg(long, hide = true, value_parser = chosen_dtype)]
    pass: Option<Dtype>,

    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten, next_help_heading = "Comparison")]
    accuracy: prefold_accuracy::Accuracy,
}

impl Command {
    /// Runs the command, which `line` was given for.
    pub(crate) fn run(self, line: &CommandLine) -> ExitCode {
        match self {
            Self::Bench(bench) => bench.run(),
            Self::Analyze(args) => args.run(),
            Self::Accuracy(args) => args.run(line),
            Self::CheckModel(args) => args.run(),
        }
    }
}

impl AnalyzeArgs {
    fn run(self) -> ExitCode {
        match model_source(&self.source, true) {
            Ok((_, source)) => self.analyze.run(source, self.source.given()),
            Err(error) => refuse(&error),
        }
    }
}

impl AccuracyArgs {
    fn run(self, line: &CommandLine) -> ExitCode {
        let Self { source, dtype, pass, mut load, accuracy } = self;
        // The float32 pass has no int8 layers.
        if pass.is_some_and(|pass| pass != dtype) {
            load.int8_skip.clear();
        }
        let source = source.source();
        let options = |(model, from)| {
            let base = adapter_base(&source, &from);
            Ok((model, LoadOptions { base, ..load_options(from, load, Some(pass.unwrap_or(dtype)))? }))
        };
        let (model, options) = match model_source(&source, true).and_then(options) {
            Ok(loaded) => loaded,
            Err(error) => return refuse(&error),
        };
        if pass.is_some() {
            let start = || {
                let quotas = ProcessQuotas::new(ProcessLimits::default())?;
                Ok(loading::start_engine(&options, identity, EngineConfig::default(), quotas)?)
            };
            return prefold_accuracy::pass(start);
        }
        // Before the pass in float32, which takes a while.
        if let Err(error) = check_device(&options) {
            return refuse(&error);
        }
        accuracy.run(model, dtype, |dtype| {
            let mut words = line.program.iter().chain(&line.arguments);
            let program = words.next().ok_or_else(|| io::Error::other("this program's name is unknown"))?;
            let mut same = process::Command::new(program);
            same.args(words).args(["--pass", dtype.as_str()]);
            Ok(same)
        })
    }
}

/// Reports arguments that are invalid.
fn refuse(error: &dyn Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(2)
}
