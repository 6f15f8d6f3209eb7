//! Columns of each row's own adapter.

use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, kernel_error, slice, slice_mut, with_element};
use candle_core::{Result, Tensor};

/// `out[i][c] = x[i][c % width]` in the `own[i]`-th group of `group` columns, and 0 in the others. `width` is the number of columns of `x`:
/// one group or all groups. `x` is `f32`, `own` is `u32`, `out` may have an activation type.
pub(crate) fn own_columns(x: &Tensor, own: &Tensor, group: usize, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
    yields.run_rows("own-columns", [out, x, own], |[out, x, own]| out.inplace_op3(x, own, &InPlace(OwnColumns(group))))
}

struct OwnColumns(usize);

impl Operation<2> for OwnColumns {
    const NAME: &'static str = "own-columns";

    fn on_cpu(&self, out: CpuOutput<'_>, [x, own]: [CpuTensor<'_>; 2]) -> Result<()> {
        let ((_, width), (_, out_width)) = (dims(x.1)?, dims(out.1)?);
        let (x, own) = (slice::<f32>(x)?, slice::<u32>(own)?);
        with_element!(out.0, T => {
            let out = slice_mut::<T>(out)?;
            prefold_kernels::own_columns(x, width, own, self.0, out, out_width).map_err(kernel_error)
        })
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x, own]: [CudaTensor<'_>; 2]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_cuda_element};
        let cuda = cuda::of(x.0)?;
        let ((_, width), (_, out_width)) = (dims(x.1)?, dims(out.1)?);
        let (x, own) = (view::<f32>(x)?, view::<u32>(own)?);
        with_cuda_element!(out.0, T => {
            let out = &mut view_mut::<T>(out)?;
            cuda.kernels.own_columns(&x, width, &own, self.0, out, out_width).map_err(cuda_error)
        })
    }
}
