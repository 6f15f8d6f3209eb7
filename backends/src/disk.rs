//! Files on disk, which may be anything: a pipe, a device, far too long, rewritten while they are read.

use crate::LoadError;
use memmap2::Mmap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::ops::Deref;
use std::path::Path;
use std::time::SystemTime;

/// The bytes of a big file: mapped from disk or compiled into the program.
#[derive(Debug)]
pub(crate) enum FileBytes {
    /// A file on disk; pages are read when they are touched.
    Mapped(MappedFile),
    /// Part of the program.
    Static(&'static [u8]),
}

/// A mapped file, and what it was like when it was mapped.
#[derive(Debug)]
pub(crate) struct MappedFile {
    map: Mmap,
    file: File,
    stamp: Stamp,
}

/// What tells that a file was written to.
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
    /// Maps a file; `None` when there is no such file.
    ///
    /// # Errors
    /// It is no regular file, or cannot be opened or mapped.
    pub(crate) fn map(path: &Path) -> Result<Option<Self>, LoadError> {
        let failed = |error| LoadError::io(path.display().to_string(), error);
        let Some(file) = open(path)? else { return Ok(None) };
        let stamp = Stamp::of(&file).map_err(failed)?;
        // SAFETY: the map is read-only and private to this value. That nobody shortens or rewrites the file
        // while the model is being loaded is the operator's duty, and looked after by `check_unchanged`; the map is
        // dropped when loading is done.
        #[allow(unsafe_code)]
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Some(Self::Mapped(MappedFile { map, file, stamp })))
    }

    /// Checks that nobody has written to the file since it was mapped. Asked before a part is read it keeps the process
    /// from touching what is no longer there, asked afterwards it says that what was read belongs together.
    ///
    /// # Errors
    /// Somebody has; `name` is what the error calls the file.
    fn check_unchanged(&self, name: &str) -> Result<(), LoadError> {
        let Self::Mapped(MappedFile { file, stamp, .. }) = self else { return Ok(()) };
        match Stamp::of(file) {
            Ok(now) if now == *stamp => Ok(()),
            Ok(_) => {
                Err(LoadError::invalid(name, "was written to while it was being read; start again when it is whole"))
            }
            Err(error) => Err(LoadError::io(name, error)),
        }
    }
}

/// A file with the name for messages.
#[derive(Debug)]
pub(crate) struct NamedFile {
    pub(crate) name: String,
    pub(crate) bytes: FileBytes,
}

impl NamedFile {
    /// Reads from the file's bytes.
    ///
    /// # Errors
    /// Somebody has written to the file since it was opened.
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

/// A file's content; `None` when there is no such file.
///
/// # Errors
/// It is no regular file, cannot be read, or has more than `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, LoadError> {
    let failed = |error| LoadError::io(path.display().to_string(), error);
    let Some(file) = open(path)? else { return Ok(None) };
    let length = file.metadata().map_err(failed)?.len();
    let too_long = |length: u64| {
        let problem = format!("has {length} bytes or more, such a file may have {limit}");
        Err(LoadError::invalid(path.display().to_string(), problem))
    };
    if length > limit {
        return too_long(length);
    }
    let mut bytes = Vec::new();
    // A file may grow meanwhile, and some of those that the system makes up claim to be empty.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit { too_long(limit + 1) } else { Ok(Some(bytes)) }
}

/// Opens a regular file; `None` when there is no such file.
fn open(path: &Path) -> Result<Option<File>, LoadError> {
    let failed = |error| LoadError::io(path.display().to_string(), error);
    // Looked at before it is opened: to open a pipe is to wait for its other end.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    if !metadata.is_file() {
        let problem = if metadata.is_dir() { "is a directory, not a file" } else { "is a pipe or device, not a file" };
        return Err(LoadError::invalid(path.display().to_string(), problem));
    }
    File::open(path).map(Some).map_err(failed)
}
