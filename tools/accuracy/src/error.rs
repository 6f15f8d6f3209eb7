//! Errors of a comparison.

use prefold_tools::records::InputError;
use std::path::PathBuf;
use thiserror::Error;

/// Error of starting the engine; its message is complete.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Reason why there is no report.
#[derive(Debug, Error)]
pub enum AccuracyError {
    /// The texts cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A line of the file is invalid.
    #[error("{file}: {source}")]
    InFile {
        /// Path of the file, or `-`.
        file: String,
        /// The error, with its line.
        #[source]
        source: Box<AccuracyError>,
    },
    /// The file has no text.
    #[error("{0} has no text")]
    Empty(String),
    /// There are too few texts to rank by similarity.
    #[error("{texts} to embed: an order by similarity needs at least {least} different texts")]
    TooFew {
        /// Number of distinct texts, as a phrase.
        texts: String,
        /// The minimum number.
        least: usize,
    },
    /// A line has a form that the model cannot answer.
    #[error("line {line}: {problem}")]
    Line {
        /// Line number, from 1.
        line: usize,
        /// Description of the problem.
        problem: String,
    },
    /// The model's answers cannot be compared.
    #[error("token classifiers cannot be compared, and the model is one")]
    TokenClassifier,
    /// The model does not load, or the engine does not start.
    #[error(transparent)]
    Start(StartError),
    /// The engine refuses a text, or a forward pass fails.
    #[error(transparent)]
    Engine(#[from] prefold_core::Error),
    /// The two runs answered in different ways.
    #[error("the two types have answers of different kinds, which cannot be compared")]
    DifferentAnswers,
    /// The process of a pass cannot be started, or its output cannot be read.
    #[error("a pass cannot run: {0}")]
    Process(std::io::Error),
    /// The process of a pass ended before its answers.
    #[error("a pass ended without answers")]
    Ended,
    /// Two results would go to the same file.
    #[error("--json and --svg both write to {}: give them two names", .0.display())]
    OneFile(PathBuf),
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
    /// Results cannot be converted to or from JSON.
    #[error("cannot write or read JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl AccuracyError {
    /// Adds the file's name to an error that has only a line number.
    pub(crate) fn in_file(self, file: &str) -> Self {
        match self {
            Self::Line { .. } | Self::Input(InputError::Line { .. } | InputError::Read { .. }) => {
                Self::InFile { file: file.to_owned(), source: Box::new(self) }
            }
            other => other,
        }
    }
}
