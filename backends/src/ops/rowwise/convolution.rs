//! Gated short convolutions.

use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{kernel_error, slice, slice_mut, with_element};
use candle_core::{Result, Tensor};

/// The weights of a layer's convolution, on the CPU.
#[derive(Debug)]
pub(crate) struct ShortConvolution {
    /// `[taps, width]`
    pub(crate) weight: Vec<f32>,
    /// `[width]`
    pub(crate) bias: Option<Vec<f32>>,
    pub(crate) width: usize,
    /// The tap that is the row itself.
    pub(crate) own: usize,
}

impl ShortConvolution {
    /// The index of a neighbour that does not exist.
    pub(crate) const NONE: u32 = prefold_kernels::ShortConvolution::NONE;

    /// The convolution of the rows of `out`, `[rows, width]`. `gated` is `[computed rows, 3 * width]`: the gate before it, the gate after
    /// it and the input; `taps` is `[rows, taps]`, `u32`: the computed row of each neighbour.
    pub(crate) fn forward(&self, gated: &Tensor, taps: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
        yields.run_rows("short-convolution", [out, taps], |[out, taps]| {
            out.inplace_op3(gated, taps, &InPlace(Convolve(self)))
        })
    }
}

struct Convolve<'a>(&'a ShortConvolution);

impl Operation<2> for Convolve<'_> {
    const NAME: &'static str = "short-convolution";

    fn on_cpu(&self, out: CpuOutput<'_>, [gated, taps]: [CpuTensor<'_>; 2]) -> Result<()> {
        let &ShortConvolution { ref weight, ref bias, width, own } = self.0;
        let op = prefold_kernels::ShortConvolution { weight, bias: bias.as_deref(), width, own };
        let (gated, taps) = (slice::<f32>(gated)?, slice::<u32>(taps)?);
        with_element!(out.0, T => op.run(gated, taps, slice_mut::<T>(out)?).map_err(kernel_error))
    }

    // Refused when the model is loaded.
    #[cfg(feature = "cuda")]
    fn on_cuda(&self, _: CudaOutput<'_>, _: [CudaTensor<'_>; 2]) -> Result<()> {
        candle_core::bail!("short convolutions run on the CPU only")
    }
}
