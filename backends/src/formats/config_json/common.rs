//! Parts that configs of decoders and encoders have in common.

use crate::LoadError;
use crate::json::Fields;
use prefold_kernels::Activation;

/// Name of the config, for messages.
pub(super) const FILE: &str = "config.json";

/// Refuses features of any model that would change the computation and are not supported.
pub(super) fn refuse_unsupported(fields: &Fields<'_>) -> Result<(), LoadError> {
    if let Some(quantization) = fields.object("quantization_config")? {
        let method: String = quantization.or("quant_method", "unnamed".to_owned())?;
        let supported = "weights in float32, float16 or bfloat16, or a GGUF file";
        return Err(fields.unsupported("quantization_config", &format!("({method})"), supported));
    }
    // Only classes named AutoModel... have code of the model itself.
    let custom = fields.object("auto_map")?.and_then(|map| map.entries().find(|(k, _)| k.starts_with("AutoModel")));
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
