//! `config.json` of Hugging Face checkpoints.

mod common;
mod decoder_families;
mod decoders;
mod encoder_families;
mod encoders;
mod rope;
mod windows;

use crate::LoadError;
use crate::config::TransformerConfig;
use crate::json::Fields;
use common::FILE;
use decoder_families::Mark;
use serde_json::Value;

/// Reads a `config.json`.
///
/// # Errors
/// The architecture or one of its features is not supported; a field is missing, malformed or out of range.
pub(crate) fn read(value: &Value) -> Result<TransformerConfig, LoadError> {
    let fields = Fields::new(FILE, value)?;
    let code = fields.object("auto_map")?.map(|map| map.optional::<String>("AutoConfig")).transpose()?.flatten();
    let config_class = code.as_deref().and_then(|code| code.rsplit('.').next());
    let is_brought = |family: &&encoder_families::Family| match family.only_with {
        Some(encoder_families::Mark::Code(class)) => config_class == Some(class),
        _ => false,
    };
    let brought = encoder_families::FAMILIES.iter().find(is_brought);
    let model_type = match (fields.optional::<String>("model_type")?, brought) {
        (None, Some(family)) => family.model_type.to_owned(),
        (given, _) => given.ok_or_else(|| fields.problem("model_type", "is missing"))?,
    };
    let architectures: Vec<String> = fields.or("architectures", vec![])?;
    if let Some(family) = decoder_families::FAMILIES.iter().find(|family| family.model_type == model_type) {
        let variants = decoder_families::VARIANTS.iter().filter(|variant| variant.model_type == model_type);
        let mut known = decoder_families::HEADS.map(|head| format!("{}{head}", family.prefix)).to_vec();
        known.extend(variants.filter_map(|variant| match variant.mark {
            Mark::Class(class) => Some(class.to_owned()),
            Mark::Code(_) => None,
        }));
        check_architectures(&architectures, &known)?;
        return decoders::read(&fields, family, &architectures);
    }
    let is_meant = |family: &&encoder_families::Family| {
        let value = |name: &str| fields.get(name).and_then(Value::as_str);
        family.model_type == model_type
            && match family.only_with {
                None => true,
                Some(encoder_families::Mark::Field(name, wanted)) => value(name) == Some(wanted),
                Some(encoder_families::Mark::Code(class)) => config_class == Some(class),
            }
    };
    if let Some(family) = encoder_families::FAMILIES.iter().find(is_meant) {
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

fn check_architectures(found: &[String], known: &[String]) -> Result<(), LoadError> {
    match found.iter().find(|architecture| !known.contains(architecture)) {
        Some(other) => Err(LoadError::unsupported(FILE, format!("architecture {other}"), known.join(", "))),
        None => Ok(()),
    }
}
