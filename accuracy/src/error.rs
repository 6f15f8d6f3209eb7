//! Errors of a comparison.

use prefold_analyze::input::InputError;
use std::path::PathBuf;
use thiserror::Error;

/// Error of starting the engine, whose message says all.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Reason why there is no report.
#[derive(Debug, Error)]
pub enum AccuracyError {
    /// The texts cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The file has no text.
    #[error("{0} has no text")]
    Empty(String),
    /// The texts have no order by similarity.
    #[error("{texts} to embed: an order by similarity needs at least {least} different texts")]
    TooFew {
        /// The different texts, counted in words.
        texts: String,
        /// The least number.
        least: usize,
    },
    /// A line is not of the form that the model can answer.
    #[error("line {line}: {problem}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
    /// The model does not load, or the engine does not start.
    #[error("{dtype}: {source}")]
    Start {
        /// Type of values.
        dtype: String,
        /// The cause.
        source: StartError,
    },
    /// The engine refuses a text, or a forward pass fails.
    #[error("{dtype}: {source}")]
    Engine {
        /// Type of values.
        dtype: String,
        /// The cause.
        #[source]
        source: prefold_core::Error,
    },
    /// The two runs answered in different ways.
    #[error("the two types have answers of different kinds, which cannot be compared")]
    DifferentAnswers,
    /// There is no runtime.
    #[error("no runtime: {0}")]
    Runtime(std::io::Error),
    /// A result cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The report cannot be printed.
    #[error("cannot print the report: {0}")]
    Print(std::io::Error),
    /// The report cannot be converted to JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
