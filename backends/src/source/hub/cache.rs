//! The cache of Hugging Face's tools on disk: `CACHE/models--OWNER--NAME` with `blobs/`, `snapshots/COMMIT/` of links to blobs, and `refs/`.

use super::failure::Failure;
use super::listing::is_commit;
use rustix::fs::statvfs;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The cache of one repository.
pub(super) struct Cache {
    root: PathBuf,
    /// Name of the repository's folders.
    name: String,
}

impl Cache {
    pub(super) fn new(root: PathBuf, model: &str) -> Self {
        Self { root, name: format!("models--{}", model.replace('/', "--")) }
    }

    /// The folder of all repositories.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn repository(&self) -> PathBuf {
        self.root.join(&self.name)
    }

    /// Folder of the repository's locks.
    pub(super) fn locks(&self) -> PathBuf {
        self.root.join(".locks").join(&self.name)
    }

    /// Lock of a file's download.
    pub(super) fn lock(&self, etag: &str) -> PathBuf {
        self.locks().join(format!("{etag}.lock"))
    }

    /// Path of a file's content by its ETag.
    pub(super) fn blob(&self, etag: &str) -> PathBuf {
        self.repository().join("blobs").join(etag)
    }

    /// Folder of a commit's files.
    pub(super) fn snapshot(&self, commit: &str) -> PathBuf {
        self.repository().join("snapshots").join(commit)
    }

    /// Folder of the commit that a revision had at its last download, if it exists.
    pub(super) fn remembered(&self, revision: &str) -> Option<PathBuf> {
        let commit = if is_commit(revision) {
            revision.to_owned()
        } else {
            fs::read_to_string(self.repository().join("refs").join(revision)).ok()?.trim().to_owned()
        };
        Some(self.snapshot(&commit)).filter(|snapshot| is_commit(&commit) && snapshot.is_dir())
    }

    /// Stores the commit of a branch or tag, so that it is found without the hub. Called once all files are present; until then the cache
    /// keeps the previous commit.
    pub(super) fn remember(&self, revision: &str, commit: &str) {
        let repository = self.repository();
        let file = repository.join("refs").join(revision);
        // The cache may be read-only.
        if fs::read_to_string(&file).is_ok_and(|noted| noted.trim() == commit) {
            return;
        }
        let parent = file.parent().unwrap_or(&repository);
        // Renamed into place, so that a full disk or a crash leaves the old commit.
        let written = parent.join(format!(".{}", std::process::id()));
        let write = || {
            fs::create_dir_all(parent)?;
            fs::write(&written, commit).and_then(|()| fs::rename(&written, &file)).inspect_err(|_| {
                let _ = fs::remove_file(&written);
            })
        };
        if revision != commit
            && let Err(error) = write()
        {
            tracing::warn!("{}: {error}; without the hub this commit will not be found in the cache", file.display());
        }
    }

    /// Links a commit's file to its content.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(super) fn link(&self, commit: &str, file: &str, etag: &str) -> Result<(), Failure> {
        let path = self.snapshot(commit).join(file);
        // The file's folder is this deep in the repository's.
        let up = "../".repeat(Path::new(file).components().count() + 1);
        let link = || {
            fs::create_dir_all(path.parent().unwrap_or(&self.root))?;
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => symlink(format!("{up}blobs/{etag}"), &path),
            }
        };
        link().map_err(Failure::Cache)
    }

    /// Removes the folders without files that a failed download leaves.
    pub(super) fn prune(&self) {
        remove_empty(&self.repository());
    }

    /// Checks that a file of this size fits on the cache's disk.
    ///
    /// # Errors
    /// It does not.
    pub(super) fn check_space(&self, bytes: u64) -> Result<(), Failure> {
        // If the free space is not known, writing fails when the disk is full.
        let Some(disk) = statvfs(&self.root).ok().filter(|disk| disk.f_blocks > 0) else { return Ok(()) };
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if bytes <= free {
            return Ok(());
        }
        let problem = format!("No space left on device: {bytes} bytes are needed and {free} are free");
        Err(Failure::Cache(io::Error::new(io::ErrorKind::StorageFull, problem)))
    }
}

fn remove_empty(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // Fails if the folder is not empty.
    let _ = fs::remove_dir(folder);
}

/// Path of a file that is not yet complete.
pub(super) fn incomplete(blob: &Path) -> PathBuf {
    let mut path = blob.as_os_str().to_owned();
    path.push(".incomplete");
    path.into()
}

/// A file that is being downloaded; removed unless it is kept.
pub(super) struct Incomplete {
    path: PathBuf,
    pub(super) file: File,
}

impl Incomplete {
    /// # Errors
    /// It cannot be written.
    pub(super) fn create(blob: &Path) -> Result<Self, Failure> {
        let path = incomplete(blob);
        let file = File::create(&path).map_err(Failure::Cache)?;
        Ok(Self { path, file })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// It cannot be renamed.
    pub(super) fn keep(self, blob: &Path) -> Result<(), Failure> {
        fs::rename(&self.path, blob).map_err(Failure::Cache)
    }
}

impl Drop for Incomplete {
    fn drop(&mut self) {
        // The file does not exist once it has been kept.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn a_branch_leads_to_a_folder_of_a_commit_alone() {
        let dir = TempDir::new().unwrap();
        let cache = Cache::new(dir.path().to_owned(), "owner/tiny");
        let commit = "0".repeat(40);
        for (noted, folder, is_found) in [
            (commit.as_str(), commit.as_str(), true),
            ("../elsewhere", "../elsewhere", false),
            ("", "", false),
            ("1".repeat(40).as_str(), commit.as_str(), false),
        ] {
            fs::create_dir_all(cache.snapshot(folder)).unwrap();
            cache.remember("main", noted);
            let expected = is_found.then(|| cache.snapshot(folder));
            assert_eq!(cache.remembered("main"), expected, "{noted}");
        }
        let main = cache.repository().join("refs/main");
        for (noted, is_written) in [(commit.as_str(), false), ("1".repeat(40).as_str(), true)] {
            fs::write(&main, format!("{commit}\n")).unwrap();
            cache.remember("main", noted);
            assert_eq!(fs::read_to_string(&main).unwrap() == noted, is_written, "{noted}");
        }
        assert_eq!(cache.remembered(&commit), Some(cache.snapshot(&commit)));
        assert_eq!(cache.remembered(&"1".repeat(40)), None);
    }
}
