//! Result files, opened before the passes so that an unwritable path fails early.

use crate::error::AccuracyError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// `true` for `-`, the name of standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// A file of results.
pub(crate) struct Output {
    path: PathBuf,
    /// `None` for standard output.
    file: Option<File>,
}

impl Output {
    /// Opens the file for writing without changing its content; `-` is standard output.
    ///
    /// # Errors
    /// [`AccuracyError::Write`]
    pub(crate) fn open(path: &Path) -> Result<Self, AccuracyError> {
        if is_stdout(path) {
            return Ok(Self { path: path.to_owned(), file: None });
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|source| AccuracyError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file: Some(file) })
    }

    /// Replaces the content of the file.
    ///
    /// # Errors
    /// [`AccuracyError::Write`]
    pub(crate) fn write(self, text: &str) -> Result<(), AccuracyError> {
        self.replace(text).map_err(|source| AccuracyError::Write { path: self.path, source })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let Some(mut file) = self.file.as_ref() else { return io::stdout().write_all(text.as_bytes()) };
        // Pipes and terminals have no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(text.as_bytes())
    }
}
