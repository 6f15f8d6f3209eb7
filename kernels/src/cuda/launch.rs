//! Loading of modules and launching of kernels.

use super::error::CudaError;
use super::flash::Flash;
use super::modules::{REPLACEMENTS, modules};
use crate::element::Element;
use crate::error::KernelError;
use cudarc::driver::sys::{CUdeviceptr, CUfunction_attribute_enum, CUresult, cuFuncLoad};
use cudarc::driver::{
    CudaContext, CudaFunction, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use half::{bf16, f16};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The kernels, loaded into a device, and the stream that they are queued on.
pub struct Kernels {
    stream: Arc<CudaStream>,
    functions: HashMap<&'static str, CudaFunction>,
    replaced: Vec<&'static str>,
}

impl std::fmt::Debug for Kernels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kernels").field("functions", &self.functions.len()).finish_non_exhaustive()
    }
}

/// Name, compute capability and memory of a device.
#[derive(Debug, Clone)]
pub struct Properties {
    /// Its name, for example `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// Compute capability, major and minor.
    pub compute_capability: (i32, i32),
    /// Free memory in bytes.
    pub free_bytes: usize,
    /// Total memory in bytes.
    pub total_bytes: usize,
}

impl Properties {
    /// Queries the driver.
    ///
    /// # Errors
    /// The driver returns an error.
    pub fn of(context: &Arc<CudaContext>) -> Result<Self, CudaError> {
        let (free_bytes, total_bytes) = context.mem_get_info()?;
        Ok(Self { name: context.name()?, compute_capability: context.compute_capability()?, free_bytes, total_bytes })
    }
}

/// Disables the events that cudarc records for each use of memory to order several streams, since they cost time at every launch.
/// Memory allocated afterwards must be written on one stream at a time, and must not be freed while a stream other than its own may use it.
pub fn exclusive_streams(context: &Arc<CudaContext>) {
    // SAFETY: weights are written once, before the device is synchronised. Memory written by a forward pass belongs to a backend, which
    // uses one stream; where this is not the stream that memory is allocated and freed on, `Buffer` waits for both streams in between.
    unsafe { context.disable_event_tracking() };
}

impl Kernels {
    /// Loads all kernels into the device of `stream`.
    ///
    /// # Errors
    /// The device is older than the kernels (compute capability below 8.0), or out of memory; `PREFOLD_CUDA_MODULES` has no module, or one that
    /// cannot be read or lacks a kernel.
    pub fn new(stream: Arc<CudaStream>) -> Result<Self, CudaError> {
        let replacements = std::env::var_os(REPLACEMENTS).map(PathBuf::from);
        let (mut functions, mut replaced) = (HashMap::new(), Vec::new());
        for module in modules() {
            let (image, is_replaced) = module.image(replacements.as_deref())?;
            if is_replaced {
                replaced.push(module.name);
            }
            let loaded = stream.context().load_module(Ptx::from_binary(image.into_owned()))?;
            for name in module.kernels {
                let function = loaded.load_function(name).map_err(|error| match error.0 {
                    CUresult::CUDA_ERROR_NOT_FOUND => CudaError::MissingKernel(name),
                    _ => error.into(),
                })?;
                functions.insert(name, function);
            }
        }
        // With a misspelled name the built-in kernels would be measured by mistake.
        if let (Some(directory), []) = (replacements, &replaced[..]) {
            return Err(CudaError::NoReplacement(directory));
        }
        for function in functions.values() {
            // Otherwise the driver would load each at its first launch, in a client's request.
            // SAFETY: the function is of a module that it keeps loaded.
            unsafe { cuFuncLoad(function.cu_function()) }.result()?;
        }
        let kernels = Self { stream, functions, replaced };
        kernels.allow_shared_memory::<bf16>()?;
        kernels.allow_shared_memory::<f16>()?;
        Ok(kernels)
    }

    /// The same kernels on another stream of the device.
    #[must_use]
    pub fn on(&self, stream: Arc<CudaStream>) -> Self {
        Self { stream, functions: self.functions.clone(), replaced: self.replaced.clone() }
    }

    /// More than 48 KiB of shared memory must be requested.
    fn allow_shared_memory<T: Element>(&self) -> Result<(), CudaError> {
        for kernel in Flash::all::<T>() {
            let attribute = CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            self.function(kernel.name)?.set_attribute(attribute, kernel.shared_bytes() as i32)?;
        }
        Ok(())
    }

