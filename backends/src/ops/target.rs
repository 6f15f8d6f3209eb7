//! The device of a model and the types that it computes in.

use super::storage::candle_dtype;
use crate::LoadError;
use crate::options::DeviceChoice;
use candle_core::{DType, Device, Result, Tensor};
use prefold_kernels::Dtype;
#[cfg(feature = "cuda")]
use {super::cuda, std::sync::Arc};

/// A device, opened, and the type of the weights on it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(super) device: Device,
    dtype: Dtype,
    name: String,
    warning: Option<String>,
    #[cfg(feature = "cuda")]
    pub(super) cuda: Option<Arc<cuda::Cuda>>,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("dtype", &self.dtype).finish_non_exhaustive()
    }
}

impl Target {
    /// The CPU.
    pub(crate) fn cpu(dtype: Dtype) -> Self {
        Self {
            device: Device::Cpu,
            dtype,
            name: "cpu".to_owned(),
            warning: None,
            #[cfg(feature = "cuda")]
            cuda: None,
        }
    }

    /// Opens a device. When none is chosen, that is the first GPU; the CPU, with a warning, on a machine without a driver or a GPU.
    /// The type is the device's usual one when none is given: float32 on a CPU, bfloat16 on a GPU.
    ///
    /// # Errors
    /// The device is not there, is too old, or does not have the type; none is chosen and the GPU or its driver does not work.
    pub(crate) fn open(choice: Option<DeviceChoice>, dtype: Option<Dtype>) -> std::result::Result<Self, LoadError> {
        match choice {
            Some(DeviceChoice::Cpu) => Self::open_cpu(dtype),
            Some(DeviceChoice::Cuda(ordinal)) => Self::open_cuda(ordinal, dtype),
            #[cfg(feature = "cuda")]
            None => Self::open_first(dtype),
            #[cfg(not(feature = "cuda"))]
            None => Self::open_cpu(dtype),
        }
    }

    #[cfg(feature = "cuda")]
    fn open_first(dtype: Option<Dtype>) -> std::result::Result<Self, LoadError> {
        match cuda::count() {
            Ok(_) => Self::open_cuda(0, dtype),
            Err(absent) if absent.is_absent() => {
                let warning = Some(format!("runs on the CPU, although built for CUDA: {absent}"));
                Ok(Self { warning, ..Self::open_cpu(dtype)? })
            }
            Err(broken) => {
                let problem = format!("no GPU can be used: {broken} (--device cpu serves from the CPU nevertheless)");
                Err(LoadError::Options(problem))
            }
        }
    }

    fn open_cpu(dtype: Option<Dtype>) -> std::result::Result<Self, LoadError> {
        match dtype.unwrap_or(Dtype::Float32) {
            Dtype::Float16 => {
                let problem = "--dtype float16 is for GPUs; a CPU has bfloat16 and float32";
                Err(LoadError::Options(problem.to_owned()))
            }
            dtype => Ok(Self::cpu(dtype)),
        }
    }

    #[cfg(not(feature = "cuda"))]
    fn open_cuda(ordinal: usize, _: Option<Dtype>) -> std::result::Result<Self, LoadError> {
        let problem = format!("--device cuda:{ordinal}: this binary was built without the feature `cuda`");
        Err(LoadError::Options(problem))
    }

    #[cfg(feature = "cuda")]
    fn open_cuda(ordinal: usize, dtype: Option<Dtype>) -> std::result::Result<Self, LoadError> {
        let refused = |problem: String| LoadError::Options(format!("--device cuda:{ordinal}: {problem}"));
        let count = cuda::count().map_err(|error| refused(error.to_string()))?;
        if ordinal >= count {
            return Err(refused(format!("there is no such device; this machine has {count} that CUDA can use")));
        }
        let (device, cuda) = cuda::open(ordinal).map_err(|error| refused(error.to_string()))?;
        let properties = cuda.properties().map_err(|error| refused(error.to_string()))?;
        tracing::info!(
            device = properties.name,
            free_mib = properties.free_bytes >> 20,
            total_mib = properties.total_bytes >> 20,
            "device opened"
        );
        let name = format!("cuda:{ordinal}");
        Ok(Self { device, dtype: dtype.unwrap_or(Dtype::Bfloat16), name, warning: None, cuda: Some(cuda) })
    }

    /// `cpu` or `cuda:0`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Reason why the device is not the one that the program was built for.
    pub(crate) fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The type of the weights.
    pub(crate) fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The type of GEMM inputs.
    pub(crate) fn activations(&self) -> DType {
        candle_dtype(self.dtype)
    }

    /// The type of Q, K, V, gate and up: single precision on a CPU, where that costs nothing, and what the tensor cores
    /// take on a GPU. The residual stream is `f32` everywhere.
    pub(crate) fn projections(&self) -> DType {
        if self.is_cpu() { DType::F32 } else { self.activations() }
    }

    /// Rows that go through a wide intermediate result at a time: as many as fit a CPU's caches or fill a GPU.
    pub(crate) fn row_block(&self) -> usize {
        if self.is_cpu() { 1024 } else { 8192 }
    }

    pub(crate) fn is_cpu(&self) -> bool {
        self.device.is_cpu()
    }

    /// A tensor of the host on the device; the same one on a CPU.
    ///
    /// # Errors
    /// The device has no room.
    pub(crate) fn upload(&self, tensor: &Tensor) -> Result<Tensor> {
        tensor.to_device(&self.device)
    }

    /// Bytes that are free on the device; none are counted on a CPU.
    pub(crate) fn free_bytes(&self) -> Result<Option<usize>> {
        #[cfg(feature = "cuda")]
        if let Some(cuda) = &self.cuda {
            return Ok(Some(cuda.properties()?.free_bytes));
        }
        Ok(None)
    }

    /// True if the device answers no call any more, as after an illegal address, a failed launch or an uncorrectable memory error;
    /// never true of a CPU.
    pub(crate) fn is_lost(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.cuda.as_ref().is_some_and(|cuda| cuda.kernels.is_lost());
        #[cfg(not(feature = "cuda"))]
        false
    }

    /// Waits until everything that was queued is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }
}

/// True if an operation failed because the device has no memory left.
pub(crate) fn is_out_of_memory(error: &candle_core::Error) -> bool {
    #[cfg(feature = "cuda")]
    return cuda::is_out_of_memory(error);
    #[cfg(not(feature = "cuda"))]
    {
        let _ = error;
        false
    }
}

/// Bytes of a GPU's memory that are taken, by whomever; none are counted on a CPU.
pub fn used_device_bytes(device: DeviceChoice) -> Option<usize> {
    #[cfg(feature = "cuda")]
    if let DeviceChoice::Cuda(ordinal) = device {
        let (_, cuda) = cuda::open(ordinal).ok()?;
        let properties = cuda.properties().ok()?;
        return Some(properties.total_bytes - properties.free_bytes);
    }
    let _ = device;
    None
}
