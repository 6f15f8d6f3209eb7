//! Weights on their way to the device.

use super::target::Target;
use crate::LoadError;
use candle_core::{Device, Result, Tensor};
use half::{bf16, f16};
#[cfg(feature = "cuda")]
use prefold_kernels::cuda::cudarc::driver::CudaSlice;

/// The values of a tensor as read from a checkpoint.
#[derive(Debug)]
pub(crate) enum Values {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

impl Values {
    /// Puts others behind these.
    ///
    /// # Errors
    /// They are of another type.
    pub(super) fn append(&mut self, others: Self) -> Result<()> {
        match (self, others) {
            (Self::F32(values), Self::F32(mut others)) => values.append(&mut others),
            (Self::Bf16(values), Self::Bf16(mut others)) => values.append(&mut others),
            (Self::F16(values), Self::F16(mut others)) => values.append(&mut others),
            _ => candle_core::bail!("parts of one matrix are of different types"),
        }
        Ok(())
    }

    /// A tensor of them.
    ///
    /// # Errors
    /// The shape has another number of elements, or the device has no room.
    pub(crate) fn tensor(self, shape: (usize, usize), target: &Target) -> Result<Tensor> {
        self.on(shape, &target.device)
    }

    fn on(self, shape: (usize, usize), device: &Device) -> Result<Tensor> {
        match self {
            Self::F32(values) => Tensor::from_vec(values, shape, device),
            Self::Bf16(values) => Tensor::from_vec(values, shape, device),
            Self::F16(values) => Tensor::from_vec(values, shape, device),
        }
    }
}

/// A short vector of `f32`: the weight of a norm, a bias. It is on the host, and on the device too where that is another.
#[derive(Debug)]
pub(crate) struct Vector {
    pub(super) host: Vec<f32>,
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
            device: target.cuda.as_ref().map(|cuda| cuda.vector(&values)).transpose()?,
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
    pub(super) fn device(&self) -> Result<&CudaSlice<f32>> {
        match &self.device {
            Some(slice) => Ok(slice),
            None => candle_core::bail!("a vector of the CPU in an operation of a GPU"),
        }
    }
}
