//! Rows by index.

use super::storage::{dims, kernel_error, slice, slice_mut, with_element};
use super::yields::Yields;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, InplaceOp2, InplaceOp3, Layout, Result, Tensor};
use prefold_kernels::Store;

/// `out[i] = x[index[i]]`; `x` and `out` have one type, `index` is `u32`.
pub(crate) fn gather_rows(x: &Tensor, index: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("gather-rows", [out, index], |[out, index]| out.inplace_op3(x, index, &GatherRows))
}

/// `out[i] = table[ids[i]]` as `f32`, whatever the table's type, or adds it.
pub(crate) fn embed(table: &Tensor, ids: &Tensor, out: &Tensor, store: Store, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("embed", [out, ids], |[out, ids]| out.inplace_op3(table, ids, &Embed(store)))
}

/// `out = x`, rounded to the type of `out`; `x` is `f32`.
pub(crate) fn convert(x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("convert", [out, x], |[out, x]| out.inplace_op2(x, &Convert))
}

/// `x *= factor`; `x` is `f32`.
pub(crate) fn scale(x: &Tensor, factor: f32, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("scale", [x], |[x]| x.inplace_op1(&Scale(factor)))
}

struct Scale(f32);

impl InplaceOp1 for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (_, width) = dims(layout)?;
        prefold_kernels::scale_rows(slice_mut::<f32>(x, layout)?, width, self.0).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, x: &mut CudaStorage, layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view_mut};
        let (cuda, (_, width)) = (cuda::of(x)?, dims(layout)?);
        cuda.kernels.scale_rows(&mut view_mut::<f32>(x, layout)?, width, self.0).map_err(cuda_error)
    }
}

struct Convert;

impl InplaceOp2 for Convert {
    fn name(&self) -> &'static str {
        "convert"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let x = slice::<f32>(x, x_layout)?;
        with_element!(out, T => prefold_kernels::convert(x, slice_mut::<T>(out, out_layout)?).map_err(kernel_error))
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x)?;
        let (_, width) = dims(x_layout)?;
        let x = view::<f32>(x, x_layout)?;
        with_cuda_element!(out, T => {
            cuda.kernels.convert(&x, width, &mut view_mut::<T>(out, out_layout)?).map_err(cuda_error)
        })
    }
}

struct GatherRows;

impl InplaceOp3 for GatherRows {
    fn name(&self) -> &'static str {
        "gather-rows"
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
        let index = slice::<u32>(index, index_layout)?;
        with_element!(x, T => {
            let x = slice::<T>(x, x_layout)?;
            let out = slice_mut::<T>(out, out_layout)?;
            prefold_kernels::gather_rows(x, width, index, out).map_err(kernel_error)
        })
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
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x)?;
        let (_, width) = dims(x_layout)?;
        let index = view::<u32>(index, index_layout)?;
        with_cuda_element!(x, T => {
            let out = &mut view_mut::<T>(out, out_layout)?;
            cuda.kernels.gather_rows(&view::<T>(x, x_layout)?, width, &index, out).map_err(cuda_error)
        })
    }
}

struct Embed(Store);

impl InplaceOp3 for Embed {
    fn name(&self) -> &'static str {
        "embed"
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        out_layout: &Layout,
        table: &CpuStorage,
        table_layout: &Layout,
        ids: &CpuStorage,
        ids_layout: &Layout,
    ) -> Result<()> {
        let (_, width) = dims(table_layout)?;
        let ids = slice::<u32>(ids, ids_layout)?;
        let out = slice_mut::<f32>(out, out_layout)?;
        with_element!(table, T => {
            prefold_kernels::embed_rows(slice::<T>(table, table_layout)?, width, ids, self.0, out).map_err(kernel_error)
        })
    }

    // The ids cannot be seen from here: one that is out of range makes a row of NaN, which is reported as such.
    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        out: &mut CudaStorage,
        out_layout: &Layout,
        table: &CudaStorage,
        table_layout: &Layout,
        ids: &CudaStorage,
        ids_layout: &Layout,
    ) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(table)?;
        let (_, width) = dims(table_layout)?;
        let ids = view::<u32>(ids, ids_layout)?;
        let out = &mut view_mut::<f32>(out, out_layout)?;
        with_cuda_element!(table, T => {
            cuda.kernels.embed(&view::<T>(table, table_layout)?, width, &ids, self.0, out).map_err(cuda_error)
        })
    }
}
