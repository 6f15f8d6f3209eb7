//! The CUDA side of the operations: devices with their kernels, and candle's storage as device memory.

use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use candle_core::cuda_backend::{CudaDType, CudaDevice, DeviceId};
use candle_core::{CudaStorage, Device, Layout, Result, Tensor, WithDType, bail};
use prefold_kernels::cuda::cudarc::cublas::CudaBlas;
use prefold_kernels::cuda::cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DeviceRepr, DriverError};
use prefold_kernels::cuda::{Blas, CudaError, Kernels, Properties, StreamPriority, Unavailable, exclusive_streams};
use std::cell::RefCell;
use std::sync::{Arc, RwLock};

/// A device's kernels and cuBLAS handle, on one of its streams. Memory is allocated and freed in the order of the candle device's stream.
pub(in crate::ops) struct Cuda {
    device: CudaDevice,
    ordinal: usize,
    /// `None` for the candle device's stream.
    priority: Option<StreamPriority>,
    pub(in crate::ops) kernels: Kernels,
    pub(in crate::ops) blas: Blas,
}

/// All opened streams. They stay until the process ends, as contexts do.
static DEVICES: RwLock<Vec<Arc<Cuda>>> = RwLock::new(Vec::new());

thread_local! {
    static CURRENT: RefCell<Option<Arc<Cuda>>> = const { RefCell::new(None) };
}

/// Calls `f`, whose operations go to this stream.
pub(in crate::ops) fn enter<R>(cuda: Option<Arc<Cuda>>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<Arc<Cuda>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _restore = Restore(CURRENT.replace(cuda));
    f()
}

/// The number of devices; an error if there is none.
pub(in crate::ops) fn count() -> std::result::Result<usize, Unavailable> {
    prefold_kernels::cuda::device_count()
}

/// Device `ordinal` with its kernels loaded; the same one each time.
pub(in crate::ops) fn open(ordinal: usize) -> Result<(Device, Arc<Cuda>)> {
    let mut devices = DEVICES.write().map_err(|_| poisoned())?;
    if let Some(cuda) = devices.iter().find(|cuda| cuda.ordinal == ordinal && cuda.priority.is_none()) {
        return Ok((Device::Cuda(cuda.device.clone()), cuda.clone()));
    }
    // Not the default stream of a thread: the backend's thread is not the thread that loads the weights.
    let device = CudaDevice::new_with_stream(ordinal)?;
    let properties = Properties::of(device.cuda_stream().context()).map_err(cuda_error)?;
    if properties.compute_capability < (8, 0) {
        let (major, minor) = properties.compute_capability;
        bail!("{} has compute capability {major}.{minor}, 8.0 is needed", properties.name);
    }
    exclusive_streams(device.cuda_stream().context());
    let kernels = Kernels::new(device.cuda_stream()).map_err(cuda_error)?;
    if !kernels.replaced_modules().is_empty() {
        tracing::warn!(
            "kernels of PREFOLD_CUDA_MODULES replace the built-in ones: {}",
            kernels.replaced_modules().join(", ")
        );
    }
    let blas = Blas::new(device.cublas_handle(), &kernels).map_err(cuda_error)?;
    let cuda = Arc::new(Cuda { device: device.clone(), ordinal, priority: None, kernels, blas });
    devices.push(cuda.clone());
    Ok((Device::Cuda(device), cuda))
}

fn poisoned() -> candle_core::Error {
    candle_core::Error::Msg("another thread panicked while it opened a device".to_owned())
}

/// The kernels of a storage's device, on this thread's stream.
pub(in crate::ops) fn of(storage: &CudaStorage) -> Result<Arc<Cuda>> {
    by_id(storage.device.id())
}

/// The kernels of a tensor's device, on this thread's stream.
pub(in crate::ops) fn of_tensor(tensor: &Tensor) -> Result<Arc<Cuda>> {
    by_id(tensor.device().as_cuda_device()?.id())
}

fn by_id(id: DeviceId) -> Result<Arc<Cuda>> {
    let current = CURRENT.with_borrow(|current| current.as_ref().filter(|cuda| cuda.device.id() == id).cloned());
    if let Some(cuda) = current {
        return Ok(cuda);
    }
    let devices = DEVICES.read().map_err(|_| poisoned())?;
    match devices.iter().find(|cuda| cuda.device.id() == id) {
        Some(cuda) => Ok(cuda.clone()),
        None => bail!("the tensor is on a device without kernels"),
    }
}

impl Cuda {
    /// The same kernels on another stream of the device, with a cuBLAS handle of its own; the same one each time.
    pub(in crate::ops) fn with_priority(&self, priority: StreamPriority) -> Result<Arc<Self>> {
        let mut devices = DEVICES.write().map_err(|_| poisoned())?;
        let is_wanted = |cuda: &&Arc<Self>| cuda.ordinal == self.ordinal && cuda.priority == Some(priority);
        if let Some(cuda) = devices.iter().find(is_wanted) {
            return Ok(cuda.clone());
        }
        let stream = priority.stream(self.stream().context()).map_err(cuda_error)?;
        let handle = CudaBlas::new(stream.clone()).map_err(|error| cuda_error(error.into()))?;
        let kernels = self.kernels.on(stream);
        let blas = Blas::new(Arc::new(handle), &kernels).map_err(cuda_error)?;
        let cuda = Self { device: self.device.clone(), ordinal: self.ordinal, priority: Some(priority), kernels, blas };
        devices.push(Arc::new(cuda));
        Ok(Arc::clone(&devices[devices.len() - 1]))
    }

