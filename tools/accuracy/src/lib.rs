//! `prefold accuracy`: how another dtype changes a model's answers, and what it saves.
//!
//! The same checkpoint runs twice over the same texts, first in float32 and then in the other dtype, each time in a separate process with
//! the server's engine. [`texts`] chooses the texts, [`mod@pass`] and [`requests`] run them, [`embeddings`] and [`scores`] compare the
//! answers with the statistics of [`rank`] and [`measure`], [`report`] and [`picture`] show the results.
#![forbid(unsafe_code)]

mod answers;
mod builtin;
mod embeddings;
mod error;
mod measure;
mod memory;
mod output;
mod pass;
mod picture;
mod rank;
mod report;
mod requests;
mod scores;
mod texts;

pub use error::{AccuracyError, StartError};

use output::{Output, is_stdout};
use pass::Process;
use prefold_backends::Dtype;
use prefold_core::Engine;
use prefold_tools::chart;
use prefold_tools::records::Format;
use report::Report;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use texts::Texts;

/// Flags of the comparison.
#[derive(Debug, Clone, clap::Args)]
pub struct Accuracy {
    /// File with one text or rerank request per line, as for `prefold analyze`; `-` is standard input. Default: built-in
    /// texts
    #[arg(long, value_name = "FILE")]
    texts: Option<PathBuf>,

    /// Format of a line: a text (lines); a JSON string, list of strings or object (jsonl) with {"text"}, {"input"},
    /// {"inputs"}, or {"query"} with {"texts"}, {"documents"} or {"passages"}; or detected from the first line (auto)
    #[arg(long, default_value = "auto")]
    format: Format,

    /// Maximum texts, or pairs of query and document. From a longer input, this many are taken, evenly spread
    #[arg(long, default_value_t = 500, value_parser = at_least_one)]
    max_texts: usize,

    /// Write the results as JSON; `-` is standard output, and the report goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw the results as SVG; `-` as with --json, for only one of the two
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

impl Accuracy {
    /// Compares `dtype` with float32 and prints the report.
    ///
    /// `pass` is the command of a process that calls [`pass`](crate::pass()) with the model in a dtype. `model` is the model's name.
    pub fn run(self, model: String, dtype: Dtype, pass: impl Fn(Dtype) -> io::Result<Command>) -> ExitCode {
        exit_code(self.compare_and_write(model, dtype, pass))
    }

    fn compare_and_write(
        self,
        model: String,
        dtype: Dtype,
        pass: impl Fn(Dtype) -> io::Result<Command>,
    ) -> Result<(), AccuracyError> {
        // Checked before the passes, which take a while.
        if let Some(path) = self.json.as_ref().filter(|path| self.svg.as_ref() == Some(path)) {
            return Err(AccuracyError::OneFile(path.clone()));
        }
        let json = self.json.as_deref().map(Output::open).transpose()?;
        let svg = self.svg.as_deref().map(Output::open).transpose()?;
        let report = self.compare(model, dtype, pass)?;
        // The report goes to standard error if results go to standard output.
        let text = report.to_string();
        let printed = if [&self.json, &self.svg].into_iter().flatten().any(|path| is_stdout(path)) {
            io::stderr().write_all(text.as_bytes())
        } else {
            io::stdout().write_all(text.as_bytes())
        };
        printed.map_err(AccuracyError::Print)?;
        if let Some(json) = json {
            json.write(&report.to_json()?)?;
        }
        if let Some(svg) = svg {
            svg.write(&chart::svg(&picture::charts(&report)))?;
        }
        Ok(())
    }

    fn compare(
        &self,
        model: String,
        dtype: Dtype,
        pass: impl Fn(Dtype) -> io::Result<Command>,
    ) -> Result<Report, AccuracyError> {
        let texts = match &self.texts {
            Some(path) => Texts::read(path, self.format).map_err(|error| error.in_file(&path.to_string_lossy()))?,
            None => Texts::builtin()?,
        };
        let source = texts.source.clone();
        let start = |dtype| Process::start(pass(dtype).map_err(AccuracyError::Process)?);
        let first = start(Dtype::Float32)?;
        let ready = first.ready.clone();
        warn(&ready.warnings, &[]);
        let (work, selection) = texts.work(ready.kind, self.max_texts).map_err(|error| error.in_file(&source))?;
        let reference = (ready, first.run(&work)?);
        let second = start(dtype)?;
        warn(&second.ready.warnings, &reference.0.warnings);
        let other = (second.ready.clone(), second.run(&work)?);
        Report::new(model, (source, selection), &work, [reference, other])
    }
}

/// One pass: loads a model with `start`, answers the texts sent by the comparing process, and ends.
pub fn pass(start: impl FnOnce() -> Result<Engine, StartError>) -> ExitCode {
    exit_code(pass::answer(start))
}

/// Prints the warnings that have not been printed earlier.
fn warn(warnings: &[String], earlier: &[String]) {
    let new = warnings.iter().filter(|warning| !earlier.contains(warning));
    new.for_each(|warning| eprintln!("warning: {warning}"));
}

fn exit_code(outcome: Result<(), AccuracyError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The process of the pass has printed the reason.
        Err(AccuracyError::Ended) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", prefold_core::without_credentials(&error.to_string()));
            ExitCode::FAILURE
        }
    }
}

fn at_least_one(s: &str) -> Result<usize, String> {
    s.parse().ok().filter(|number| *number > 0).ok_or_else(|| "must be a whole number, at least 1".to_owned())
}
