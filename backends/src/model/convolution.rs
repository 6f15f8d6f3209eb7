//! Layers with a gated short convolution instead of attention (LFM2, [arXiv 2511.23404](https://arxiv.org/abs/2511.23404)).

use super::adapted::Projection;
use super::buffers::Name;
use super::layout::OutputRows;
use super::loader::{Loader, Norms};
use super::pass::{Pass, blocks};
use crate::config::tensors::slices;
use crate::config::{ConvolutionConfig, TransformerConfig};
use crate::error::LoadError;
use crate::ops::{self, ShortConvolution, Store};
use candle_core::{Result, Tensor};

/// A convolution block with its norms.
#[derive(Debug)]
pub(super) struct ConvolutionBlock {
    pub(super) norms: Norms,
    /// The gate before the convolution, the gate after it and its input, in one matrix.
    pub(super) input: Projection,
    convolution: ShortConvolution,
    pub(super) output: Projection,
}

impl ConvolutionBlock {
    /// The block of the loader's layer.
    ///
    /// # Errors
    /// A tensor is missing or malformed.
    pub(super) fn load(loader: &Loader<'_>, config: ConvolutionConfig) -> std::result::Result<Self, LoadError> {
        let TransformerConfig { names, hidden_size: width, attention, .. } = loader.config;
        let read = |suffix: &str, shape: &[usize]| {
            loader.weights.read::<f32>(&format!("{}{}.{suffix}", loader.prefix, names.convolution), shape)
        };
        // Stored by channel.
        let stored = read("weight", &[*width, 1, config.kernel])?;
        let weight = (0..config.kernel).flat_map(|tap| stored[tap..].iter().step_by(config.kernel).copied()).collect();
        let projection =
            |name: &str, rows: usize| loader.projection(&slices(&loader.prefix, &[(name, rows)]), *width, config.bias);
        Ok(Self {
            norms: loader.norms(names.attention_norm, names.attention_output_norm)?,
            input: projection(names.convolution_input, 3 * width)?,
            convolution: ShortConvolution {
                weight,
                bias: config.bias.then(|| read("bias", &[*width])).transpose()?,
                width: *width,
                own: config.own(attention.mask),
            },
            output: projection(names.convolution_output, *width)?,
        })
    }
}

impl Pass<'_, '_> {
    /// `residual += O(convolution(I(x)))`, with x the block's input; only of the output rows if there are some.
    pub(super) fn convolve(
        &mut self,
        block: &ConvolutionBlock,
        residual: Tensor,
        outputs: Option<&OutputRows>,
    ) -> Result<Tensor> {
        let gated = self.gated(block, &residual)?;
        let (taps, rows, residual) = match outputs {
            None => (&self.layout.taps, self.layout.rows(), residual),
            Some(outputs) => {
                let selected = self.space.buffers.rows(Name::OutputResidual, outputs.index.dims1()?)?;
                ops::gather_rows(&residual, &outputs.index, &selected, self.space.yields)?;
                (&outputs.taps, outputs.rows(), selected)
            }
        };
        let Some(taps) = taps else { candle_core::bail!("the layout has no neighbours for a convolution") };
        let convolved = self.space.buffers.rows(Name::Convolved, taps.dim(0)?)?;
        block.convolution.forward(&gated, taps, &convolved, self.space.yields)?;
        self.add(&block.norms, &block.output, (&convolved, rows), &residual)?;
        Ok(residual)
    }

    /// The gates and the input of the convolution for all rows, `[rows, 3 * hidden]`.
    fn gated(&mut self, block: &ConvolutionBlock, residual: &Tensor) -> Result<Tensor> {
        let gated = self.space.buffers.rows(Name::Gated, residual.dim(0)?)?;
        let rows = self.row_blocks(residual, self.layout.rows())?;
        for ((rows, residual), gated) in rows.zip(blocks(&gated, self.row_block)?) {
            let x = self.input(block.norms.input.as_ref(), &residual?)?;
            block.input.forward((&x, rows), &gated?, Store::Overwrite, &mut self.space)?;
        }
        Ok(gated)
    }
}
