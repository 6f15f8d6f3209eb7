//! From candle's storage and layout to the slices that kernels take.

use candle_core::{CpuStorage, Layout, Result, WithDType, bail};
use half::bf16;
use prefold_kernels::Activation;

/// A type that GEMM inputs can have, with access to candle's storage of it.
pub(super) trait Element: WithDType + Activation {
    fn storage_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

impl Element for f32 {
    fn storage_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
        match storage {
            CpuStorage::F32(data) => Some(data),
            _ => None,
        }
    }
}

impl Element for bf16 {
    fn storage_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
        match storage {
            CpuStorage::BF16(data) => Some(data),
            _ => None,
        }
    }
}

/// The values of a contiguous tensor.
pub(super) fn slice<'a, T: WithDType>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [T]> {
    let data = storage.as_slice::<T>()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&data[start..end]),
        None => bail!("expected a contiguous tensor, found {layout:?}"),
    }
}

/// The values of a contiguous tensor, to be written.
pub(super) fn slice_mut<'a, T: Element>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [T]> {
    let Some((start, end)) = layout.contiguous_offsets() else {
        bail!("expected a contiguous tensor, found {layout:?}")
    };
    match T::storage_mut(storage) {
        Some(data) => Ok(&mut data[start..end]),
        None => bail!("expected a tensor of {:?}", T::DTYPE),
    }
}

/// `(rows, width)` of a matrix.
pub(super) fn dims(layout: &Layout) -> Result<(usize, usize)> {
    layout.shape().dims2()
}

/// Runs `$body` with `$t` standing for the element type of a storage that holds activations.
macro_rules! with_element {
    ($storage:expr, $t:ident => $body:expr) => {
        match $storage {
            candle_core::CpuStorage::F32(_) => {
                type $t = f32;
                $body
            }
            candle_core::CpuStorage::BF16(_) => {
                type $t = half::bf16;
                $body
            }
            _ => candle_core::bail!("activations are f32 or bf16"),
        }
    };
}
pub(super) use with_element;
