//! The errors of a device.

use crate::error::KernelError;
use cudarc::cublas::result::CublasError;
use cudarc::cublas::sys::cublasStatus_t;
use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use std::path::PathBuf;

/// A call that was refused, or that failed on the device.
#[derive(Debug, thiserror::Error)]
pub enum CudaError {
    /// The arguments do not fit together; nothing was queued.
    #[error(transparent)]
    Arguments(#[from] KernelError),
    /// The driver's error.
    #[error("CUDA: {0}")]
    Driver(#[from] DriverError),
    /// cuBLAS's error.
    #[error("cuBLAS: {0}")]
    Cublas(#[from] CublasError),
    /// A kernel that is not in the binary.
    #[error("there is no kernel `{0}`")]
    MissingKernel(&'static str),
    /// The directory `PREFOLD_CUDA_MODULES` has no file of a module's name.
    #[error("PREFOLD_CUDA_MODULES: {} has no module (attention.cubin, rows.fatbin, ...)", .0.display())]
    NoReplacement(PathBuf),
    /// A file of `PREFOLD_CUDA_MODULES` that cannot be read.
    #[error("PREFOLD_CUDA_MODULES: {} cannot be read: {error}", file.display())]
    Replacement {
        /// The file.
        file: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
}

/// Name and description of a driver's error.
pub(super) fn driver_error(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{:?} ({})", error.0, text.to_string_lossy()),
        Err(_) => format!("{:?}", error.0),
    }
}

impl CudaError {
    /// True if the device is out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Self::Driver(error) => error.0 == CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            Self::Cublas(error) => error.0 == cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED,
            Self::Arguments(_) | Self::MissingKernel(_) | Self::NoReplacement(_) | Self::Replacement { .. } => false,
        }
    }
}
