//! Keys of a GGUF file that have no effect here and may have one in llama.cpp.

use super::named::{ignored, is_named};
use super::row::File;
use crate::error::LoadError;
use crate::formats::gguf::GgufFile;

/// The warning about these keys.
///
/// # Errors
/// The file does not name its architecture.
pub(crate) fn named_metadata(file: &GgufFile) -> Result<Option<String>, LoadError> {
    let prefix = format!("{}.", file.architecture()?);
    let entries = file.metadata().filter_map(|(key, value)| {
        let name = key.strip_prefix(&prefix).or_else(|| key.starts_with("tokenizer.").then_some(key))?;
        is_named(File::Gguf, name, &value).then_some((key, value))
    });
    Ok(ignored(file.name(), entries))
}
