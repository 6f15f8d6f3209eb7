//! Loading of tensors by the names of a layer.

use crate::config::tensors::{MatrixSlice, slices};
use crate::config::{NormKind, NormPlacement, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{Linear, Norm, Rotary, ScoreBias, Table, Target, Vector};
use candle_core::Tensor;
use prefold_kernels::Dtype;
use std::sync::Arc;

type Result<T> = std::result::Result<T, LoadError>;

/// Norms of a block.
#[derive(Debug)]
pub(super) struct Norms {
    /// Norm of the block's input.
    pub(super) input: Option<Norm>,
    /// Norm of the block's output, before it is added to the input.
    pub(super) output: Option<Norm>,
    /// Norm of the sum of input and output that is added to the input instead of the output.
    pub(super) inner_sum: Option<Norm>,
    /// Norm of the sum of input and output.
    pub(super) sum: Option<Norm>,
}

impl Norms {
    pub(super) const NONE: Self = Self { input: None, output: None, inner_sum: None, sum: None };
}

/// Loads the tensors of one layer, or the tensors outside the layers.
pub(super) struct Loader<'a> {
    pub(super) config: &'a TransformerConfig,
    pub(super) weights: &'a Weights,
    pub(super) target: &'a Target,
    pub(super) bias: Option<&'a Arc<ScoreBias>>,
    pub(super) rotary: Option<&'a Arc<Rotary>>,
    /// Prefix of every name.
    pub(super) prefix: String,
    pub(super) index: usize,
}

impl Loader<'_> {
    /// A vector of `len` values, by its complete name behind the layer's prefix.
    ///
    /// # Errors
    /// The tensor is missing or malformed.
    pub(super) fn vector(&self, name: &str, len: usize) -> Result<Vector> {
        Vector::new(self.weights.read(&format!("{}{name}", self.prefix), &[len])?, self.target)
    }

    /// The weight of a norm.
    pub(super) fn norm_weight(&self, name: &str, width: usize) -> Result<Vector> {
        let mut weight: Vec<f32> = self.weights.read(&format!("{}{name}.weight", self.prefix), &[width])?;
        if self.config.norm.kind == NormKind::RmsNormPlusOne {
            weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Vector::new(weight, self.target)
    }

    /// A norm over `width` values, of the model's kind.
    ///
    /// # Errors
    /// A tensor is missing or malformed.
    pub(super) fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let (weight, eps) = (self.norm_weight(name, width)?, self.config.norm.eps);
        Ok(match self.config.norm.kind {
            NormKind::RmsNorm | NormKind::RmsNormPlusOne => Norm::rms(weight, eps),
            NormKind::LayerNorm => Norm::layer(weight, self.vector(&format!("{name}.bias"), width)?, eps),
            NormKind::LayerNormNoBias => Norm::layer(weight, Vector::new(vec![0.0; width], self.target)?, eps),
        })
    }

    /// The norms of a block. `name` is the norm of its input or of the sum, `output` the norm of its output or of an inner sum.
    pub(super) fn norms(&self, name: &str, output: &str) -> Result<Norms> {
        let norm = |name: &str| self.norm(name, self.config.hidden_size).map(Some);
        Ok(match self.config.norm.placement {
            NormPlacement::Pre => Norms { input: norm(name)?, ..Norms::NONE },
            NormPlacement::Post if output.is_empty() => Norms { sum: norm(name)?, ..Norms::NONE },
            NormPlacement::Post => Norms { inner_sum: norm(output)?, sum: norm(name)?, ..Norms::NONE },
            NormPlacement::PrePost => Norms { input: norm(name)?, output: norm(output)?, ..Norms::NONE },
        })
    }

    /// A linear layer of stacked matrices, each with its name and its rows, `[rows, in_features]`.
    ///
    /// # Errors
    /// A tensor is missing or malformed.
    pub(super) fn linear(&self, names: &[(&str, usize)], in_features: usize, bias: bool) -> Result<Linear> {
        self.linear_of(&slices(&self.prefix, names), in_features, bias)
    }

    /// [`linear`](Self::linear) of parts of matrices.
    ///
    /// # Errors
    /// As for `linear`.
    pub(super) fn linear_of(&self, parts: &[MatrixSlice], in_features: usize, bias: bool) -> Result<Linear> {
        load_linear(self.weights, self.target, parts, in_features, bias)
    }

    /// The gate and up projections as one matrix, for [`Linear::forward_gated`].
    pub(super) fn gated_linear(&self, parts: &[MatrixSlice], in_features: usize, bias: bool) -> Result<Linear> {
        load_matrices(self.weights, self.target, parts, (in_features, true), bias)
    }

    /// A table of embeddings, `[rows, embedding size]`, quantized if the target is int8.
    ///
    /// # Errors
    /// The tensor is missing or malformed.
    pub(super) fn table(&self, name: &str, rows: usize) -> Result<Table> {
        let shape = [rows, self.config.embeddings.size];
        let name = format!("{}{name}.weight", self.prefix);
        if self.target.dtype() == Dtype::Int8 {
            // Before memory is allocated, so that the files bound the sizes in the config.
            self.weights.check(&name, &shape)?;
            return Table::quantize(shape, |rows| self.weights.f32_rows(&name, shape, rows));
        }
        let table = self.weights.matrix(self.target.dtype(), &name, shape)?;
        Ok(Table::Plain(self.target.upload(&table)?))
    }
}

/// The rows of a file's matrix in the order of the layer.
fn in_order(part: &MatrixSlice, matrix: Tensor) -> Result<Vec<Tensor>> {
    let half = part.rows / 2;
    Ok(if part.swapped {
        vec![matrix.narrow(0, half, part.rows - half)?, matrix.narrow(0, 0, half)?]
    } else {
        vec![matrix]
    })
}

/// Packs `[rows, in_features]` matrices one below the other, with their biases if `bias` is true.
pub(super) fn load_linear(
    weights: &Weights,
    target: &Target,
    parts: &[MatrixSlice],
    in_features: usize,
    bias: bool,
) -> Result<Linear> {
    load_matrices(weights, target, parts, (in_features, false), bias)
}

fn load_matrices(
    weights: &Weights,
    target: &Target,
    parts: &[MatrixSlice],
    (in_features, is_gated): (usize, bool),
    bias: bool,
) -> Result<Linear> {
    // Before memory is allocated, so that the files bound the sizes in the config.
    for part in parts {
        weights.check(&format!("{}.weight", part.name), &[part.rows, in_features])?;
    }
    let rows = parts.iter().map(|part| part.rows).sum();
    let dtype = target.dtype_of(parts.iter().map(|part| part.name.as_str()));
    let matrices = parts.iter().flat_map(|part| {
        let matrix = weights.matrix(dtype, &format!("{}.weight", part.name), [part.rows, in_features]);
        match matrix.and_then(|matrix| in_order(part, matrix)) {
            Ok(matrices) => matrices.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }
    });
    let vector = |part: &MatrixSlice| {
        let mut vector: Vec<f32> = weights.read(&format!("{}.bias", part.name), &[part.rows])?;
        if part.swapped {
            vector.rotate_left(part.rows / 2);
        }
        Ok(vector)
    };
    let biases = bias.then(|| parts.iter().map(vector).collect::<Result<Vec<Vec<f32>>>>()).transpose()?;
    let name = parts.first().map_or("", |part| &part.name);
    Linear::load(target, (name, dtype), (rows, in_features), is_gated, matrices, biases.map(|biases| biases.concat()))
}
