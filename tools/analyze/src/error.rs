//! Errors of an analysis.

use prefold_backends::LoadError;
use prefold_tools::records::InputError;
use thiserror::Error;

/// Reason why there is no report.
#[derive(Debug, Error)]
pub enum AnalyzeError {
    /// The model's files are invalid.
    #[error(transparent)]
    Model(#[from] LoadError),
    /// The model's prompts or template are invalid.
    #[error(transparent)]
    Encoder(#[from] prefold_core::Error),
    /// The model cannot share work between texts.
    #[error("the model ({model_type}) is an encoder: its texts share no prefixes, only equal ones are computed once")]
    NoPrefixes {
        /// The family's name in `config.json`.
        model_type: String,
    },
    /// The texts cannot be read.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A line's text has no tokens, or does not fit the model.
    #[error("line {line}: {source}")]
    Encode {
        /// Line number, from 1.
        line: usize,
        /// The encoder's error.
        #[source]
        source: prefold_core::Error,
    },
    /// The input has no text.
    #[error("there is no text to analyse")]
    Empty,
    /// The report cannot be written.
    #[error("cannot write the report: {0}")]
    Write(std::io::Error),
    /// The report cannot be converted to JSON.
    #[error("cannot write the report as JSON: {0}")]
    Json(#[from] serde_json::Error),
}
