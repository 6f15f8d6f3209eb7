//! Dense modules: layers after pooling.

use super::config_of;
use crate::config::HeadActivation;
use crate::error::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use prefold_kernels::Activation;

/// A dense layer after pooling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DenseModule {
    pub(crate) in_features: usize,
    pub(crate) out_features: usize,
    /// `[out_features, in_features]`
    pub(crate) weight: Vec<f32>,
    /// `[out_features]`
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) activation: HeadActivation,
}

/// Reads a dense module with an input of `in_features` values.
///
/// # Errors
/// The config or weights are missing or malformed, or the activation is not supported.
pub(crate) fn read(
    files: &ModelFiles,
    folder: &str,
    in_features: usize,
    with_weights: bool,
) -> Result<DenseModule, LoadError> {
    let folder = folder.trim_end_matches('/');
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let found: usize = fields.required("in_features")?;
    if found != in_features {
        return Err(fields.problem("in_features", &format!("is {found}, but its input is {in_features} wide")));
    }
    let out_features = match fields.required("out_features")? {
        out_features @ 1..=0x10_0000 => out_features,
        other => return Err(fields.problem("out_features", &format!("must be from 1 to 1048576, it is {other}"))),
    };
    // sentence-transformers' own default is Tanh.
    let activation: String = fields.or("activation_function", "Tanh".to_owned())?;
    let activation = match activation.rsplit('.').next().unwrap_or_default() {
        "Identity" => HeadActivation::Identity,
        "Tanh" => HeadActivation::Tanh,
        "ReLU" => HeadActivation::Of(Activation::Relu),
        "GELU" => HeadActivation::Of(Activation::Gelu),
        "SiLU" => HeadActivation::Of(Activation::Silu),
        _ => {
            let supported = "Identity, Tanh, ReLU, GELU, SiLU";
            return Err(fields.unsupported("activation_function", &format!("\"{activation}\""), supported));
        }
    };
    for (key, usual) in [("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")] {
        let value: String = fields.or(key, usual.to_owned())?;
        if value != usual {
            return Err(fields.unsupported(key, &format!("\"{value}\""), usual));
        }
    }
    if fields.or("use_residual", false)? {
        return Err(fields.unsupported("use_residual", "true", "false"));
    }
    if !with_weights {
        return Ok(DenseModule { in_features, out_features, weight: vec![], bias: None, activation });
    }
    let weights = files.weights_in(folder)?;
    let bias = fields.or("bias", true)?.then(|| weights.read("linear.bias", &[out_features])).transpose()?;
    let weight = weights.read("linear.weight", &[out_features, in_features])?;
    Ok(DenseModule { in_features, out_features, weight, bias, activation })
}
