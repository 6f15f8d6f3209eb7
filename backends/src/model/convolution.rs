//! Layers with a gated short convolution instead of attention (LFM2, [arXiv 2511.23404](https://arxiv.org/abs/2511.23404)).

use super::adapted::{Projection, Rows};
use super::buffers::{Name, Workspace};
use super::loader::{Loader, Norms};
use crate::config::tensors::slices;
use crate::config::{ConvolutionConfig, TransformerConfig};
use crate::error::LoadError;
use crate::ops::{ShortConvolution, Store};
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

    /// The gates and the input of the convolution for rows of the residual stream, `[rows, 3 * hidden]`.
    pub(super) fn gated(
        &self,
        (residual, rows): (&Tensor, Rows<'_>),
        row_block: usize,
        space: &mut Workspace<'_, '_>,
    ) -> Result<Tensor> {
        let Some(norm) = &self.norms.input else { candle_core::bail!("a convolution without a norm of its input") };
        let count = residual.dim(0)?;
        let gated = space.buffers.rows(Name::Gated, count)?;
        for start in (0..count).step_by(row_block) {
            let len = row_block.min(count - start);
            let x = space.buffers.rows(Name::Normed, len)?;
            norm.forward(&residual.narrow(0, start, len)?, &x, space.yields)?;
            let gated = gated.narrow(0, start, len)?;
            self.input.forward((&x, rows.from(start)), &gated, Store::Overwrite, space)?;
        }
        Ok(gated)
    }

    /// The convolution of rows with these neighbours; `gated` has the gates and the input of all rows.
    pub(super) fn convolve(
        &self,
        gated: &Tensor,
        taps: Option<&Tensor>,
        space: &mut Workspace<'_, '_>,
    ) -> Result<Tensor> {
        let Some(taps) = taps else { candle_core::bail!("the layout has no neighbours for a convolution") };
        let convolved = space.buffers.rows(Name::Convolved, taps.dim(0)?)?;
        self.convolution.forward(gated, taps, &convolved, space.yields)?;
        Ok(convolved)
    }
}
