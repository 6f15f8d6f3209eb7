//! Memory that outlives a forward pass.

use super::target::Target;
use candle_core::{DType, Device, Result, Tensor};

/// A matrix of any shape, backed by one allocation that only grows.
#[derive(Debug)]
pub(crate) struct Buffer {
    flat: Tensor,
}

impl Buffer {
    /// Next to nothing is allocated until the first [`view`](Self::view).
    pub(crate) fn new(dtype: DType, target: &Target) -> Result<Self> {
        Ok(Self { flat: empty(dtype, &target.device)? })
    }

    /// A `[rows, width]` view. Its contents are whatever was written last.
    pub(crate) fn view(&mut self, rows: usize, width: usize) -> Result<Tensor> {
        let len = rows * width;
        if self.flat.elem_count() < len {
            // Free the old memory before asking for the new: a GPU's driver has it back when what was queued is done.
            let (dtype, device) = (self.flat.dtype(), self.flat.device().clone());
            self.flat = empty(dtype, &device)?;
            device.synchronize()?;
            self.flat = Tensor::zeros(len, dtype, &device)?;
        }
        self.flat.narrow(0, 0, len)?.reshape((rows, width))
    }
}

/// One element: CUDA does not allocate less.
fn empty(dtype: DType, device: &Device) -> Result<Tensor> {
    Tensor::zeros(1, dtype, device)
}
