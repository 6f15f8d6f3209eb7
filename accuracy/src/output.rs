//! Files of results, opened before there are any.

use crate::error::AccuracyError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file of results.
pub(crate) struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens the file for writing and leaves what is in it.
    ///
    /// # Errors
    /// [`AccuracyError::Write`]
    pub(crate) fn open(path: &Path) -> Result<Self, AccuracyError> {
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
        let file = file.map_err(|source| AccuracyError::Write { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Replaces what is in the file.
    ///
    /// # Errors
    /// [`AccuracyError::Write`]
    pub(crate) fn write(self, text: &str) -> Result<(), AccuracyError> {
        self.replace(text).map_err(|source| AccuracyError::Write { path: self.path, source })
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        // Pipes and terminals have no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        (&self.file).write_all(text.as_bytes())
    }
}
