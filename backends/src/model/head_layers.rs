//! Layers of heads, from the states of tokens or of sequences to values, computed in `f32` on the host.

use super::loader::load_linear;
use crate::checkpoint::{LayerNormModule, Residual, VectorModule};
use crate::config::tensors::MatrixSlice;
use crate::config::{HeadActivation, HeadName, NormKind, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{self, Linear, Norm, Store, Target, Vector, Yields, block_rows};
use candle_core::{Device, Result, Tensor};
use prefold_kernels::{Dtype, PackedMatrix};

/// A layer.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a head has a few layers")]
pub(super) enum HeadLayer {
    Linear {
        linear: Linear,
        activation: HeadActivation,
        /// After the activation.
        norm: Option<Norm>,
        /// Added to the output.
        residual: Option<ResidualLayer>,
    },
    Norm(Norm),
    /// `bound * tanh(x / bound)`
    Softcap(f32),
    /// The whole number from -127 to 127 that is nearest to `127 tanh(x)`; of two, the even one.
    Int8,
}

/// The input of a layer, or its product with a matrix.
#[derive(Debug)]
pub(super) struct ResidualLayer(Option<Linear>);

/// Runs states through layers on the host, in blocks of rows; without layers they stay where they are.
pub(super) fn apply(layers: &[HeadLayer], states: &Tensor, yields: &mut Yields<'_>) -> Result<Tensor> {
    let (rows, width) = states.dims2()?;
    if layers.is_empty() || rows == 0 {
        return Ok(states.clone());
    }
    let widths = layers.iter().map(|layer| match layer {
        HeadLayer::Linear { linear, .. } => linear.out_features(),
        HeadLayer::Norm(_) | HeadLayer::Softcap(_) | HeadLayer::Int8 => 0,
    });
    let block = block_rows(widths.fold(width, usize::max));
    let starts = (0..rows).step_by(block);
    let blocks = starts.map(|start| apply_to_block(layers, &states.narrow(0, start, block.min(rows - start))?, yields));
    Tensor::cat(&blocks.collect::<Result<Vec<_>>>()?, 0)
}

fn apply_to_block(layers: &[HeadLayer], states: &Tensor, yields: &mut Yields<'_>) -> Result<Tensor> {
    yields.reach()?;
    let mut x = Tensor::from_vec(ops::on_host(states, <[f32]>::to_vec)?, states.dims2()?, &Device::Cpu)?;
    for layer in layers {
        x = match layer {
            HeadLayer::Linear { .. } => layer.linear(x, yields)?,
            HeadLayer::Norm(norm) => {
                norm.forward_in_place(&x, yields)?;
                x
            }
            HeadLayer::Softcap(bound) => ((x / f64::from(*bound))?.tanh()? * f64::from(*bound))?,
            HeadLayer::Int8 => whole_numbers(&x)?,
        };
    }
    Ok(x)
}

/// The output of [`HeadLayer::Int8`].
fn whole_numbers(x: &Tensor) -> Result<Tensor> {
    let values =
        ops::on_host(x, |values: &[f32]| values.iter().map(|x| (x.tanh() * 127.0).round_ties_even()).collect())?;
    Tensor::from_vec(values, x.dims2()?, &Device::Cpu)
}

/// The layers of a classifier.
///
/// # Errors
/// A tensor is missing or malformed.
pub(super) fn classifier_layers(
    config: &TransformerConfig,
    weights: &Weights,
    layers: &[HeadName],
    num_labels: usize,
) -> std::result::Result<Vec<HeadLayer>, LoadError> {
    let (width, target) = (config.output_size, Target::cpu(Dtype::Float32));
    let layer = |(index, layer): (usize, &HeadName)| {
        let rows = if index + 1 == layers.len() { num_labels } else { width };
        let parts = [MatrixSlice { name: layer.name.to_owned(), rows, swapped: false }];
        let linear = load_linear(weights, &target, &parts, width, config.classifier.has_bias(layer))?;
        let norm = |name: &str| {
            let weight = Vector::new(weights.read(&format!("{name}.weight"), &[rows])?, &target)?;
            let bias = match config.norm.kind {
                NormKind::LayerNorm => weights.read(&format!("{name}.bias"), &[rows])?,
                _ => vec![0.0; rows],
            };
            Ok::<_, LoadError>(Norm::layer(weight, Vector::new(bias, &target)?, config.norm.eps))
        };
        let norm = (!layer.norm.is_empty()).then(|| norm(layer.norm)).transpose()?;
        Ok(HeadLayer::Linear { linear, activation: config.classifier.activation_of(layer), norm, residual: None })
    };
    layers.iter().enumerate().map(layer).collect()
}

impl HeadLayer {
    /// The layer of a module after pooling.
    ///
    /// # Errors
    /// A matrix cannot be packed.
    pub(super) fn module(module: &VectorModule) -> std::result::Result<Self, LoadError> {
        let target = Target::cpu(Dtype::Float32);
        let vector = |values: &Vec<f32>| Vector::new(values.clone(), &target);
        let dense = match module {
            VectorModule::Dense(dense) => dense,
            VectorModule::LayerNorm(LayerNormModule { weight, bias, .. }) => {
                return Ok(Self::Norm(Norm::layer(vector(weight)?, vector(bias)?, LayerNormModule::EPS)));
            }
            VectorModule::Int8 { .. } => return Ok(Self::Int8),
        };
        let pack = |weight: &[f32]| PackedMatrix::pack(weight, dense.out_features, dense.in_features);
        let residual = match &dense.residual {
            Residual::None => None,
            Residual::Input => Some(ResidualLayer(None)),
            Residual::Projected(weight) => Some(ResidualLayer(Some(Linear::packed(pack(weight)?, None)))),
        };
        let linear = Linear::packed(pack(&dense.weight)?, dense.bias.clone());
        Ok(Self::Linear { linear, activation: dense.activation, norm: None, residual })
    }

    /// The output of a linear layer; a norm's input stays as it is.
    fn linear(&self, x: Tensor, yields: &mut Yields<'_>) -> Result<Tensor> {
        let Self::Linear { linear, activation, norm, residual } = self else { return Ok(x) };
        let output =
            |linear: &Linear| Tensor::zeros((x.dim(0)?, linear.out_features()), candle_core::DType::F32, x.device());
        let mut out = output(linear)?;
        match activation {
            HeadActivation::Of(activation) => linear.forward_activated(*activation, &x, &out, yields)?,
            HeadActivation::Identity | HeadActivation::Tanh => linear.forward(&x, &out, Store::Overwrite, yields)?,
        }
        if *activation == HeadActivation::Tanh {
            yields.reach()?;
            out = out.tanh()?;
        }
        if let Some(norm) = norm {
            norm.forward_in_place(&out, yields)?;
        }
        match residual {
            None => Ok(out),
            Some(ResidualLayer(None)) => out + x,
            Some(ResidualLayer(Some(projection))) => {
                let added = output(projection)?;
                projection.forward(&x, &added, Store::Overwrite, yields)?;
                out + added
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::DenseModule;
    use prefold_core::Uninterrupted;

    fn output(module: VectorModule, input: [f32; 2]) -> Vec<f32> {
        applied(HeadLayer::module(&module).unwrap(), input)
    }

    fn applied(layer: HeadLayer, input: [f32; 2]) -> Vec<f32> {
        let x = Tensor::from_vec(input.to_vec(), (1, 2), &Device::Cpu).unwrap();
        let y = apply(&[layer], &x, &mut Yields::new(&mut Uninterrupted)).unwrap();
        ops::on_host(&y, <[f32]>::to_vec).unwrap()
    }

    #[test]
    fn residuals_and_norms_of_modules() {
        let dense = |residual| {
            let weight = vec![1.0, 2.0, 3.0, 4.0];
            let activation = HeadActivation::Identity;
            VectorModule::Dense(DenseModule {
                in_features: 2,
                out_features: 2,
                weight,
                bias: None,
                activation,
                residual,
            })
        };
        assert_eq!(output(dense(Residual::None), [1.0, 10.0]), [21.0, 43.0]);
        assert_eq!(output(dense(Residual::Input), [1.0, 10.0]), [22.0, 53.0]);
        assert_eq!(output(dense(Residual::Projected(vec![1.0, 0.0, 0.0, -1.0])), [1.0, 10.0]), [22.0, 33.0]);
        let norm = LayerNormModule { width: 2, weight: vec![2.0, 1.0], bias: vec![0.5, 0.0] };
        let normed = output(VectorModule::LayerNorm(norm), [3.0, 7.0]);
        assert!((normed[0] + 1.5).abs() < 1e-4 && (normed[1] - 1.0).abs() < 1e-4, "{normed:?}");
    }

    #[test]
    fn bounds_and_whole_numbers() {
        let capped = applied(HeadLayer::Softcap(30.0), [1000.0, -15.0]);
        assert!((capped[0] - 30.0).abs() < 1e-4 && (capped[1] + 30.0 * 0.5_f32.tanh()).abs() < 1e-4, "{capped:?}");
        // 127 tanh(0.5) is 58.69, and 127 tanh(0.02) is 2.54.
        assert_eq!(output(VectorModule::Int8 { width: 2 }, [0.5, -0.02]), [59.0, -3.0]);
        assert_eq!(output(VectorModule::Int8 { width: 2 }, [9.0, -9.0]), [127.0, -127.0]);
        let between = |half: f32| {
            let near = (half / 127.0).atanh();
            (0..64).map(|i| f32::from_bits(near.to_bits() - 32 + i)).find(|x| x.tanh() * 127.0 == half).unwrap()
        };
        assert_eq!(output(VectorModule::Int8 { width: 2 }, [between(2.5), -between(3.5)]), [2.0, -4.0]);
    }
}
