//! Sums of rows by index: what experts put together.

use super::host::words_on_host;
use super::storage::{dims, kernel_error, slice, slice_mut};
use super::weights::Vector;
use super::yields::Yields;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, InplaceOp2, InplaceOp3, Layout, Result, Tensor};

/// `out[i] = row` for all rows of `out`, which is `f32`.
pub(crate) fn fill_rows(out: &Tensor, row: &Vector, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("fill-rows", [out], |[out]| out.inplace_op1(&FillRows(row)))
}

/// `out += x`; both are `f32`.
pub(crate) fn add(x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("add", [out, x], |[out, x]| out.inplace_op2(x, &Add))
}

/// `out[index[i]] += factors[i] * x[i]`; `x` and `out` are `f32`, `index` is `u32` and has no row twice, and `factors` are the bits of
/// `f32` values, as `u32`.
pub(crate) fn scatter_add(
    x: &Tensor,
    index: &Tensor,
    factors: &Tensor,
    out: &Tensor,
    yields: &mut Yields<'_>,
) -> Result<()> {
    yields.run_rows("scatter-add", [x, index, factors], |[x, index, factors]| {
        out.inplace_op3(x, index, &ScatterAdd(factors))
    })
}

struct FillRows<'a>(&'a Vector);

impl InplaceOp1 for FillRows<'_> {
    fn name(&self) -> &'static str {
        "fill-rows"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, layout: &Layout) -> Result<()> {
        prefold_kernels::fill_rows(&self.0.host, slice_mut::<f32>(out, layout)?).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view_mut};
        let cuda = cuda::of(out)?;
        let row = self.0.device()?.as_view();
        cuda.kernels.bias_rows(&row, false, &mut view_mut::<f32>(out, layout)?).map_err(cuda_error)
    }
}

struct Add;

impl InplaceOp2 for Add {
    fn name(&self) -> &'static str {
        "add"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let (_, width) = dims(x_layout)?;
        let (x, out) = (slice::<f32>(x, x_layout)?, slice_mut::<f32>(out, out_layout)?);
        prefold_kernels::add_rows(x, width, out).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut};
        let (cuda, (_, width)) = (cuda::of(x)?, dims(x_layout)?);
        let (x, out) = (view::<f32>(x, x_layout)?, &mut view_mut::<f32>(out, out_layout)?);
        cuda.kernels.add_rows(&x, width, out).map_err(cuda_error)
    }
}

struct ScatterAdd<'a>(&'a Tensor);

impl InplaceOp3 for ScatterAdd<'_> {
    fn name(&self) -> &'static str {
        "scatter-add"
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        out_layout: &Layout,
        x: &CpuStorage,
        x_layout: &Layout,
        index: &CpuStorage,
        index_layout: &Layout,
    ) -> Result<()> {
        let (_, width) = dims(x_layout)?;
        let (x, index) = (slice::<f32>(x, x_layout)?, slice::<u32>(index, index_layout)?);
        let out = slice_mut::<f32>(out, out_layout)?;
        let factors: Vec<f32> = words_on_host(self.0, |bits| bits.iter().map(|&bits| f32::from_bits(bits)).collect())?;
        prefold_kernels::scatter_add_rows(x, width, index, &factors, out).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        out: &mut CudaStorage,
        out_layout: &Layout,
        x: &CudaStorage,
        x_layout: &Layout,
        index: &CudaStorage,
        index_layout: &Layout,
    ) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_view};
        let (cuda, (_, width)) = (cuda::of(x)?, dims(x_layout)?);
        let (x, out) = (view::<f32>(x, x_layout)?, &mut view_mut::<f32>(out, out_layout)?);
        let index = view::<u32>(index, index_layout)?;
        with_view::<u32, _>(self.0, |factors| {
            let to = prefold_kernels::cuda::RowFactors { index, factors };
            cuda.kernels.scatter_add_rows(&x, width, &to, out).map_err(cuda_error)
        })
    }
}
