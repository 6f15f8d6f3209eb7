//! Parts that configs of decoders and encoders have in common.

use crate::LoadError;
use crate::json::{Fields, shown};
use prefold_kernels::Activation;
use serde_json::Value;

/// Name of the config, for messages.
pub(super) const FILE: &str = "config.json";

/// The value that a field must have where it is present.
#[derive(Clone, Copy)]
pub(super) enum Must {
    Bool(bool),
    Number(f64),
    Text(&'static str),
    /// None: the field turns a feature on.
    Absent,
}

/// Refuses fields with another value than the family's.
///
/// # Errors
/// Names the first of them.
pub(super) fn check_musts(fields: &Fields<'_>, musts: &[(&str, Must)]) -> Result<(), LoadError> {
    for &(name, must) in musts {
        let Some(value) = fields.get(name) else { continue };
        let (is_met, supported) = match must {
            Must::Bool(wanted) => (value.as_bool() == Some(wanted), wanted.to_string()),
            Must::Number(wanted) => (value.as_f64() == Some(wanted), wanted.to_string()),
            Must::Text(wanted) => (value.as_str() == Some(wanted), wanted.to_owned()),
            Must::Absent => (false, "null".to_owned()),
        };
        if !is_met {
            return Err(fields.unsupported(name, &shown(value), supported));
        }
    }
    Ok(())
}

/// The first of a field's spellings that the file has, or the first of all.
pub(super) fn first_of(fields: &Fields<'_>, keys: &[&'static str]) -> &'static str {
    let present = keys.iter().find(|key| fields.get(key).is_some());
    present.or(keys.first()).copied().unwrap_or_default()
}

/// Kinds of RoPE scaling that a family knows.
pub(super) type RopeKinds = &'static [&'static str];

/// None.
pub(super) const UNSCALED: RopeKinds = &["default"];

/// Those of transformers' decoders.
pub(super) const SCALED: RopeKinds = &["default", "linear", "llama3"];

/// Those of Alibaba-NLP's `new` models.
pub(super) const NTK: RopeKinds = &["default", "ntk"];

/// Refuses features of any model that would change the computation and are not supported. `own_code` is the prefix of the classes
/// whose code, where a checkpoint brings it, computes what its family says.
pub(super) fn refuse_unsupported(fields: &Fields<'_>, own_code: Option<&str>) -> Result<(), LoadError> {
    if let Some(quantization) = fields.object("quantization_config")? {
        let method: String = quantization.or("quant_method", "unnamed".to_owned())?;
        let supported = "weights in float32, float16 or bfloat16, or a GGUF file";
        return Err(fields.unsupported("quantization_config", &format!("({method})"), supported));
    }
    // Only classes named AutoModel... have code of the model itself.
    let is_known = |class: &Value| {
        let class = class.as_str().and_then(|class| class.rsplit('.').next());
        own_code.is_some_and(|prefix| class.is_some_and(|class| class.starts_with(prefix)))
    };
    let is_custom = |(key, class): &(&String, &Value)| key.starts_with("AutoModel") && !is_known(class);
    let custom = fields.object("auto_map")?.and_then(|map| map.entries().find(is_custom));
    if let Some((_, code)) = custom {
        let supported = "the checkpoint brings Python code of its own, which is not run";
        return Err(fields.unsupported("auto_map", &format!("({code})"), supported));
    }
    Ok(())
}

/// The activation that a field names.
///
/// # Errors
/// It is not known.
pub(super) fn activation(fields: &Fields<'_>, field: &str, default: Activation) -> Result<Activation, LoadError> {
    let Some(name) = fields.optional::<String>(field)? else { return Ok(default) };
    match name.as_str() {
        "gelu" | "gelu_python" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_python_tanh" | "gelu_accurate" => {
            Ok(Activation::GeluTanh)
        }
        "relu" => Ok(Activation::Relu),
        "silu" | "swish" => Ok(Activation::Silu),
        _ => Err(fields.unsupported(field, &format!("\"{name}\""), "gelu, gelu_new, relu, silu")),
    }
}
