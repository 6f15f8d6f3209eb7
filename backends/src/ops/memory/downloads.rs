//! Results of a pass on their way from a device to the host.

use crate::ops::tensor::cuda::{cuda_error, of_tensor, with_view};
use candle_core::{Device, Result, Shape, Tensor};
use prefold_kernels::cuda::Download;

/// Copies of results to the host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Downloads(prefold_kernels::cuda::Downloads);

/// A tensor on its way to the host.
pub(crate) struct Downloading {
    values: Download,
    shape: Shape,
}

impl Downloads {
    /// Queues the copy of a contiguous `f32` tensor and returns before it is done.
    ///
    /// # Errors
    /// There is no memory.
    pub(crate) fn start(&self, tensor: &Tensor) -> Result<Downloading> {
        let cuda = of_tensor(tensor)?;
        let values = with_view::<f32, _>(tensor, |view| self.0.start(cuda.stream(), &view).map_err(cuda_error))?;
        Ok(Downloading { values, shape: tensor.shape().clone() })
    }
}

impl Downloading {
    /// The tensor on the host, once it is copied.
    ///
    /// # Errors
    /// The device has failed.
    pub(crate) fn on_host(self) -> Result<Tensor> {
        Tensor::from_vec(self.values.values().map_err(cuda_error)?, self.shape, &Device::Cpu)
    }
}
