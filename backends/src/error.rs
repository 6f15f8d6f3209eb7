//! Errors of loading.

use prefold_core::excerpt;
use thiserror::Error;

/// Reason why a model was not loaded.
///
/// Every message names the file, field or tensor at fault and can be shown as it is.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A file or directory could not be read.
    #[error("cannot read {path}: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A required file is missing.
    #[error("{} has no {}{}", printable(.location), printable(.file), printable(.hint))]
    MissingFile {
        /// The model's directory or name.
        location: String,
        /// The file's name in it.
        file: String,
        /// Advice, as the rest of the sentence, or empty.
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
    /// The checkpoint needs a feature that prefold lacks.
    #[error("{file}: {feature} is not supported ({supported})")]
    Unsupported {
        /// The file that names the feature.
        file: String,
        /// The feature.
        feature: String,
        /// The supported alternatives, or the reason.
        supported: String,
    },
    /// A tensor of the architecture is missing from the files.
    #[error("{}: tensor `{}` is missing", printable(.file), printable(.name))]
    MissingTensor {
        /// The file or files searched.
        file: String,
        /// The tensor's canonical name.
        name: String,
    },
    /// A tensor's shape differs from the shape that the config requires.
    #[error("{}: tensor `{}` has shape {found:?}, the config requires {expected:?}", printable(.file), printable(.name))]
    TensorShape {
        /// The file.
        file: String,
        /// The tensor's canonical name.
        name: String,
        /// The shape by the config.
        expected: Vec<usize>,
        /// The shape in the file.
        found: Vec<usize>,
    },
    /// A download from the hub failed.
    #[error("cannot get {file} of `{model}` (revision {revision}) from {endpoint}: {problem}")]
    Hub {
        /// The model's id.
        model: String,
        /// Branch, tag or commit.
        revision: String,
        /// The hub's URL.
        endpoint: Box<str>,
        /// The requested file, or another resource.
        file: String,
        /// `true` if the hub listed the repository, and the file is not in it; `false` if the repository could not be read.
        is_seen: bool,
        /// The cause, with advice if there is any.
        problem: String,
    },
    /// Weights could not be packed or copied to the device.
    #[error("cannot prepare the weights: {}", printable(.0))]
    Compute(String),
    /// A sub-model cannot be served.
    #[error("{}: {source}", printable(.sub_model))]
    SubModel {
        /// The sub-model's folder.
        sub_model: String,
        /// The reason.
        #[source]
        source: Box<LoadError>,
    },
    /// The options contradict each other or the checkpoint.
    #[error("{}", printable(.0))]
    Options(String),
}

impl LoadError {
    /// `true` if the files could not be read, so that nothing is known of the model.
    pub(crate) fn is_unseen(&self) -> bool {
        match self {
            Self::Io { .. } => true,
            Self::Hub { is_seen, .. } => !is_seen,
            Self::SubModel { source, .. } => source.is_unseen(),
            Self::MissingFile { .. }
            | Self::Invalid { .. }
            | Self::Unsupported { .. }
            | Self::MissingTensor { .. }
            | Self::TensorShape { .. }
            | Self::Compute(_)
            | Self::Options(_) => false,
        }
    }

    /// A malformed file.
    pub(crate) fn invalid(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Invalid { file: printable(file.into()), problem: printable(problem.into()) }
    }

    /// An unsupported feature.
    pub(crate) fn unsupported(
        file: impl Into<String>,
        feature: impl Into<String>,
        supported: impl Into<String>,
    ) -> Self {
        Self::Unsupported {
            file: printable(file.into()),
            feature: printable(feature.into()),
            supported: printable(supported.into()),
        }
    }

    /// A failed read.
    pub(crate) fn io(path: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { path: printable(path.into()), source }
    }
}

/// Text for a message, possibly from a model's file: an [`excerpt`] of 1,000 characters.
pub(crate) fn printable(text: impl AsRef<str>) -> String {
    const LIMIT: usize = 1000;
    excerpt(text.as_ref(), LIMIT)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_contains_fits_on_one_line_of_a_log() {
        let refused = LoadError::invalid("a.json", format!("has\n\x1b[31m{}", "x".repeat(5000))).to_string();
        assert!(refused.starts_with(r"a.json: has\n\u{1b}[31mxx") && refused.ends_with("x..."), "{refused}");
        assert!(refused.len() < 1100, "{}", refused.len());
        let long = || "y\n".repeat(5000);
        for error in [
            LoadError::MissingTensor { file: long(), name: long() },
            LoadError::TensorShape { file: long(), name: long(), expected: vec![1], found: vec![2] },
            LoadError::MissingFile { location: long(), file: long(), hint: long() },
            LoadError::SubModel { sub_model: long(), source: Box::new(LoadError::Compute(long())) },
            LoadError::Options(long()),
            LoadError::invalid(long(), long()),
            LoadError::unsupported(long(), long(), long()),
            LoadError::io(long(), std::io::ErrorKind::NotFound.into()),
        ] {
            let message = error.to_string();
            assert!(message.len() < 4800 && !message.contains('\n'), "{} bytes: {message}", message.len());
        }
    }
}
