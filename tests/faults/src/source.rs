//! Source of the fault configuration.

use crate::faults::Faults;
use std::fs;
use std::path::PathBuf;

/// Fixed configuration, or a file that may change.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Fixed(Faults),
    File(PathBuf),
}

impl Default for Source {
    fn default() -> Self {
        Self::Fixed(Faults::default())
    }
}

impl Source {
    /// # Errors
    /// Returns a description of the problem.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix('@') else { return text.parse().map(Self::Fixed) };
        let source = Self::File(PathBuf::from(path));
        source.read().map(|_| source)
    }

    /// Current configuration.
    ///
    /// # Errors
    /// Fails if the file cannot be read or its content is invalid.
    pub(crate) fn read(&self) -> Result<Faults, String> {
        match self {
            Self::Fixed(faults) => Ok(faults.clone()),
            Self::File(path) => {
                let text =
                    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                text.trim().parse()
            }
        }
    }
}
