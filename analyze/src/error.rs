//! What can go wrong in an analysis.

use prefold_backends::LoadError;
use thiserror::Error;

/// Why there is no report.
#[derive(Debug, Error)]
pub enum AnalyzeError {
    /// The model's files.
    #[error(transparent)]
    Model(#[from] LoadError),
    /// The model's prompts or template.
    #[error(transparent)]
    Encoder(#[from] prefold_core::Error),
    /// The file of texts cannot be opened.
    #[error("cannot read {path}: {source}")]
    Open {
        /// The file.
        path: String,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// Reading ended early, or the text is not UTF-8.
    #[error("line {line}: cannot be read: {source}")]
    Read {
        /// Counted from 1.
        line: usize,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("line {line}: {problem}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// A line's text has no tokens, or does not fit the model.
    #[error("line {line}: {source}")]
    Encode {
        /// Counted from 1.
        line: usize,
        /// The encoder's words.
        #[source]
        source: prefold_core::Error,
    },
    /// No text at all.
    #[error("there is no text to analyse")]
    Empty,
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Write(std::io::Error),
    /// The report cannot be made JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