    /// Names of the modules replaced by files in the directory `PREFOLD_CUDA_MODULES`.
    pub fn replaced_modules(&self) -> &[&'static str] {
        &self.replaced
    }

    /// The stream that kernels are queued on.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// True if every call on the device's context fails: an error of work on the device stays with the context until the
    /// process ends (CUDA driver API, `cuCtxSynchronize`).
    pub fn is_lost(&self) -> bool {
        // The first call may return an earlier call's error.
        self.stream.synchronize().is_err() && self.stream.synchronize().is_err()
    }

    fn function(&self, name: &'static str) -> Result<&CudaFunction, CudaError> {
        self.functions.get(name).ok_or(CudaError::MissingKernel(name))
    }

    /// Queues a kernel. Each argument is a pointer, or a number in the low bytes of its word.
    ///
    /// Private to the launchers, which ensure that the arguments match the kernel's parameters and that the kernel
    /// stays within the memory they point to.
    pub(super) fn launch(&self, launch: Launch, arguments: &[u64]) -> Result<(), CudaError> {
        let mut builder = self.stream.launch_builder(self.function(launch.name)?);
        for argument in arguments {
            builder.arg(argument);
        }
        if launch.blocks == 0 {
            return Ok(());
        }
        // SAFETY: see above; the driver copies the arguments before it returns.
        unsafe { builder.launch(launch.config()?) }?;
        Ok(())
    }

    /// Queues a kernel that takes one structure.
    pub(super) fn launch_with<A: cudarc::driver::DeviceRepr>(
        &self,
        launch: Launch,
        argument: &A,
    ) -> Result<(), CudaError> {
        if launch.blocks == 0 {
            return Ok(());
        }
        let mut builder = self.stream.launch_builder(self.function(launch.name)?);
        builder.arg(argument);
        // SAFETY: as above.
        unsafe { builder.launch(launch.config()?) }?;
        Ok(())
    }
}

/// A kernel and its geometry.
#[derive(Debug, Clone, Copy)]
pub(super) struct Launch {
    pub(super) name: &'static str,
    pub(super) blocks: usize,
    pub(super) threads: u32,
    pub(super) shared_bytes: usize,
}

impl Launch {
    /// One block for each row of `width` values. Uses the second kernel, which takes `step` values at once, if the width is
    /// a multiple of `step` and the addresses are aligned, else the first.
    pub(super) fn by_rows(
        names: [&'static str; 2],
        rows: usize,
        width: usize,
        step: usize,
        addresses: &[CUdeviceptr],
    ) -> Self {
        let wide = width.is_multiple_of(step) && is_aligned(addresses);
        let threads = row_threads(if wide { width / step } else { width });
        Self { name: names[usize::from(wide)], blocks: rows, threads, shared_bytes: 0 }
    }

    fn config(&self) -> Result<LaunchConfig, CudaError> {
        /// The limit of a grid's first dimension.
        const MAX_BLOCKS: usize = i32::MAX as usize;
        if self.blocks > MAX_BLOCKS {
            return Err(KernelError::Index { argument: "blocks", found: self.blocks, limit: MAX_BLOCKS + 1 }.into());
        }
        Ok(LaunchConfig {
            grid_dim: (self.blocks as u32, 1, 1),
            block_dim: (self.threads, 1, 1),
            shared_mem_bytes: self.shared_bytes as u32,
        })
    }
}

/// Threads for a row of `accesses`: whole warps, at most 256.
pub(super) fn row_threads(accesses: usize) -> u32 {
    (accesses.next_multiple_of(32)).clamp(32, 256) as u32
}

/// The address of device memory, valid in the order of the stream.
pub(super) fn address<T>(kernels: &Kernels, view: &CudaView<'_, T>) -> CUdeviceptr {
    view.device_ptr(&kernels.stream).0
}

/// The address of device memory to write.
pub(super) fn address_mut<T>(kernels: &Kernels, view: &mut CudaViewMut<'_, T>) -> CUdeviceptr {
    view.device_ptr_mut(&kernels.stream).0
}

/// True if these addresses are aligned to 16 bytes.
pub(super) fn is_aligned(addresses: &[CUdeviceptr]) -> bool {
    addresses.iter().all(|address| address.is_multiple_of(16))
}
