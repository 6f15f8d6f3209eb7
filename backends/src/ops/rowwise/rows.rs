//! Rows by index.

use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut, with_element};
use candle_core::{Result, Tensor};
use prefold_kernels::Store;

/// `out[i] = x[index[i]]`; `x` and `out` have the same type, `index` is `u32`.
pub(crate) fn gather_rows(x: &Tensor, index: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("gather-rows", [out, index], |[out, index]| out.inplace_op3(x, index, &InPlace(GatherRows)))
}

/// `out[i] = table[ids[i]]` as `f32` for any type of table, or adds it.
pub(crate) fn embed(table: &Tensor, ids: &Tensor, out: &Tensor, store: Store, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("embed", [out, ids], |[out, ids]| out.inplace_op3(table, ids, &InPlace(Embed(store))))
}

/// `out = x`, rounded to the type of `out`; `x` is `f32`.
pub(crate) fn convert(x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("convert", [out, x], |[out, x]| out.inplace_op2(x, &InPlace(Convert)))
}

/// `x *= factor`; `x` is `f32`.
pub(crate) fn scale(x: &Tensor, factor: f32, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("scale", [x], |[x]| x.inplace_op1(&InPlace(Scale(factor))))
}

struct Scale(f32);

impl Operation<0> for Scale {
    const NAME: &'static str = "scale";

    fn on_cpu(&self, x: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        let (_, width) = dims(x.1)?;
        prefold_kernels::scale_rows(slice_mut::<f32>(x)?, width, self.0).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, x: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view_mut};
        let (cuda, (_, width)) = (cuda::of(x.0)?, dims(x.1)?);
        cuda.kernels.scale_rows(&mut view_mut::<f32>(x)?, width, self.0).map_err(cuda_error)
    }
}

struct Convert;

impl Operation<1> for Convert {
    const NAME: &'static str = "convert";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let x = slice::<f32>(x)?;
        with_element!(out.0, T => prefold_kernels::convert(x, slice_mut::<T>(out)?).map_err(kernel_error))
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x.0)?;
        let (_, width) = dims(x.1)?;
        let x = view::<f32>(x)?;
        with_cuda_element!(out.0, T => {
            cuda.kernels.convert(&x, width, &mut view_mut::<T>(out)?).map_err(cuda_error)
        })
    }
}

struct GatherRows;

impl Operation<2> for GatherRows {
    const NAME: &'static str = "gather-rows";

    fn on_cpu(&self, out: CpuOutput<'_>, [x, index]: [CpuTensor<'_>; 2]) -> Result<()> {
        let (_, width) = dims(x.1)?;
        let index = slice::<u32>(index)?;
        with_element!(x.0, T => {
            let x = slice::<T>(x)?;
            let out = slice_mut::<T>(out)?;
            prefold_kernels::gather_rows(x, width, index, out).map_err(kernel_error)
        })
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x, index]: [CudaTensor<'_>; 2]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x.0)?;
        let (_, width) = dims(x.1)?;
        let index = view::<u32>(index)?;
        with_cuda_element!(x.0, T => {
            let out = &mut view_mut::<T>(out)?;
            cuda.kernels.gather_rows(&view::<T>(x)?, width, &index, out).map_err(cuda_error)
        })
    }
}

struct Embed(Store);

impl Operation<2> for Embed {
    const NAME: &'static str = "embed";

    fn on_cpu(&self, out: CpuOutput<'_>, [table, ids]: [CpuTensor<'_>; 2]) -> Result<()> {
        let (_, width) = dims(table.1)?;
        let ids = slice::<u32>(ids)?;
        let out = slice_mut::<f32>(out)?;
        with_element!(table.0, T => {
            prefold_kernels::embed_rows(slice::<T>(table)?, width, ids, self.0, out).map_err(kernel_error)
        })
    }

    // The ids are on the device: an id out of range gives a row of NaN, which is reported as not finite.
    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [table, ids]: [CudaTensor<'_>; 2]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(table.0)?;
        let (_, width) = dims(table.1)?;
        let ids = view::<u32>(ids)?;
        let out = &mut view_mut::<f32>(out)?;
        with_cuda_element!(table.0, T => {
            cuda.kernels.embed(&view::<T>(table)?, width, &ids, self.0, out).map_err(cuda_error)
        })
    }
}
