//! Operations as candle's in-place custom ops.

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp1, InplaceOp2, InplaceOp3, Layout, Result};

/// A tensor that an operation reads on the CPU.
pub(in crate::ops) type CpuTensor<'a> = (&'a CpuStorage, &'a Layout);
/// The tensor that an operation writes on the CPU.
pub(in crate::ops) type CpuOutput<'a> = (&'a mut CpuStorage, &'a Layout);
/// A tensor that an operation reads on a GPU.
#[cfg(feature = "cuda")]
pub(in crate::ops) type CudaTensor<'a> = (&'a CudaStorage, &'a Layout);
/// The tensor that an operation writes on a GPU.
#[cfg(feature = "cuda")]
pub(in crate::ops) type CudaOutput<'a> = (&'a mut CudaStorage, &'a Layout);

/// An operation that writes one tensor in place and reads `N` others.
pub(in crate::ops) trait Operation<const N: usize> {
    const NAME: &'static str;

    fn on_cpu(&self, out: CpuOutput<'_>, inputs: [CpuTensor<'_>; N]) -> Result<()>;

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, inputs: [CudaTensor<'_>; N]) -> Result<()>;
}

/// An operation as an argument of candle's `inplace_op1`, `inplace_op2` or `inplace_op3`, by the number of its tensors.
pub(in crate::ops) struct InPlace<O>(pub(in crate::ops) O);

/// Implements candle's trait of this name for operations that read `N` tensors.
macro_rules! in_place {
    ($trait:ident, $n:literal $(, $input:ident, $layout:ident)*) => {
        impl<O: Operation<$n>> $trait for InPlace<O> {
            fn name(&self) -> &'static str {
                O::NAME
            }

            fn cpu_fwd(&self, out: &mut CpuStorage, layout: &Layout $(, $input: &CpuStorage, $layout: &Layout)*) -> Result<()> {
                self.0.on_cpu((out, layout), [$(($input, $layout)),*])
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(&self, out: &mut CudaStorage, layout: &Layout $(, $input: &CudaStorage, $layout: &Layout)*) -> Result<()> {
                self.0.on_cuda((out, layout), [$(($input, $layout)),*])
            }
        }
    };
}

in_place!(InplaceOp1, 0);
in_place!(InplaceOp2, 1, a, a_layout);
in_place!(InplaceOp3, 2, a, a_layout, b, b_layout);
