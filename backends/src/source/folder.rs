//! Folders of a model on disk.

use crate::error::LoadError;
use crate::formats::gguf::has_gguf_extension;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum files that are looked at for a message.
const MAX_FILES: usize = 1000;

/// The only GGUF file of a directory; `None` if there is none.
pub(super) fn only_gguf(directory: &Path) -> Result<Option<PathBuf>, LoadError> {
    let failed = |error| LoadError::io(directory.display().to_string(), error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if has_gguf_extension(&path) {
            found.push(path);
        }
    }
    match found.len() {
        0 | 1 => Ok(found.pop()),
        n => {
            let problem = format!("has {n} .gguf files and no config.json; give the path of one of them");
            Err(LoadError::invalid(directory.display().to_string(), problem))
        }
    }
}

/// Names of the files in a folder and in the folders inside it, for messages; without those that cannot be read.
pub(super) fn files(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_FILES);
    for entry in entries(folder) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            let inner = entries(&entry.path());
            found.extend(inner.map(|file| format!("{name}/{}", file.file_name().to_string_lossy())));
        } else {
            found.push(name);
        }
        if found.len() > MAX_FILES {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use tempfile::TempDir;

    #[test]
    fn folders_are_listed_up_to_a_number_of_files() {
        let listed = |names: &[(&str, usize)]| {
            let dir = TempDir::new().unwrap();
            for (folder, count) in names {
                let folder = dir.path().join(folder);
                fs::create_dir_all(&folder).unwrap();
                (0..*count).for_each(|name| drop(File::create(folder.join(name.to_string())).unwrap()));
            }
            files(dir.path()).len()
        };
        assert_eq!([listed(&[("", 1001)]), listed(&[("a", 1001)])], [MAX_FILES; 2]);
        assert_eq!(listed(&[("a", 600), ("b", 600), ("c", 600)]), 1200, "no further folder");
    }
}
