//! Additional streams of a device: of higher priority, with their own cuBLAS handle and workspace.

use super::error::CudaError;
use super::launch::Kernels;
use cudarc::cublas::CudaBlas;
use cudarc::cublas::sys::{cublasMath_t, cublasSetMathMode, cublasSetWorkspace_v2};
use cudarc::driver::result::stream::get_priority_range;
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut};
use std::ffi::c_void;
use std::sync::Arc;

/// Bytes of a workspace: from compute capability 9.0 on, and below (cuBLAS 13, `cublasSetWorkspace`).
const WORKSPACE_BYTES: [usize; 2] = [32 << 20, 4 << 20];

/// Priority of a stream: waiting blocks of its kernels start before blocks of streams with lower priority. A device's own stream
/// has the lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPriority {
    /// Between the lowest and the highest.
    Middle,
    /// The highest that the device has.
    Highest,
}

impl StreamPriority {
    /// Creates a stream of this priority.
    ///
    /// # Errors
    /// The driver refuses.
    pub fn stream(self, context: &Arc<CudaContext>) -> Result<Arc<CudaStream>, CudaError> {
        context.bind_to_thread()?;
        let (least, greatest) = get_priority_range()?;
        let priority = match self {
            Self::Middle => i32::midpoint(least, greatest),
            Self::Highest => greatest,
        };
        Ok(context.new_stream_with_priority(priority)?)
    }
}

/// A cuBLAS handle with its own workspace, so that equal products have the same bits on all streams of a device.
pub struct Blas {
    handle: Arc<CudaBlas>,
    /// The workspace, used by products on the handle's stream.
    _workspace: CudaSlice<u8>,
}

impl std::fmt::Debug for Blas {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blas").finish_non_exhaustive()
    }
}

impl Blas {
    /// Takes a handle for the stream of the kernels. Partial sums of a product that is split over its inner dimension are also added in
    /// f32.
    ///
    /// # Errors
    /// cuBLAS refuses, or the device has no memory.
    pub fn new(handle: Arc<CudaBlas>, kernels: &Kernels) -> Result<Self, CudaError> {
        let stream = kernels.stream();
        let (major, _) = stream.context().compute_capability()?;
        let bytes = WORKSPACE_BYTES[usize::from(major < 9)];
        let mut workspace = stream.alloc_zeros::<u8>(bytes)?;
        let address = workspace.device_ptr_mut(stream).0;
        let mode = cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: the handle is valid; the workspace has that many bytes, is allocated in the order of the handle's stream, and freed with
        // the handle, in the order of that stream.
        unsafe {
            cublasSetMathMode(*handle.handle(), mode).result()?;
            cublasSetWorkspace_v2(*handle.handle(), address as *mut c_void, bytes).result()?;
        }
        Ok(Self { handle, _workspace: workspace })
    }

    /// The handle.
    pub(super) fn handle(&self) -> &CudaBlas {
        &self.handle
    }
}
