//! The activation of an MLP; that of a plain one is the epilogue of its first product, unless something is added between the two.

use super::storage::{dims, kernel_error, slice, slice_mut, with_element};
use super::yields::Yields;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};
use prefold_kernels::Activation;

/// `out = activation(gate) * up`; `gate_up` is `[rows, 2 * intermediate]`, the gate first.
pub(crate) fn activate_mul(
    activation: Activation,
    gate_up: &Tensor,
    out: &Tensor,
    yields: &mut Yields<'_>,
) -> Result<()> {
    yields.run_rows("activate-mul", [out, gate_up], |[out, gate_up]| out.inplace_op2(gate_up, &ActivateMul(activation)))
}

/// `out = activation(x)`; `x` is of the projections' type and `out` of the activations'.
pub(crate) fn activate(activation: Activation, x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("activate", [out, x], |[out, x]| out.inplace_op2(x, &Activate(activation)))
}

struct Activate(Activation);

impl InplaceOp2 for Activate {
    fn name(&self) -> &'static str {
        "activate"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let x = slice::<f32>(x, x_layout)?;
        with_element!(out, T => self.0.run(x, slice_mut::<T>(out, out_layout)?).map_err(kernel_error))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let (cuda, (_, width)) = (cuda::of(x)?, dims(out_layout)?);
        let activate = prefold_kernels::cuda::Activate { activation: self.0, width, bias: None };
        with_cuda_element!(x, T => {
            let out = &mut view_mut::<T>(out, out_layout)?;
            activate.run(&cuda.kernels, &view::<T>(x, x_layout)?, out).map_err(cuda_error)
        })
    }
}

struct ActivateMul(Activation);

impl InplaceOp2 for ActivateMul {
    fn name(&self) -> &'static str {
        "activate-mul"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let gate_up = slice::<f32>(x, x_layout)?;
        let (_, intermediate) = dims(out_layout)?;
        with_element!(out, T => {
            let out = slice_mut::<T>(out, out_layout)?;
            prefold_kernels::activate_mul(self.0, gate_up, intermediate, out).map_err(kernel_error)
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x)?;
        let (_, intermediate) = dims(out_layout)?;
        with_cuda_element!(x, T => {
            let gate_up = view::<T>(x, x_layout)?;
            let out = &mut view_mut::<T>(out, out_layout)?;
            cuda.kernels.activate_mul(self.0, &gate_up, intermediate, out).map_err(cuda_error)
        })
    }
}
