//! Memory that outlives a forward pass.

use crate::ops::device::target::Target;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{slice_mut, with_element};
use candle_core::{CpuStorage, DType, Device, Result, Storage, Tensor};

/// Bytes of a cache line. A vector of 64 bytes that crosses lines costs two accesses, and allocators align to 16 bytes.
const LINE: usize = 64;

/// A matrix of any shape, backed by one allocation that only grows. On CPUs it begins with a cache line.
#[derive(Debug)]
pub(crate) struct Buffer {
    flat: Tensor,
    /// Elements before the matrix.
    start: usize,
    target: Target,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // If waiting fails, the device has failed and uses no memory.
        let _ = self.target.join_memory();
    }
}

impl Buffer {
    /// One element is allocated until the first [`view`](Self::view).
    pub(crate) fn new(dtype: DType, target: &Target) -> Result<Self> {
        let flat = empty(dtype, &target.device)?;
        target.join_memory()?;
        Ok(Self { flat, start: 0, target: target.clone() })
    }

    /// True if a view of so many elements needs no new memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn holds(&self, len: usize) -> bool {
        self.flat.elem_count() - self.start >= len
    }

    /// A `[rows, width]` view, with the values written last.
    pub(crate) fn view(&mut self, rows: usize, width: usize) -> Result<Tensor> {
        let len = rows * width;
        if self.flat.elem_count() - self.start < len {
            // Frees the old memory before allocating the new; a GPU's driver gets it back when the queued operations are done.
            let (dtype, device) = (self.flat.dtype(), &self.target.device);
            self.target.join_memory()?;
            (self.flat, self.start) = (empty(dtype, device)?, 0);
            device.synchronize()?;
            let padding = if device.is_cpu() { LINE / dtype.size_in_bytes() } else { 0 };
            self.flat = Tensor::zeros(len + padding, dtype, device)?;
            self.start = first_line(&self.flat)?;
            self.flat.inplace_op1(&InPlace(Backing::Huge))?;
            self.target.join_memory()?;
        }
        self.flat.narrow(0, self.start, len)?.reshape((rows, width))
    }

    /// Allocates memory for `rows` rows of `width` and has the system back it.
    pub(crate) fn reserve(&mut self, rows: usize, width: usize) -> Result<()> {
        self.view(rows, width)?;
        self.flat.inplace_op1(&InPlace(Backing::Now))
    }
}

/// Request to the system about a buffer's memory.
#[derive(Clone, Copy)]
enum Backing {
    /// Huge pages, once the memory is used.
    Huge,
    /// Pages now rather than during the first pass.
    Now,
}

impl Backing {
    fn request<T: Send + Copy + Default>(self, memory: &mut [T]) {
        match self {
            Self::Huge => prefold_kernels::advise_huge_pages(memory),
            Self::Now => prefold_kernels::touch(memory),
        }
    }
}

impl Operation<0> for Backing {
    const NAME: &'static str = "backing";

    fn on_cpu(&self, storage: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        if let CpuStorage::U32(_) = storage.0 {
            self.request(slice_mut::<u32>(storage)?);
            return Ok(());
        }
        with_element!(storage.0, T => self.request(slice_mut::<T>(storage)?));
        Ok(())
    }

    /// Does nothing: allocated GPU memory is already backed.
    #[cfg(feature = "cuda")]
    fn on_cuda(&self, _: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        Ok(())
    }
}

/// Elements of a tensor before its first whole cache line; 0 on a GPU, whose driver aligns allocations.
fn first_line(flat: &Tensor) -> Result<usize> {
    let (storage, _) = flat.storage_and_layout();
    Ok(match &*storage {
        Storage::Cpu(CpuStorage::U32(values)) => values.as_ptr().align_offset(LINE),
        Storage::Cpu(storage) => with_element!(storage, T => storage.as_slice::<T>()?.as_ptr().align_offset(LINE)),
        _ => 0,
    })
}

/// One element: CUDA does not allocate less.
fn empty(dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::zeros(1, dtype, device)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::scalar::Scalar;
    use prefold_kernels::Dtype;

    fn address(view: &Tensor) -> usize {
        let (storage, layout) = view.storage_and_layout();
        let start = layout.start_offset();
        match &*storage {
            Storage::Cpu(CpuStorage::F32(values)) => values[start..].as_ptr() as usize,
            Storage::Cpu(CpuStorage::BF16(values)) => values[start..].as_ptr() as usize,
            Storage::Cpu(CpuStorage::U32(values)) => values[start..].as_ptr() as usize,
            _ => unreachable!(),
        }
    }

    #[test]
    fn matrices_begin_with_a_cache_line_and_keep_their_values() -> Result<()> {
        let target = Target::cpu(Dtype::Float32);
        for dtype in [DType::F32, DType::BF16, DType::U32] {
            let mut buffer = Buffer::new(dtype, &target)?;
            for (rows, width) in [(1, 2), (3, 7), (100, 33), (2, 5), (3300, 1), (3000, 1000)] {
                let view = buffer.view(rows, width)?;
                assert_eq!((view.dims(), address(&view) % LINE), (&[rows, width][..], 0), "{dtype:?}");
                view.const_set(Scalar::one(dtype))?;
            }
            let sum = buffer.view(100, 33)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
            assert_eq!(sum, 3300.0);
        }
        Ok(())
    }
}
