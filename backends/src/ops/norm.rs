//! RMSNorm, from the residual stream to a GEMM's input.

use super::profile::timed;
use super::storage::{kernel_error, slice, slice_mut, with_element};
use super::weights::Vector;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};

/// `out = x / sqrt(mean(x^2) + eps) * weight`, row by row.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    weight: Vector,
    eps: f32,
}

impl RmsNorm {
    pub(crate) fn new(weight: Vector, eps: f32) -> Self {
        Self { weight, eps }
    }

    /// `x` is `f32`; `out` has its shape and may be an activation type.
    pub(crate) fn forward(&self, x: &Tensor, out: &Tensor) -> Result<()> {
        timed("rms-norm", || out.inplace_op2(x, self))
    }
}

impl InplaceOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let x = slice::<f32>(x, x_layout)?;
        with_element!(out, T => {
            let out = slice_mut::<T>(out, out_layout)?;
            prefold_kernels::rms_norm(x, &self.weight.host, self.eps, out).map_err(kernel_error)
        })
    }

    // The products before a norm add themselves to the residual stream (beta = 1), so nothing is left to be added here.
    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x)?;
        let x = view::<f32>(x, x_layout)?;
        with_cuda_element!(out, T => {
            let weight = self.weight.device()?.as_view();
            let norm = prefold_kernels::cuda::AddRmsNorm::<T> { delta: None, weight, eps: self.eps };
            norm.run_shared(&cuda.kernels, &x, &mut view_mut::<T>(out, out_layout)?).map_err(cuda_error)
        })
    }
}
