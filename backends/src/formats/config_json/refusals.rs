//! Refusal of unsupported features in `config.json`.

use crate::error::LoadError;
use crate::formats::families::{Must, is_same};
use crate::json::{Fields, shown};
use serde_json::Value;

/// Refuses fields with another value than the family's.
///
/// # Errors
/// Names the first of them.
pub(super) fn check_musts(fields: &Fields<'_>, musts: &[&[(&str, Must)]]) -> Result<(), LoadError> {
    for &(name, must) in musts.iter().copied().flatten() {
        let Some(value) = fields.get(name) else {
            match must {
                Must::Given(wanted) => {
                    return Err(
                        fields.problem(name, &format!("is missing; its default is {}, supported is {wanted}", !wanted))
                    );
                }
                _ => continue,
            }
        };
        let (is_met, supported) = match must {
            Must::Bool(wanted) | Must::Given(wanted) => (value.as_bool() == Some(wanted), wanted.to_string()),
            Must::False(supported) => (value.as_bool() == Some(false), supported.to_owned()),
            Must::Number(wanted) => (value.as_f64() == Some(wanted), wanted.to_string()),
            Must::Text(wanted) => (value.as_str() == Some(wanted), wanted.to_owned()),
            Must::As(other) => match fields.get(other) {
                Some(wanted) if !is_same(value, wanted) => {
                    return Err(fields.problem(name, &format!("and `{other}` contradict each other")));
                }
                _ => continue,
            },
            Must::Absent(supported) => (false, supported.to_owned()),
        };
        if !is_met {
            return Err(fields.unsupported(name, &shown(value), supported));
        }
    }
    Ok(())
}

/// `true` for the usual names of weights, which the field need not name.
fn is_usual(name: &Value) -> bool {
    let name = name.as_str();
    name.is_some_and(|name| matches!(name, "model.safetensors" | "model.safetensors.index.json"))
}

/// Refuses features of any model that would change the computation and are not supported. `own_code` is the prefix of the classes
/// whose code, where a checkpoint brings it, computes what its family says.
///
/// # Errors
/// Names the first of them.
pub(super) fn refuse_unsupported(fields: &Fields<'_>, own_code: Option<&str>) -> Result<(), LoadError> {
    if let Some(quantization) = fields.object("quantization_config")? {
        let method: String = quantization.or("quant_method", "unnamed".to_owned())?;
        let supported = "weights in float32, float16 or bfloat16, or a GGUF file";
        return Err(fields.unsupported("quantization_config", &format!("({method})"), supported));
    }
    // transformers reads the named file alone.
    if let Some(name) = fields.get("transformers_weights").filter(|name| !is_usual(name)) {
        let supported = "model.safetensors: rename the file and remove the field";
        return Err(fields.unsupported("transformers_weights", &shown(name), supported));
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
