//! Verification of downloaded files.

use crate::disk::{self, FileBytes};
use crate::formats::gguf::{GgufFile, has_gguf_extension};
use crate::formats::{TensorFiles, TensorFormat};
use crate::source::names::max_bytes;
use serde::de::IgnoredAny;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Checks that a downloaded file has the announced size and is a complete file of the kind in its name.
///
/// # Errors
/// The reason why the file is not valid.
pub(crate) fn check(path: &Path, file: &str, announced: Option<u64>) -> Result<(), String> {
    let size = fs::metadata(path).map_err(|error| error.to_string())?.len();
    if let Some(announced) = announced.filter(|&announced| announced != size) {
        return Err(format!("{size} bytes were received, but {announced} were announced{}", beginning(path)));
    }
    let problem = if file.ends_with(".json") {
        check_json(path, file)
    } else if let Some(format) = TensorFormat::of_file(file) {
        check_tensors(format, path, file)
    } else if has_gguf_extension(Path::new(file)) {
        GgufFile::open(path).map(drop).map_err(|error| error.to_string())
    } else {
        Ok(())
    };
    problem.map_err(|problem| format!("the downloaded file is not valid: {problem}{}", beginning(path)))
}

fn check_json(path: &Path, file: &str) -> Result<(), String> {
    let bytes = disk::read(path, max_bytes(file)).map_err(|error| error.to_string())?.unwrap_or_default();
    serde_json::from_slice::<IgnoredAny>(&bytes).map(drop).map_err(|error| format!("it is not JSON: {error}"))
}

fn check_tensors(format: TensorFormat, path: &Path, file: &str) -> Result<(), String> {
    let bytes = FileBytes::map(path).map_err(|error| error.to_string())?;
    let bytes = bytes.ok_or_else(|| "it has disappeared".to_owned())?;
    TensorFiles::single(format, file, bytes).map(drop).map_err(|error| error.to_string())
}

/// The beginning of a text file, as the rest of a sentence: an error page names the cause.
fn beginning(path: &Path) -> String {
    /// Bytes shown.
    const SHOWN: u64 = 80;
    let mut bytes = Vec::new();
    // A file that cannot be read has no beginning to show.
    let _ = fs::File::open(path).and_then(|file| file.take(SHOWN).read_to_end(&mut bytes));
    match str::from_utf8(&bytes) {
        Ok(text) if !text.is_empty() && !text.contains(|c: char| c.is_control() && !c.is_whitespace()) => {
            format!("; it begins with {text:?}")
        }
        _ => String::new(),
    }
}

/// Removes a file of the commit in `snapshot` from the cache: its link, and the link's target inside the cache.
///
/// # Errors
/// The link or file could not be removed.
pub(crate) fn discard(path: &Path, snapshot: &Path) -> io::Result<()> {
    // REPOSITORY/snapshots/COMMIT and REPOSITORY/blobs.
    let blobs = snapshot.ancestors().nth(2).and_then(|repository| fs::canonicalize(repository.join("blobs")).ok());
    if let (Some(blobs), Ok(blob)) = (blobs, fs::canonicalize(path))
        && blob.starts_with(blobs)
    {
        let _ = fs::remove_file(blob);
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn what_is_not_a_file_of_its_kind_is_refused_with_its_beginning() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("blob");
        let refused = |file: &str, content: &str| {
            fs::write(&path, content).unwrap();
            check(&path, file, None).err().unwrap_or_default()
        };
        let long = "x".repeat(100);
        for file in ["config.json", "model.safetensors", "a.gguf"] {
            let message = refused(file, &long);
            assert!(message.starts_with("the downloaded file is not valid"), "{file}: {message}");
            assert!(message.ends_with(&format!("; it begins with \"{}\"", "x".repeat(80))), "{file}: {message}");
            for content in ["", "\u{1b}[31mx"] {
                let message = refused(file, content);
                assert!(!message.is_empty() && !message.contains("begins with"), "{file}: {message}");
            }
        }
        assert_eq!(refused("README.md", &long), "");
        assert!(check(&path, "README.md", Some(99)).unwrap_err().contains("100 bytes were received, but 99"));
    }
}
