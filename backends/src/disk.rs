//! Files on disk. Refuses pipes, devices, files above a limit and files that change while they are read.

use crate::error::LoadError;
use memmap2::Mmap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::ops::Deref;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::SystemTime;

/// The bytes of a large file: mapped from disk or compiled into the program.
#[derive(Debug)]
pub(crate) enum FileBytes {
    /// A file on disk; its pages are read on access.
    Mapped(MappedFile),
    /// Part of the program.
    Static(&'static [u8]),
}

/// A mapped file, with its stamp at the time of mapping.
#[derive(Debug)]
pub(crate) struct MappedFile {
    map: Mmap,
    file: File,
    stamp: Stamp,
}

/// Length and modification time of a file, which detect a write.
#[derive(Debug, PartialEq)]
struct Stamp {
    length: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(file: &File) -> std::io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { length: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl FileBytes {
    /// Maps a file; `None` if there is no such file.
    ///
    /// # Errors
    /// It is not a regular file, or cannot be opened or mapped.
    pub(crate) fn map(path: &Path) -> Result<Option<Self>, LoadError> {
        let failed = |error| LoadError::io(path.display().to_string(), error);
        let Some(file) = open(path)? else { return Ok(None) };
        let stamp = Stamp::of(&file).map_err(failed)?;
        // SAFETY: the map is read-only and private to this value. The operator must not shorten or rewrite the file while
        // the model is loaded, which `check_unchanged` verifies; the map is dropped after loading.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Some(Self::Mapped(MappedFile { map, file, stamp })))
    }

    /// Checks that the file was not written to since it was mapped. A check before a read avoids access beyond the file's
    /// new end; a check afterwards proves that all bytes are of one version.
    ///
    /// # Errors
    /// The file changed; the error calls it `name`.
    fn check_unchanged(&self, name: &str) -> Result<(), LoadError> {
        let Self::Mapped(MappedFile { file, stamp, .. }) = self else { return Ok(()) };
        match Stamp::of(file) {
            Ok(now) if now == *stamp => Ok(()),
            Ok(_) => Err(LoadError::invalid(name, "changed while it was being read; start again once it is complete")),
            Err(error) => Err(LoadError::io(name, error)),
        }
    }
}

/// A file with its name for messages.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) name: String,
    pub(crate) bytes: FileBytes,
}

impl NamedFile {
    /// Runs `read` on the file's bytes, between two checks that they did not change.
    ///
    /// # Errors
    /// The file was written to since it was opened.
    pub(crate) fn reading<T>(&self, read: impl FnOnce() -> T) -> Result<T, LoadError> {
        self.bytes.check_unchanged(&self.name)?;
        let value = read();
        self.bytes.check_unchanged(&self.name)?;
        Ok(value)
    }
}

impl Deref for FileBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => &file.map,
            Self::Static(bytes) => bytes,
        }
    }
}

/// A file's content; `None` if there is no such file.
///
/// # Errors
/// It is not a regular file, cannot be read, or has more than `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, LoadError> {
    let failed = |error| LoadError::io(path.display().to_string(), error);
    let Some(file) = open(path)? else { return Ok(None) };
    let length = file.metadata().map_err(failed)?.len();
    let too_long = |length: u64| {
        let problem = format!("has {length} bytes or more, the limit for such a file is {limit}");
        Err(LoadError::invalid(path.display().to_string(), problem))
    };
    if length > limit {
        return too_long(length);
    }
    let mut bytes = Vec::new();
    // A file may grow meanwhile, and virtual files may claim to be empty.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit { too_long(limit + 1) } else { Ok(Some(bytes)) }
}

/// Opens a regular file and refuses a placeholder for another one; `None` if there is no such file.
fn open(path: &Path) -> Result<Option<File>, LoadError> {
    let failed = |error| LoadError::io(path.display().to_string(), error);
    // Before the file is opened, because opening a pipe waits for its other end.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() {
        let problem = if metadata.is_dir() { "is a directory, not a file" } else { "is a pipe or device, not a file" };
        return Err(LoadError::invalid(path.display().to_string(), problem));
    }
    let file = File::open(path).map_err(failed)?;
    let mut head = [0; 256];
    let length = file.read_at(&mut head, 0).map_err(failed)?;
    match stand_in(&head[..length]) {
        None => Ok(Some(file)),
        Some(problem) => Err(LoadError::invalid(path.display().to_string(), problem)),
    }
}

/// Problem and advice if a file's first bytes show a placeholder: a clone without Git LFS leaves pointers, and a download may have
/// saved a web page.
fn stand_in(head: &[u8]) -> Option<&'static str> {
    const POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";
    let text = head.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(head).trim_ascii_start().to_ascii_lowercase();
    if head.starts_with(POINTER) {
        return Some("is a Git LFS pointer instead of the file itself; run `git lfs pull` in the clone");
    }
    let is_page = text.starts_with(b"<!doctype html") || text.starts_with(b"<html");
    is_page.then_some("is a web page (HTML) instead of a model file; download it again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_changes_while_it_is_read_is_refused() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("weights");
        let changes: [fn(&mut File) -> std::io::Result<()>; 3] = [
            |file| file.write_all(b"longer than before"),
            |file| file.set_len(1),
            |file| file.set_modified(SystemTime::UNIX_EPOCH),
        ];
        for change in changes {
            fs::write(&path, "before").unwrap();
            let bytes = FileBytes::map(&path).unwrap().unwrap();
            let file = NamedFile { name: "weights".to_owned(), bytes };
            assert_eq!(file.reading(|| file.bytes.len()).unwrap(), 6);
            let mut written = File::options().write(true).open(&path).unwrap();
            let refused = file.reading(|| change(&mut written).unwrap()).unwrap_err().to_string();
            assert!(refused.starts_with("weights: changed while it was being read"), "{refused}");
            let refused = file.reading::<()>(|| unreachable!("it has changed")).unwrap_err().to_string();
            assert!(refused.starts_with("weights: changed while it was being read"), "{refused}");
        }
    }

    #[test]
    fn a_file_that_is_longer_than_it_claims_is_not_read_to_its_end() {
        let path = Path::new("/proc/self/maps");
        assert_eq!(fs::metadata(path).unwrap().len(), 0);
        let refused = read(path, 100).unwrap_err().to_string();
        assert_eq!(refused, "/proc/self/maps: has 101 bytes or more, the limit for such a file is 100");
        assert!(read(path, 1 << 20).unwrap().is_some());
    }
}
