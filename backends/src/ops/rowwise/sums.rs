//! Sums of rows by index, for the outputs of experts.

use crate::ops::memory::weights::Vector;
use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::host::words_on_host;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut};
use candle_core::{Result, Tensor};

/// `out[i] = row` for all rows of `out`, which is `f32`.
pub(crate) fn fill_rows(out: &Tensor, row: &Vector, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("fill-rows", [out], |[out]| out.inplace_op1(&InPlace(FillRows(row))))
}

/// `out += x`; both are `f32`.
pub(crate) fn add(x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("add", [out, x], |[out, x]| out.inplace_op2(x, &InPlace(Add)))
}

/// `out[index[i]] += factors[i] * x[i]`; `x` and `out` are `f32`, `index` is `u32` without duplicates, and `factors` are the bits of
/// `f32` values as `u32`.
pub(crate) fn scatter_add(
    x: &Tensor,
    index: &Tensor,
    factors: &Tensor,
    out: &Tensor,
    yields: &mut Yields<'_>,
) -> Result<()> {
    yields.run_rows("scatter-add", [x, index, factors], |[x, index, factors]| {
        out.inplace_op3(x, index, &InPlace(ScatterAdd(factors)))
    })
}

struct FillRows<'a>(&'a Vector);

impl Operation<0> for FillRows<'_> {
    const NAME: &'static str = "fill-rows";

    fn on_cpu(&self, out: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        prefold_kernels::fill_rows(&self.0.host, slice_mut::<f32>(out)?).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view_mut};
        let cuda = cuda::of(out.0)?;
        let row = self.0.device()?.as_view();
        cuda.kernels.bias_rows(&row, false, &mut view_mut::<f32>(out)?).map_err(cuda_error)
    }
}

struct Add;

impl Operation<1> for Add {
    const NAME: &'static str = "add";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let (_, width) = dims(x.1)?;
        let (x, out) = (slice::<f32>(x)?, slice_mut::<f32>(out)?);
        prefold_kernels::add_rows(x, width, out).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut};
        let (cuda, (_, width)) = (cuda::of(x.0)?, dims(x.1)?);
        let (x, out) = (view::<f32>(x)?, &mut view_mut::<f32>(out)?);
        cuda.kernels.add_rows(&x, width, out).map_err(cuda_error)
    }
}

struct ScatterAdd<'a>(&'a Tensor);

impl Operation<2> for ScatterAdd<'_> {
    const NAME: &'static str = "scatter-add";

    fn on_cpu(&self, out: CpuOutput<'_>, [x, index]: [CpuTensor<'_>; 2]) -> Result<()> {
        let (_, width) = dims(x.1)?;
        let (x, index) = (slice::<f32>(x)?, slice::<u32>(index)?);
        let out = slice_mut::<f32>(out)?;
        let factors: Vec<f32> = words_on_host(self.0, |bits| bits.iter().map(|&bits| f32::from_bits(bits)).collect())?;
        prefold_kernels::scatter_add_rows(x, width, index, &factors, out).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x, index]: [CudaTensor<'_>; 2]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_view};
        let (cuda, (_, width)) = (cuda::of(x.0)?, dims(x.1)?);
        let (x, out) = (view::<f32>(x)?, &mut view_mut::<f32>(out)?);
        let index = view::<u32>(index)?;
        with_view::<u32, _>(self.0, |factors| {
            let to = prefold_kernels::cuda::RowFactors { index, factors };
            cuda.kernels.scatter_add_rows(&x, width, &to, out).map_err(cuda_error)
        })
    }
}
