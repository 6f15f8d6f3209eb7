//! Files that are read again while the server runs.

use crate::telemetry::metrics::RELOADED;
use metrics::gauge;
use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::signal::unix::Signal;

/// Period of reading the files: a change is found by its content, not by its modification time.
const PERIOD: Duration = Duration::from_secs(2);

/// Maximum bytes of a file; a larger one was named by mistake.
const MAX_FILE: u64 = 1 << 20;

/// Device and inode: a file that was replaced as a whole has others.
pub(crate) type FileIdentity = (u64, u64);

/// The last problem of a file, which is logged once and is in the metrics while it lasts.
#[derive(Debug)]
pub(crate) struct LastProblem {
    problem: Mutex<Option<String>>,
    /// The metric's label.
    files: &'static str,
}

impl LastProblem {
    /// None yet, of the files with this label in the metrics.
    pub(crate) fn of(files: &'static str) -> Self {
        Self { problem: Mutex::default(), files }
    }

    /// Logs the problem of `file` unless it is the last one, or always if the operator asked for the file to be read.
    pub(crate) fn record(&self, file: impl Display, problem: Option<String>, was_asked: bool, kept: &str) {
        gauge!(RELOADED, "files" => self.files).set(if problem.is_none() { 1.0 } else { 0.0 });
        let mut known = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = problem.as_ref().filter(|&problem| was_asked || known.as_ref() != Some(problem)) {
            tracing::error!("{file}: {problem}; {kept} stay valid");
        }
        *known = problem;
    }
}

/// Calls `refresh` in every period with false, and on `hangup` with true; never returns.
pub(crate) async fn reload(mut hangup: Signal, refresh: impl Fn(bool)) {
    loop {
        let was_asked = tokio::select! {
            () = tokio::time::sleep(PERIOD) => false,
            _ = hangup.recv() => true,
        };
        refresh(was_asked);
    }
}

/// A file's text and identity.
///
/// # Errors
/// It cannot be read, is not a file, or is too large.
pub(crate) fn read(path: &Path) -> io::Result<(String, FileIdentity)> {
    let metadata = path.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        return Err(invalid(&format!("is not a file of at most {MAX_FILE} bytes")));
    }
    Ok((std::fs::read_to_string(path)?, (metadata.dev(), metadata.ino())))
}

pub(crate) fn invalid(problem: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_or_too_large_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("keys");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(MAX_FILE).unwrap();
        assert_eq!(read(&path).unwrap().0.len() as u64, MAX_FILE);
        file.set_len(MAX_FILE + 1).unwrap();
        for other in [directory.path(), Path::new("/dev/null"), path.as_path()] {
            let refused = read(other).unwrap_err().to_string();
            assert_eq!(refused, format!("is not a file of at most {MAX_FILE} bytes"));
        }
    }
}
