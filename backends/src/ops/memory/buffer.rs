//! Memory that outlives a forward pass.

use crate::ops::device::target::Target;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{slice_mut, with_element};
use candle_core::{CpuStorage, DType, Device, Result, Tensor};

/// A matrix of any shape, backed by one allocation that only grows.
#[derive(Debug)]
pub(crate) struct Buffer {
    flat: Tensor,
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
        Ok(Self { flat, target: target.clone() })
    }

    /// A `[rows, width]` view, with the values written last.
    pub(crate) fn view(&mut self, rows: usize, width: usize) -> Result<Tensor> {
        let len = rows * width;
        if self.flat.elem_count() < len {
            // Frees the old memory before allocating the new; a GPU's driver gets it back when the queued operations are done.
            let (dtype, device) = (self.flat.dtype(), &self.target.device);
            self.target.join_memory()?;
            self.flat = empty(dtype, device)?;
            device.synchronize()?;
            self.flat = Tensor::zeros(len, dtype, device)?;
            self.flat.inplace_op1(&InPlace(Backing::Huge))?;
            self.target.join_memory()?;
        }
        self.flat.narrow(0, 0, len)?.reshape((rows, width))
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

/// One element: CUDA does not allocate less.
fn empty(dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::zeros(1, dtype, device)
}
