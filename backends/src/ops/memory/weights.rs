//! Short vectors of weights, on the host and on the device.

use crate::error::LoadError;
use crate::ops::device::target::Target;
#[cfg(feature = "cuda")]
use candle_core::Result;
#[cfg(feature = "cuda")]
use prefold_kernels::cuda::cudarc::driver::CudaSlice;

/// A short vector of `f32`, such as a bias or the weight of a norm, on the host and on the device of the model.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(in crate::ops) host: Vec<f32>,
    #[cfg(feature = "cuda")]
    device: Option<CudaSlice<f32>>,
}

impl Vector {
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(values: Vec<f32>, target: &Target) -> std::result::Result<Self, LoadError> {
        #[cfg(not(feature = "cuda"))]
        let _ = target;
        Ok(Self {
            #[cfg(feature = "cuda")]
            device: target.cuda().map(|cuda| cuda.vector(&values)).transpose()?,
            host: values,
        })
    }

    /// A vector for operations on the CPU.
    pub(crate) fn on_cpu(values: Vec<f32>) -> Self {
        Self {
            host: values,
            #[cfg(feature = "cuda")]
            device: None,
        }
    }

    #[cfg(feature = "cuda")]
    pub(in crate::ops) fn device(&self) -> Result<&CudaSlice<f32>> {
        match &self.device {
            Some(slice) => Ok(slice),
            None => candle_core::bail!("a vector of the CPU in an operation of a GPU"),
        }
    }
}
