//! Biases of attention scores by distance.

use crate::error::LoadError;
use crate::ops::device::target::Target;
#[cfg(feature = "cuda")]
use candle_core::Result;
use prefold_kernels::RelativeBias;
#[cfg(feature = "cuda")]
use prefold_kernels::cuda::cudarc::driver::CudaSlice;

/// Biases on the host and on the device of the model.
#[derive(Debug)]
pub(crate) struct ScoreBias {
    pub(in crate::ops) host: RelativeBias,
    #[cfg(feature = "cuda")]
    values: Option<CudaSlice<f32>>,
}

impl ScoreBias {
    /// # Errors
    /// The device has no room.
    pub(crate) fn new(host: RelativeBias, target: &Target) -> std::result::Result<Self, LoadError> {
        #[cfg(not(feature = "cuda"))]
        let _ = target;
        Ok(Self {
            #[cfg(feature = "cuda")]
            values: target.cuda().map(|cuda| cuda.vector(host.values())).transpose()?,
            host,
        })
    }

    #[cfg(feature = "cuda")]
    pub(in crate::ops) fn on_device(&self) -> Result<prefold_kernels::cuda::ScoreBias<'_>> {
        match &self.values {
            Some(values) => Ok(prefold_kernels::cuda::ScoreBias { bias: &self.host, values: values.as_view() }),
            None => candle_core::bail!("attention: the biases are on the CPU, the scores on a GPU"),
        }
    }
}
