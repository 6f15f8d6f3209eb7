//! `config.json` of Hugging Face checkpoints.

mod common;
mod decoder_families;
mod decoders;
mod disentangled;
mod encoder_families;
mod encoder_keys;
mod encoders;
mod rope;
mod windows;

use crate::LoadError;
use crate::config::TransformerConfig;
use crate::json::Fields;
use common::FILE;
use serde_json::Value;

/// Reads a `config.json`.
///
/// # Errors
/// The architecture or one of its features is not supported; a field is missing, malformed or out of range.
pub(crate) fn read(value: &Value) -> Result<TransformerConfig, LoadError> {
    let fields = Fields::new(FILE, value)?;
    let model_type = match fields.optional("model_type")? {
        Some(model_type) => model_type,
        None => encoders::model_type_of_code(&fields)?.ok_or_else(|| fields.problem("model_type", "is missing"))?,
    };
    let architectures: Vec<String> = fields.or("architectures", vec![])?;
    if let Some(family) = decoder_families::FAMILIES.iter().find(|family| family.model_type == model_type) {
        check_architectures(&architectures, &decoders::known_classes(family))?;
        return decoders::read(&fields, family, &architectures);
    }
    if let Some(family) = encoders::family(&fields, &model_type)? {
        check_architectures(&architectures, &encoder_families::HEADS.map(|head| format!("{}{head}", family.prefix)))?;
        return encoders::read(&fields, family);
    }
    let what = match architectures.first() {
        Some(architecture) => format!("architecture {architecture} (`model_type` \"{model_type}\")"),
        None => format!("`model_type` \"{model_type}\""),
    };
    let decoders = decoder_families::FAMILIES.iter().map(|family| family.model_type);
    let encoders = encoder_families::FAMILIES.iter().filter(|family| family.only_with.is_none());
    let known: Vec<_> = decoders.chain(encoders.map(|family| family.model_type)).collect();
    Err(LoadError::unsupported(FILE, what, known.join(", ")))
}

/// Checks the class that a checkpoint was saved from, the first of `architectures`. Further ones read the same tensors in another
/// way: gte-multilingual-base names `NewForTokenClassification` behind `NewModel`, for its weights of tokens.
fn check_architectures(found: &[String], known: &[String]) -> Result<(), LoadError> {
    match found.first().filter(|architecture| !known.contains(architecture)) {
        Some(other) => Err(LoadError::unsupported(FILE, format!("architecture {other}"), known.join(", "))),
        None => Ok(()),
    }
}
