//! Columns of each row's own adapter.

use super::storage::{dims, kernel_error, slice, slice_mut, with_element};
use super::yields::Yields;
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp3, Layout, Result, Tensor};

/// `out[i][c] = x[i][c % width]` in the `own[i]`-th group of `group` columns, and 0 in the others, with `width` the columns of `x`: those of
/// one group, or of all. `x` is `f32`, `own` is `u32`, `out` may be an activation type.
pub(crate) fn own_columns(x: &Tensor, own: &Tensor, group: usize, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("own-columns", [out, x, own], |[out, x, own]| out.inplace_op3(x, own, &OwnColumns(group)))
}

struct OwnColumns(usize);

impl InplaceOp3 for OwnColumns {
    fn name(&self) -> &'static str {
        "own-columns"
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        out_layout: &Layout,
        x: &CpuStorage,
        x_layout: &Layout,
        own: &CpuStorage,
        own_layout: &Layout,
    ) -> Result<()> {
        let ((_, width), (_, out_width)) = (dims(x_layout)?, dims(out_layout)?);
        let (x, own) = (slice::<f32>(x, x_layout)?, slice::<u32>(own, own_layout)?);
        with_element!(out, T => {
            let out = slice_mut::<T>(out, out_layout)?;
            prefold_kernels::own_columns(x, width, own, self.0, out, out_width).map_err(kernel_error)
        })
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(
        &self,
        out: &mut CudaStorage,
        out_layout: &Layout,
        x: &CudaStorage,
        x_layout: &Layout,
        own: &CudaStorage,
        own_layout: &Layout,
    ) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x)?;
        let ((_, width), (_, out_width)) = (dims(x_layout)?, dims(out_layout)?);
        let (x, own) = (view::<f32>(x, x_layout)?, view::<u32>(own, own_layout)?);
        with_cuda_element!(out, T => {
            let out = &mut view_mut::<T>(out, out_layout)?;
            cuda.kernels.own_columns(&x, width, &own, self.0, out, out_width).map_err(cuda_error)
        })
    }
}
