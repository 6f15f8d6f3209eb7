//! The cached commit of a model, served if the hub fails.

use super::{Download, FileSet, LISTING, Listing};
use crate::error::{LoadError, printable};
use std::path::{Path, PathBuf};

impl Download<'_> {
    /// The folder of the cached commit of the revision, without a request to the hub.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn offline(&self) -> Result<PathBuf, LoadError> {
        self.cache.remembered(self.revision()).ok_or_else(|| {
            let cache = self.cache.root().display();
            let problem = format!("{cache} does not have it, and the hub is not asked (--offline, HF_HUB_OFFLINE)");
            self.error(LISTING, problem)
        })
    }

    /// The folder of the revision's cached commit, with a warning, after `failure` prevented the download of the current one.
    /// `current` is the commit of the failed download, if the hub named it.
    ///
    /// # Errors
    /// Returns `failure` if the hub gave a verdict on the repository, or if no complete commit is in the cache.
    pub(super) async fn instead(
        &self,
        failure: LoadError,
        current: Option<&str>,
        dense_path: Option<&str>,
        files: FileSet,
    ) -> Result<PathBuf, LoadError> {
        // A file that the hub shows to be unsuitable is unsuitable in the cached commit too.
        if !failure.is_unseen() {
            return Err(failure);
        }
        let cache = self.cache.root().display();
        let Some(snapshot) = self.cache.remembered(self.revision()) else {
            return Err(match current {
                None if !self.is_verdict.get() => with(failure, &format!("; {cache} does not have the model")),
                _ => failure,
            });
        };
        if self.is_verdict.get() {
            return Err(with(failure, "; --offline serves the cached commit without asking the hub"));
        }
        let commit = snapshot.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if current == Some(commit.as_str()) {
            return Err(failure);
        }
        if let Err(lack) = self.check_complete(&commit, &snapshot, dense_path, files).await {
            return Err(with(failure, &format!("; {cache} has no complete copy: {}", reason(&lack))));
        }
        tracing::warn!("{failure}; the cached commit {commit} is served instead");
        Ok(snapshot)
    }

    /// Checks that a cached commit has all files that would be downloaded, each of them intact.
    ///
    /// # Errors
    /// A file is missing or damaged.
    async fn check_complete(
        &self,
        commit: &str,
        snapshot: &Path,
        dense_path: Option<&str>,
        files: FileSet,
    ) -> Result<(), LoadError> {
        let listing = Listing::of_folder(commit, snapshot)
            .map_err(|error| LoadError::io(snapshot.display().to_string(), error))?;
        self.get(&listing, dense_path, files).await.map(drop)
    }
}

/// The failure with an addition to its message.
fn with(failure: LoadError, more: &str) -> LoadError {
    match failure {
        LoadError::Hub { model, revision, endpoint, file, is_seen, problem } => {
            LoadError::Hub { model, revision, endpoint, file, is_seen, problem: printable(problem + more) }
        }
        other => other,
    }
}

/// The defect of a cached commit, for messages.
fn reason(lack: &LoadError) -> String {
    match lack {
        LoadError::Hub { file, is_seen: true, .. } => format!("{file} is missing"),
        LoadError::Hub { file, problem, .. } => format!("{file}: {problem}"),
        other => other.to_string(),
    }
}
