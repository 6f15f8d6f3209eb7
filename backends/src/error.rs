//! What can go wrong while a model is loaded.

use thiserror::Error;

/// Why a model was not loaded.
///
/// Every message names the file, field or tensor at fault, so that it can be shown as it is.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A file or directory could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// What was read.
        path: String,
        /// The system's words.
        #[source]
        source: std::io::Error,
    },
    /// A file that the model needs is not there.
    #[error("{place} has no {file}{hint}")]
    MissingFile {
        /// The model's directory or name.
        place: String,
        /// The file's name in it.
        file: String,
        /// What to do about it, as the rest of the sentence, or nothing.
        hint: String,
    },
    /// A file is malformed, or a value in it is missing, out of range or contradictory.
    #[error("{file}: {problem}")]
    Invalid {
        /// The file.
        file: String,
        /// The field, its value and the limit.
        problem: String,
    },
    /// The checkpoint asks for something that prefold does not have.
    #[error("{file}: {what} is not supported ({supported})")]
    Unsupported {
        /// The file that asks for it.
        file: String,
        /// What it asks for, by name.
        what: String,
        /// What is supported instead, or why it is not.
        supported: String,
    },
    /// A tensor that the architecture has is not in the files.
    #[error("{file}: tensor `{name}` is missing")]
    MissingTensor {
        /// The file or files searched.
        file: String,
        /// The tensor's canonical name.
        name: String,
    },
    /// A tensor does not have the shape that the config gives it.
    #[error("{file}: tensor `{name}` has shape {found:?}, the config asks for {expected:?}")]
    TensorShape {
        /// The file.
        file: String,
        /// The tensor's canonical name.
        name: String,
        /// The shape that follows from the config.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// The hub did not deliver.
    #[error("cannot get {file} of `{model}` (revision {revision}) from {endpoint}: {problem}")]
    Hub {
        /// The model's id.
        model: String,
        /// Branch, tag or commit.
        revision: String,
        /// The hub's address.
        endpoint: String,
        /// The file, or what else was asked for.
        file: String,
        /// The cause, with a hint where there is one.
        problem: String,
    },
    /// Weights could not be packed, or moved to the device.
    #[error("cannot prepare the weights: {0}")]
    Compute(String),
    /// The options do not fit each other or the checkpoint.
    #[error("{0}")]
    Options(String),
}

impl LoadError {
    /// A malformed file.
    pub(crate) fn invalid(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { file: file.into(), problem: problem.into() }
    }

    /// Something prefold does not have.
    pub(crate) fn unsupported(file: impl Into<String>, what: impl Into<String>, supported: impl Into<String>) -> Self {
        Self::Unsupported { file: file.into(), what: what.into(), supported: supported.into() }
    }

    /// A failed read.
    pub(crate) fn io(path: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }
}

impl From<candle_core::Error> for LoadError {
    fn from(error: candle_core::Error) -> Self {
        Self::Compute(error.to_string())
    }
}

impl From<prefold_kernels::KernelError> for LoadError {
    fn from(error: prefold_kernels::KernelError) -> Self {
        Self::Compute(error.to_string())
    }
}
