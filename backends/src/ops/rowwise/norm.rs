//! Norms of the residual stream, and of q and k over all heads.

use crate::ops::memory::weights::Vector;
use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut, with_element};
use candle_core::{Result, Tensor};
use prefold_kernels::LayerNorm;

/// A norm of rows.
#[derive(Debug)]
pub(crate) struct Norm {
    weight: Vector,
    kind: Kind,
    eps: f32,
}

#[derive(Debug)]
enum Kind {
    /// `out = x / sqrt(mean(x^2) + eps) * weight`
    Rms,
    /// `out = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias`
    Layer { bias: Vector },
}

impl Norm {
    /// RMSNorm over as many values as the weight has.
    pub(crate) fn rms(weight: Vector, eps: f32) -> Self {
        Self { weight, kind: Kind::Rms, eps }
    }

    /// LayerNorm over as many values as weight and bias have.
    pub(crate) fn layer(weight: Vector, bias: Vector, eps: f32) -> Self {
        Self { weight, kind: Kind::Layer { bias }, eps }
    }

    /// Writes the norm of `x` to `out`. `x` is `f32`; `out` has its shape and may have an activation type.
    pub(crate) fn forward(&self, x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
        yields.run_rows("norm", [out, x], |[out, x]| out.inplace_op2(x, &InPlace(self)))
    }

    /// Normalises `x` in place; only for a LayerNorm.
    pub(crate) fn forward_in_place(&self, x: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
        yields.run_rows("norm", [x], |[x]| x.inplace_op1(&InPlace(self)))
    }

    /// Normalises some columns in place, from `offset` on; only for a LayerNorm. `x` has the type of projections.
    pub(crate) fn forward_columns(&self, x: &Tensor, offset: usize, yields: &mut Yields<'_>) -> Result<()> {
        yields.run_rows("norm", [x], |[x]| x.inplace_op1(&InPlace(NormColumns(self, offset))))
    }

    /// Adds the norm of `x` to `out`; only for an RMSNorm. Both are `f32`.
    pub(crate) fn forward_add(&self, x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
        yields.run_rows("norm", [out, x], |[out, x]| out.inplace_op2(x, &InPlace(AddNorm(self))))
    }

    fn as_layer_norm<'a>(&'a self, bias: &'a Vector) -> LayerNorm<'a> {
        LayerNorm { weight: &self.weight.host, bias: &bias.host, eps: self.eps }
    }

    #[cfg(feature = "cuda")]
    fn on_device<'a>(&'a self, bias: &'a Vector) -> Result<prefold_kernels::cuda::LayerNorm<'a>> {
        let (weight, bias) = (self.weight.device()?.as_view(), bias.device()?.as_view());
        Ok(prefold_kernels::cuda::LayerNorm { weight, bias, eps: self.eps })
    }

    /// The bias of a norm that runs in place.
    fn in_place(&self) -> Result<&Vector> {
        match &self.kind {
            Kind::Layer { bias } => Ok(bias),
            Kind::Rms => candle_core::bail!("norm: only a LayerNorm is in place"),
        }
    }
}

impl Operation<0> for &Norm {
    const NAME: &'static str = "norm";

    fn on_cpu(&self, x: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        self.as_layer_norm(self.in_place()?).run_in_place(slice_mut::<f32>(x)?).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, x: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view_mut};
        let cuda = cuda::of(x.0)?;
        let norm = self.on_device(self.in_place()?)?;
        norm.run_in_place(&cuda.kernels, &mut view_mut::<f32>(x)?).map_err(cuda_error)
    }
}

impl Operation<1> for &Norm {
    const NAME: &'static str = "norm";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let x = slice::<f32>(x)?;
        with_element!(out.0, T => {
            let out = slice_mut::<T>(out)?;
            match &self.kind {
                Kind::Rms => prefold_kernels::rms_norm(x, &self.weight.host, self.eps, out),
                Kind::Layer { bias } => self.as_layer_norm(bias).run(x, out),
            }
            .map_err(kernel_error)
        })
    }

    // Products before a norm are added to the residual stream by cuBLAS (beta = 1), so nothing is added here.
    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x.0)?;
        let x = view::<f32>(x)?;
        with_cuda_element!(out.0, T => {
            let out = &mut view_mut::<T>(out)?;
            match &self.kind {
                Kind::Rms => {
                    let weight = self.weight.device()?.as_view();
                    let norm = prefold_kernels::cuda::AddRmsNorm::<T> { delta: None, weight, eps: self.eps };
                    norm.run_shared(&cuda.kernels, &x, out)
                }
                Kind::Layer { bias } => self.on_device(bias)?.run(&cuda.kernels, &x, out),
            }
            .map_err(cuda_error)
        })
    }
}

struct NormColumns<'a>(&'a Norm, usize);

impl Operation<0> for NormColumns<'_> {
    const NAME: &'static str = "norm-columns";

    fn on_cpu(&self, x: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        let (_, stride) = dims(x.1)?;
        let norm = self.0.as_layer_norm(self.0.in_place()?);
        norm.run_columns(slice_mut::<f32>(x)?, stride, self.1).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, x: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view_mut, with_cuda_element};
        let (cuda, (_, stride)) = (cuda::of(x.0)?, dims(x.1)?);
        let norm = self.0.on_device(self.0.in_place()?)?;
        with_cuda_element!(x.0, T => {
            norm.run_columns(&cuda.kernels, &mut view_mut::<T>(x)?, stride, self.1).map_err(cuda_error)
        })
    }
}

struct AddNorm<'a>(&'a Norm);

impl Operation<1> for AddNorm<'_> {
    const NAME: &'static str = "add-norm";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let Self(Norm { weight, kind: Kind::Rms, eps }) = self else {
            candle_core::bail!("norm: only an RMSNorm is added")
        };
        let (x, out) = (slice::<f32>(x)?, slice_mut::<f32>(out)?);
        prefold_kernels::rms_norm_add(x, &weight.host, *eps, out).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut};
        let Self(Norm { weight, kind: Kind::Rms, eps }) = self else {
            candle_core::bail!("norm: only an RMSNorm is added")
        };
        let cuda = cuda::of(x.0)?;
        let (x, out) = (view::<f32>(x)?, &mut view_mut::<f32>(out)?);
        cuda.kernels.rms_norm_add(&x, &weight.device()?.as_view(), *eps, out).map_err(cuda_error)
    }
}
