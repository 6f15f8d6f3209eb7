//! Conversion of candle's storage and layout to the slices that kernels take.

use crate::ops::tensor::operation::{CpuOutput, CpuTensor};
use candle_core::{CpuStorage, DType, Layout, Result, WithDType, bail};
use prefold_kernels::Dtype;
use std::any::Any;
use std::ops::Range;

/// Candle's type for the activations of a model in this type.
pub(crate) fn candle_dtype(dtype: Dtype) -> DType {
    match dtype {
        // Activations are quantized only inside a product.
        Dtype::Float32 | Dtype::Int8 => DType::F32,
        Dtype::Bfloat16 => DType::BF16,
        Dtype::Float16 => DType::F16,
    }
}

/// The values of a contiguous tensor.
pub(in crate::ops) fn slice<'a, T: WithDType>((storage, layout): CpuTensor<'a>) -> Result<&'a [T]> {
    let data = storage.as_slice::<T>()?;
    match layout.contiguous_offsets() {
        Some((start, end)) => Ok(&data[start..end]),
        None => bail!("expected a contiguous tensor, found {layout:?}"),
    }
}

/// The values of a contiguous tensor, to be written.
pub(in crate::ops) fn slice_mut<'a, T: WithDType>((storage, layout): CpuOutput<'a>) -> Result<&'a mut [T]> {
    match layout.contiguous_offsets() {
        Some((start, end)) => range_mut(storage, start..end),
        None => bail!("expected a contiguous tensor, found {layout:?}"),
    }
}

/// The values of a matrix that may be columns of a wider one, and the distance of its rows.
pub(in crate::ops) fn strided_mut<'a, T: WithDType>((storage, layout): CpuOutput<'a>) -> Result<(&'a mut [T], usize)> {
    let ((rows, width), &[stride, 1]) = (dims(layout)?, layout.stride()) else {
        bail!("expected rows, found {layout:?}")
    };
    let len = if rows == 0 { 0 } else { (rows - 1) * stride + width };
    let start = layout.start_offset();
    Ok((range_mut(storage, start..start + len)?, stride))
}

fn range_mut<T: WithDType>(storage: &mut CpuStorage, range: Range<usize>) -> Result<&mut [T]> {
    let data: &mut dyn Any = match storage {
        CpuStorage::F32(data) => data,
        CpuStorage::BF16(data) => data,
        CpuStorage::U32(data) => data,
        _ => bail!("activations are f32 or bf16, indices u32"),
    };
    match data.downcast_mut::<Vec<T>>() {
        Some(data) => Ok(&mut data[range]),
        None => bail!("expected a tensor of {:?}", T::DTYPE),
    }
}

/// `(rows, width)` of a matrix.
pub(in crate::ops) fn dims(layout: &Layout) -> Result<(usize, usize)> {
    layout.shape().dims2()
}

/// A kernel's error as the error of a custom op.
pub(in crate::ops) fn kernel_error(error: prefold_kernels::KernelError) -> candle_core::Error {
    candle_core::Error::wrap(error)
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
pub(in crate::ops) use with_element;
