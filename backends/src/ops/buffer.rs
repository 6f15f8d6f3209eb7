//! Memory that outlives a forward pass.

use candle_core::{DType, Device, Result, Tensor};

/// A matrix of any shape, backed by one allocation that only grows.
#[derive(Debug)]
pub(crate) struct Buffer {
    flat: Tensor,
}

impl Buffer {
    /// Nothing is allocated until the first [`view`](Self::view).
    pub(crate) fn new(dtype: DType, device: &Device) -> Result<Self> {
        Ok(Self { flat: Tensor::zeros(0, dtype, device)? })
    }

    /// A `[rows, width]` view. Its contents are whatever was written last.
    pub(crate) fn view(&mut self, rows: usize, width: usize) -> Result<Tensor> {
        let len = rows * width;
        if self.flat.elem_count() < len {
            // Free the old memory before asking for the new.
            let (dtype, device) = (self.flat.dtype(), self.flat.device().clone());
            self.flat = Tensor::zeros(0, dtype, &device)?;
            self.flat = Tensor::zeros(len, dtype, &device)?;
        }
        self.flat.narrow(0, 0, len)?.reshape((rows, width))
    }
}