    pub(in crate::ops) fn stream(&self) -> &Arc<CudaStream> {
        self.kernels.stream()
    }

    pub(in crate::ops) fn has_priority(&self) -> bool {
        self.priority.is_some()
    }

    /// Waits until everything that was queued is done, memory allocated and freed.
    pub(in crate::ops) fn synchronize(&self) -> Result<()> {
        if self.priority.is_some() {
            self.stream().synchronize().map_err(|error| cuda_error(error.into()))?;
        }
        Device::Cuda(self.device.clone()).synchronize()
    }

    /// Waits for all operations if memory is allocated in the order of another stream than this one. Needed before
    /// freeing memory that operations of this stream use, and before they use new memory.
    pub(in crate::ops) fn join_memory(&self) -> Result<()> {
        self.priority.map_or(Ok(()), |_| self.synchronize())
    }

    pub(in crate::ops) fn properties(&self) -> Result<Properties> {
        Properties::of(self.kernels.stream().context()).map_err(cuda_error)
    }

    /// Copies values to the device and waits for it.
    pub(in crate::ops) fn vector(&self, values: &[f32]) -> Result<CudaSlice<f32>> {
        self.device.clone_htod(values)
    }
}

/// The elements of a contiguous tensor.
pub(in crate::ops) fn view<'a, T: CudaDType>((storage, layout): CudaTensor<'a>) -> Result<CudaView<'a, T>> {
    let (start, end) = contiguous(layout)?;
    Ok(storage.as_cuda_slice::<T>()?.slice(start..end))
}

/// The elements of a contiguous tensor, to be written.
pub(in crate::ops) fn view_mut<'a, T: CudaDType>((storage, layout): CudaOutput<'a>) -> Result<CudaViewMut<'a, T>> {
    let (start, end) = contiguous(layout)?;
    Ok(storage.as_cuda_slice_mut::<T>()?.slice_mut(start..end))
}

fn contiguous(layout: &Layout) -> Result<(usize, usize)> {
    match layout.contiguous_offsets() {
        Some(offsets) => Ok(offsets),
        None => bail!("expected a contiguous tensor, found {layout:?}"),
    }
}

/// Calls `f` with the elements of a contiguous tensor that is not an argument of the operation under way.
pub(in crate::ops) fn with_view<T: CudaDType, R>(
    tensor: &Tensor,
    f: impl FnOnce(CudaView<'_, T>) -> Result<R>,
) -> Result<R> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        candle_core::Storage::Cuda(storage) => f(view::<T>((storage, layout))?),
        _ => bail!("expected a tensor on a CUDA device"),
    }
}

/// A type of values that are copied from a device.
pub(in crate::ops) trait OnDevice: CudaDType + DeviceRepr + WithDType {}

impl OnDevice for f32 {}
impl OnDevice for u32 {}

/// The values of a contiguous tensor, and no others of its memory; waits until they are computed.
pub(in crate::ops) fn to_host<T: OnDevice>(tensor: &Tensor) -> Result<Vec<T>> {
    let cuda = of_tensor(tensor)?;
    let stream = cuda.stream();
    with_view::<T, _>(tensor, |view| {
        let values = stream.clone_dtoh(&view).map_err(|error| cuda_error(error.into()))?;
        // A copy to memory that is not page-locked may return before it is done.
        stream.synchronize().map_err(|error| cuda_error(error.into()))?;
        Ok(values)
    })
}

pub(in crate::ops) fn cuda_error(error: CudaError) -> candle_core::Error {
    candle_core::Error::Cuda(Box::new(error))
}

/// True if a device, or the driver's host memory, had no room.
pub(in crate::ops) fn is_out_of_memory(error: &candle_core::Error) -> bool {
    use candle_core::cuda_backend::CudaError as CandleError;
    let driver = |error: &DriverError| CudaError::Driver(*error).is_out_of_memory();
    match error {
        candle_core::Error::WithBacktrace { inner, .. } => is_out_of_memory(inner),
        candle_core::Error::Context { inner, .. } => inner.to_string().contains("CUDA_ERROR_OUT_OF_MEMORY"),
        candle_core::Error::Cuda(error) => {
            if let Some(error) = error.downcast_ref::<CudaError>() {
                return error.is_out_of_memory();
            }
            match error.downcast_ref::<CandleError>() {
                Some(CandleError::Cuda(error)) => driver(error),
                _ => error.downcast_ref::<DriverError>().is_some_and(driver),
            }
        }
        _ => false,
    }
}

/// Runs `$body` with `$t` standing for the element type of a storage on a CUDA device.
macro_rules! with_cuda_element {
    ($storage:expr, $t:ident => $body:expr) => {
        match &$storage.slice {
            candle_core::cuda_backend::CudaStorageSlice::F32(_) => {
                type $t = f32;
                $body
            }
            candle_core::cuda_backend::CudaStorageSlice::BF16(_) => {
                type $t = half::bf16;
                $body
            }
            candle_core::cuda_backend::CudaStorageSlice::F16(_) => {
                type $t = half::f16;
                $body
            }
            _ => candle_core::bail!("activations are f32, bf16 or f16"),
        }
    };
}
pub(in crate::ops) use with_cuda_element;
