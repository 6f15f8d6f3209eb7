//! `config.json` of Hugging Face checkpoints.

mod identity;
mod refusals;

use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::families;
use crate::json::Fields;
use identity::{FILE, Identity};
use refusals::{check_musts, refuse_unsupported};
use serde_json::Value;

/// Reads a `config.json`.
///
/// # Errors
/// The architecture or one of its features is not supported; a field is missing, malformed or out of range.
pub(crate) fn read(value: &Value) -> Result<TransformerConfig, LoadError> {
    let fields = Fields::new(FILE, value)?;
    let family = Identity::read(&fields)?.family()?;
    // If the mask differs from the family's, the checkpoint's own code lifts it.
    let own_code = family.own_code || families::mask(&fields, family)? != family.mask;
    refuse_unsupported(&fields, own_code.then_some(family.prefix))?;
    check_musts(&fields, family.musts)?;
    families::read(&fields, family)
}

/// Warnings about settings that transformers' own classes ignore, in a file that [`read`] accepts.
pub(crate) fn followed_alone(value: &Value) -> Vec<String> {
    let Ok(fields) = Fields::new(FILE, value) else { return vec![] };
    let Ok(family) = Identity::read(&fields).and_then(|identity| identity.family()) else { return vec![] };
    let mask = families::kept_mask(&fields, family).ok().flatten();
    let found = mask.into_iter().chain(families::older_spellings(&fields, family));
    found.map(|warning| format!("{FILE}: {warning}")).collect()
}
