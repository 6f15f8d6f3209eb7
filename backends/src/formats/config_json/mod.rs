//! `config.json` of Hugging Face checkpoints.

mod common;
mod decoder_families;
mod decoders;
mod identity;

use crate::LoadError;
use crate::config::TransformerConfig;
use crate::formats::families::{self, ENCODERS};
use crate::json::Fields;
use common::{FILE, check_musts, refuse_unsupported};
use identity::Identity;
use serde_json::Value;

/// Reads a `config.json`.
///
/// # Errors
/// The architecture or one of its features is not supported; a field is missing, malformed or out of range.
pub(crate) fn read(value: &Value) -> Result<TransformerConfig, LoadError> {
    let fields = Fields::new(FILE, value)?;
    let identity = Identity::read(&fields)?;
    if let Some(family) = decoder_families::FAMILIES.iter().find(|family| family.model_type == identity.model_type) {
        identity.check(&decoders::known_classes(family))?;
        return decoders::read(&fields, family, &identity.architectures);
    }
    if let Some(family) = identity.family() {
        identity.check_class(family)?;
        refuse_unsupported(&fields, family.own_code.then_some(family.prefix))?;
        check_musts(&fields, family.musts)?;
        return families::read(&fields, family);
    }
    let model_type = &identity.model_type;
    let what = match identity.architectures.first() {
        Some(architecture) => format!("architecture {architecture} (`model_type` \"{model_type}\")"),
        None => format!("`model_type` \"{model_type}\""),
    };
    let decoders = decoder_families::FAMILIES.iter().map(|family| family.model_type);
    let encoders = ENCODERS.iter().filter(|family| family.mark.is_none());
    let known: Vec<_> = decoders.chain(encoders.map(|family| family.model_type)).collect();
    Err(LoadError::unsupported(FILE, what, known.join(", ")))
}
