//! Truncation of vectors in `config_sentence_transformers.json`.

use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;

const FILE: &str = "config_sentence_transformers.json";
const FIELD: &str = "truncate_dim";

/// Default number of values kept of vectors of `width`; `None` keeps all.
///
/// # Errors
/// The file is malformed, or the number is 0 or above `width`.
pub(crate) fn truncate_dim(files: &ModelFiles, width: usize) -> Result<Option<usize>, LoadError> {
    let Some(config) = files.json_at(FILE)? else { return Ok(None) };
    let fields = Fields::new(FILE, &config)?;
    match fields.optional::<usize>(FIELD)? {
        Some(kept) if !(1..=width).contains(&kept) => {
            Err(fields.problem(FIELD, &format!("must be from 1 to {width}, the width of the vectors, it is {kept}")))
        }
        kept => Ok(kept.filter(|&kept| kept < width)),
    }
}
