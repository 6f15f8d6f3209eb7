//! Copies from the device to the host.

use candle_core::{Result, Tensor};

/// The values of a contiguous `f32` tensor, row by row; waits until they are computed.
///
/// Of a [`Buffer`](super::Buffer)'s view only the view is copied; candle's `to_vec` copies all that was allocated.
pub(crate) fn to_host(tensor: &Tensor) -> Result<Vec<f32>> {
    #[cfg(feature = "cuda")]
    if tensor.device().is_cuda() {
        return super::cuda::to_host(tensor);
    }
    tensor.flatten_all()?.to_vec1()
}
