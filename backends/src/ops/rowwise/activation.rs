//! Activations of feed-forward blocks. Without a gate and LoRA adapters they are the epilogue of the first linear layer instead.

use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut, with_element};
use candle_core::{Result, Tensor};
use prefold_kernels::Activation;

/// `out = activation(gate) * up`; `gate_up` is `[rows, 2 * intermediate]`, the gate first.
pub(crate) fn activate_mul(
    activation: Activation,
    gate_up: &Tensor,
    out: &Tensor,
    yields: &mut Yields<'_>,
) -> Result<()> {
    yields.run_rows("activate-mul", [out, gate_up], |[out, gate_up]| {
        out.inplace_op2(gate_up, &InPlace(ActivateMul(activation)))
    })
}

/// `out = activation(x)`; `x` has the type of projections and `out` the type of activations.
pub(crate) fn activate(activation: Activation, x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("activate", [out, x], |[out, x]| out.inplace_op2(x, &InPlace(Activate(activation))))
}

struct Activate(Activation);

impl Operation<1> for Activate {
    const NAME: &'static str = "activate";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let x = slice::<f32>(x)?;
        with_element!(out.0, T => self.0.run(x, slice_mut::<T>(out)?).map_err(kernel_error))
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let (cuda, (_, width)) = (cuda::of(x.0)?, dims(out.1)?);
        let activate = prefold_kernels::cuda::Activate { activation: self.0, width, bias: None };
        with_cuda_element!(x.0, T => {
            let out = &mut view_mut::<T>(out)?;
            activate.run(&cuda.kernels, &view::<T>(x)?, out).map_err(cuda_error)
        })
    }
}

struct ActivateMul(Activation);

impl Operation<1> for ActivateMul {
    const NAME: &'static str = "activate-mul";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let gate_up = slice::<f32>(x)?;
        let (_, intermediate) = dims(out.1)?;
        with_element!(out.0, T => {
            let out = slice_mut::<T>(out)?;
            prefold_kernels::activate_mul(self.0, gate_up, intermediate, out).map_err(kernel_error)
        })
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x.0)?;
        let (_, intermediate) = dims(out.1)?;
        with_cuda_element!(x.0, T => {
            let gate_up = view::<T>(x)?;
            let out = &mut view_mut::<T>(out)?;
            cuda.kernels.activate_mul(self.0, &gate_up, intermediate, out).map_err(cuda_error)
        })
    }
}
