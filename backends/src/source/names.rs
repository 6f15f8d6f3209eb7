//! File names of a model: allowed paths and size limits.

use crate::error::LoadError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// Names of the config of sentence-transformers' Transformer module, in the order in which the library tries them.
pub(crate) const SENTENCE_CONFIGS: [&str; 7] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_albert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// Maximum bytes of a file that is read whole.
pub(crate) fn max_bytes(name: &str) -> u64 {
    /// The largest known tokenizers have about 35 MB; a byte takes up to thirty once read.
    const TOKENIZER: u64 = 64 << 20;
    /// The tensor index of a large model has a megabyte, other files some kilobytes; a byte takes up to thirty once parsed.
    const OTHER: u64 = 8 << 20;
    if name.ends_with("tokenizer.json") { TOKENIZER } else { OTHER }
}

/// Checks that a path in a model's file stays inside the model's folder.
///
/// # Errors
/// It is absolute or contains `..`.
pub(crate) fn check_inside(name: &str) -> Result<&str, LoadError> {
    let inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if inside && !name.contains('\\') {
        Ok(name)
    } else {
        Err(LoadError::invalid(name, "is a path that leaves the model's folder"))
    }
}

/// A folder in `modules.json` without empty and `.` components, so that each folder has one name; empty for the model's folder.
pub(crate) fn module_folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

/// Path of a file in one of the model's folders; the folder is empty for the top.
pub(crate) fn inside(folder: &str, file: &str) -> String {
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}

/// Path of a file that one of the model's files names. Its links are followed: they may lead to another place in the model's
/// folder, or in the hub's cache to `blobs/`, where a snapshot's files are.
///
/// # Errors
/// The path leads elsewhere.
pub(crate) fn named_by_a_file(folder: &Path, name: &str) -> Result<PathBuf, LoadError> {
    let path = folder.join(check_inside(name)?);
    let real = |path: &Path| match fs::canonicalize(path) {
        Ok(path) => Ok(Some(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LoadError::io(path.display().to_string(), error)),
    };
    let (Some(target), Some(folder)) = (real(&path)?, real(folder)?) else { return Ok(path) };
    let blobs = match folder.parent() {
        Some(snapshots) if snapshots.ends_with("snapshots") => snapshots.with_file_name("blobs"),
        _ => folder.clone(),
    };
    if target.starts_with(&folder) || target.starts_with(&blobs) {
        return Ok(path);
    }
    Err(LoadError::invalid(name, "leaves the model's folder through a link; put the file itself there"))
}
