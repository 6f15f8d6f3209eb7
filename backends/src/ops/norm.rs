//! RMSNorm, from the residual stream to a GEMM's input.

use super::storage::{slice, slice_mut, with_element};
use super::{kernel_error, timed};
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};

/// `out = x / sqrt(mean(x^2) + eps) * weight`, row by row.
#[derive(Debug)]
pub(crate) struct RmsNorm {
    weight: Vec<f32>,
    eps: f32,
}

impl RmsNorm {
    pub(crate) fn new(weight: Vec<f32>, eps: f32) -> Self {
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
            prefold_kernels::rms_norm(x, &self.weight, self.eps, out).map_err(kernel_error)
        })
    }
}
