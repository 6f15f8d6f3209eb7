//! Modules that change a text's vector: Dense, LayerNorm and a quantizer.

use super::config_of;
use crate::config::HeadActivation;
use crate::error::LoadError;
use crate::formats::TensorFiles;
use crate::json::{Fields, first_names};
use crate::source::ModelFiles;
use prefold_kernels::Activation;

/// A module after pooling.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum VectorModule {
    Dense(DenseModule),
    LayerNorm(LayerNormModule),
    /// The values as whole numbers from -127 to 127.
    Int8 {
        width: usize,
    },
}

/// Width of a module's input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputWidth<'a> {
    pub(crate) values: usize,
    /// The reason, where files contradict each other about it.
    pub(crate) reason: Option<&'a str>,
}

impl InputWidth<'_> {
    /// Compares the width with the one that a module's config names.
    ///
    /// # Errors
    /// They differ.
    fn check(self, fields: &Fields<'_>, name: &str, found: usize) -> Result<(), LoadError> {
        let Self { values, reason } = self;
        if found == values {
            return Ok(());
        }
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        Err(fields.problem(name, &format!("is {found}, but its input is {values} wide{reason}")))
    }
}

/// Kind of a module after pooling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VectorKind {
    Dense,
    LayerNorm,
    /// Without a folder.
    Int8,
}

/// Normalisation over the values of a vector.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LayerNormModule {
    pub(crate) width: usize,
    /// `[width]`
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Vec<f32>,
}

impl LayerNormModule {
    /// Default of PyTorch's LayerNorm, which no file names.
    pub(crate) const EPS: f32 = 1e-5;
}

impl VectorModule {
    /// Width of its output.
    pub(crate) fn out_features(&self) -> usize {
        match self {
            Self::Dense(dense) => dense.out_features,
            Self::LayerNorm(norm) => norm.width,
            Self::Int8 { width } => *width,
        }
    }

    /// Reads the module in a folder.
    ///
    /// # Errors
    /// The config or weights are missing or malformed, or need an unsupported feature.
    pub(crate) fn read(
        files: &ModelFiles,
        (kind, folder): (VectorKind, &str),
        input: InputWidth<'_>,
        with_weights: bool,
    ) -> Result<Self, LoadError> {
        match kind {
            VectorKind::Dense => read(files, folder, input, with_weights).map(Self::Dense),
            VectorKind::LayerNorm => read_norm(files, folder, input, with_weights).map(Self::LayerNorm),
            VectorKind::Int8 => Ok(Self::Int8 { width: input.values }),
        }
    }
}

/// Source of the vector that a Dense module adds to its output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Residual {
    None,
    /// The module's input.
    Input,
    /// The input times a matrix `[out_features, in_features]`.
    Projected(Vec<f32>),
}

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
    pub(crate) residual: Residual,
}

/// Reads a LayerNorm module.
fn read_norm(
    files: &ModelFiles,
    folder: &str,
    input: InputWidth<'_>,
    with_weights: bool,
) -> Result<LayerNormModule, LoadError> {
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let width: usize = fields.required("dimension")?;
    input.check(&fields, "dimension", width)?;
    if !with_weights {
        return Ok(LayerNormModule { width, weight: vec![], bias: vec![] });
    }
    let weights = files.weights_in(folder)?;
    let read = |name: &str| weights.read(name, &[width]);
    check_all_read(&weights, &["norm.weight", "norm.bias"])?;
    Ok(LayerNormModule { width, weight: read("norm.weight")?, bias: read("norm.bias")? })
}

/// Refuses tensors that the module's config does not ask for, as sentence-transformers does.
fn check_all_read(weights: &TensorFiles, read: &[&str]) -> Result<(), LoadError> {
    let read: Vec<String> = read.iter().map(|&name| name.to_owned()).collect();
    let mut unread = weights.unread(&read);
    unread.sort_unstable();
    match first_names(&unread) {
        None => Ok(()),
        Some(names) => {
            let problem = format!("has tensors that the module's config does not ask for: {names}");
            Err(LoadError::invalid(weights.description(), problem))
        }
    }
}

/// Reads a dense module.
fn read(files: &ModelFiles, folder: &str, input: InputWidth<'_>, with_weights: bool) -> Result<DenseModule, LoadError> {
    let folder = folder.trim_end_matches('/');
    let name = config_of(folder);
    let config = files.json(&name)?.ok_or_else(|| files.missing(&name, ""))?;
    let fields = Fields::new(&name, &config)?;
    let in_features = fields.required("in_features")?;
    input.check(&fields, "in_features", in_features)?;
    let out_features = match fields.required("out_features")? {
        out_features @ 1..=0x10_0000 => out_features,
        other => return Err(fields.problem("out_features", &format!("must be from 1 to 1048576, it is {other}"))),
    };
    // sentence-transformers' own default is Tanh.
    let activation: String = fields.or("activation_function", "Tanh".to_owned())?;
    // Another library's class is not loaded there.
    let class = activation.strip_prefix("torch.").or((activation == "Tanh").then_some("Tanh"));
    let activation = match class.and_then(|class| class.rsplit('.').next()).unwrap_or_default() {
        "Identity" => HeadActivation::Identity,
        "Tanh" => HeadActivation::Tanh,
        "ReLU" => HeadActivation::Of(Activation::Relu),
        "GELU" => HeadActivation::Of(Activation::Gelu),
        "SiLU" => HeadActivation::Of(Activation::Silu),
        _ => {
            let supported = "PyTorch's Identity, Tanh, ReLU, GELU, SiLU";
            return Err(fields.unsupported("activation_function", &format!("\"{activation}\""), supported));
        }
    };
    for (key, usual) in [("module_input_name", "sentence_embedding"), ("module_output_name", "sentence_embedding")] {
        let value: String = fields.or(key, usual.to_owned())?;
        if value != usual {
            return Err(fields.unsupported(key, &format!("\"{value}\""), usual));
        }
    }
    let adds_input = fields.or("use_residual", false)?;
    if !with_weights {
        let residual = if adds_input { Residual::Input } else { Residual::None };
        return Ok(DenseModule { in_features, out_features, weight: vec![], bias: None, activation, residual });
    }
    let weights = files.weights_in(folder)?;
    let bias = fields.or("bias", true)?.then(|| weights.read("linear.bias", &[out_features])).transpose()?;
    let weight = weights.read("linear.weight", &[out_features, in_features])?;
    let residual = match adds_input {
        false => Residual::None,
        true if in_features == out_features => Residual::Input,
        true => Residual::Projected(weights.read("residual.weight", &[out_features, in_features])?),
    };
    let is_read = [true, bias.is_some(), matches!(residual, Residual::Projected(_))];
    let read = ["linear.weight", "linear.bias", "residual.weight"].into_iter().zip(is_read);
    check_all_read(&weights, &read.filter(|(_, is_read)| *is_read).map(|(name, _)| name).collect::<Vec<_>>())?;
    Ok(DenseModule { in_features, out_features, weight, bias, activation, residual })
}
