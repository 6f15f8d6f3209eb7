//! Page-locked host memory, which the device reads and writes directly.

use super::error::CudaError;
use crate::error::check_len;
use cudarc::driver::sys::{CU_MEMHOSTALLOC_WRITECOMBINED, CUevent_flags};
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, CudaView, CudaViewMut, DeviceRepr, result};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// A type of numbers, for which all bits are 0 in a valid value.
trait Number: DeviceRepr + Copy {}

impl Number for u32 {}
impl Number for f32 {}

/// Page-locked memory, and the end of the last copy from it or to it.
struct PageLocked<T: Number> {
    values: NonNull<T>,
    len: usize,
    copied: CudaEvent,
    /// The last copy may not be done.
    is_pending: bool,
}

// SAFETY: it owns its memory, which any thread may use and free.
unsafe impl<T: Number + Send> Send for PageLocked<T> {}

impl<T: Number> PageLocked<T> {
    /// Memory for at least `len` values.
    fn new(context: &Arc<CudaContext>, len: usize, flags: u32) -> Result<Self, CudaError> {
        let len = len.max(1).next_power_of_two();
        // A wait for it does not keep a core busy.
        let copied = context.new_event(Some(CUevent_flags::CU_EVENT_BLOCKING_SYNC))?;
        // SAFETY: the context is bound, by the creation of the event; the memory is freed in `drop`.
        let values = unsafe { result::malloc_host(len * size_of::<T>(), flags) }?;
        let Some(values) = NonNull::new(values.cast::<T>()) else {
            return Err(CudaError::Driver(cudarc::driver::DriverError(
                cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY,
            )));
        };
        // SAFETY: the driver's memory has that many bytes and is aligned to a page; zeros are valid numbers.
        unsafe { values.write_bytes(0, len) };
        Ok(Self { values, len, copied, is_pending: false })
    }

    /// Waits for the last copy.
    fn wait(&mut self) -> Result<(), CudaError> {
        if self.is_pending {
            self.copied.synchronize()?;
            self.is_pending = false;
        }
        Ok(())
    }

    /// Notices that the last copy is done, without waiting for it.
    fn poll(&mut self) -> Result<(), CudaError> {
        self.copied.context().bind_to_thread()?;
        self.is_pending = self.is_pending && !self.copied.try_is_complete()?;
        Ok(())
    }

    /// The values, once the last copy is done.
    fn host(&mut self) -> Result<&mut [T], CudaError> {
        self.wait()?;
        // SAFETY: the memory has `len` numbers, is borrowed from `self`, and no copy is under way.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.values.as_ptr(), self.len) })
    }

    /// Queues a copy on a stream, which `copy` does with the values.
    fn queue(
        &mut self,
        stream: &Arc<CudaStream>,
        copy: impl FnOnce(&mut [T]) -> Result<(), cudarc::driver::DriverError>,
    ) -> Result<(), CudaError> {
        let values = self.host()?;
        let queued = copy(values);
        // Also after a failure, which may have come after the copy was queued.
        self.is_pending = true;
        self.copied.record(stream)?;
        Ok(queued?)
    }
}

impl<T: Number> Drop for PageLocked<T> {
    fn drop(&mut self) {
        // If waiting fails, the device has stopped and copies no more.
        let _ = self.wait();
        // SAFETY: the memory is `malloc_host`'s and no copy is under way.
        let _ = self
            .copied
            .context()
            .bind_to_thread()
            .and_then(|()| unsafe { result::free_host(self.values.as_ptr().cast()) });
    }
}

/// Page-locked memory for indices on their way to the device; it only grows.
#[derive(Default)]
pub struct Pinned {
    memory: Option<PageLocked<u32>>,
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("len", &self.memory.as_ref().map(|memory| memory.len)).finish()
    }
}

impl Pinned {
    /// Queues a copy of `values` to the device on a stream, once the previous copy is done, and returns before it is done. Operations on other
    /// streams that read the values must wait for [`copied`](Self::copied).
    ///
    /// # Errors
    /// The lengths differ, there is no memory, or the device has failed.
    pub fn upload(
        &mut self,
        stream: &Arc<CudaStream>,
        values: &[u32],
        to: &mut CudaViewMut<'_, u32>,
    ) -> Result<(), CudaError> {
        check_len("values", to.len(), values.len())?;
        if values.is_empty() {
            return Ok(());
        }
        let memory = self.grown(stream.context(), values.len())?;
        // The pass before the last is done as a rule, and so is its copy.
        memory.poll()?;
        memory.host()?[..values.len()].copy_from_slice(values);
        memory.queue(stream, |memory| stream.memcpy_htod(&memory[..values.len()], to))
    }

    /// Grows the memory to at least `len` values.
    ///
    /// # Errors
    /// There is no memory.
    pub fn reserve(&mut self, context: &Arc<CudaContext>, len: usize) -> Result<(), CudaError> {
        self.grown(context, len).map(drop)
    }

    fn grown(&mut self, context: &Arc<CudaContext>, len: usize) -> Result<&mut PageLocked<u32>, CudaError> {
        let memory = match self.memory.take().filter(|memory| memory.len >= len) {
            Some(memory) => memory,
            None => PageLocked::new(context, len, CU_MEMHOSTALLOC_WRITECOMBINED)?,
        };
        Ok(self.memory.insert(memory))
    }

    /// The end of the last copy; none before the first.
    pub fn copied(&self) -> Option<&CudaEvent> {
        self.memory.as_ref().map(|memory| &memory.copied)
    }
}

/// Page-locked memory for results on their way to the host, which downloads take and give back.
#[derive(Clone, Default)]
pub struct Downloads {
    spare: Arc<Mutex<Vec<PageLocked<f32>>>>,
}

impl std::fmt::Debug for Downloads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Downloads").finish_non_exhaustive()
    }
}

/// Values on their way to the host.
pub struct Download {
    memory: PageLocked<f32>,
    len: usize,
    downloads: Downloads,
}

impl Downloads {
    /// Queues a copy of values to the host and returns before it is done.
    ///
    /// # Errors
    /// There is no memory.
    pub fn start(&self, stream: &Arc<CudaStream>, from: &CudaView<'_, f32>) -> Result<Download, CudaError> {
        let len = from.len();
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut memory = match spare.filter(|memory| memory.len >= len) {
            Some(memory) => memory,
            // No flags: the host reads this memory.
            None => PageLocked::new(stream.context(), len, 0)?,
        };
        if len > 0 {
            memory.queue(stream, |memory| stream.memcpy_dtoh(from, &mut memory[..len]))?;
        }
        Ok(Download { memory, len, downloads: self.clone() })
    }
}

impl Download {
    /// The values, once they are copied.
    ///
    /// # Errors
    /// The device has failed.
    pub fn values(mut self) -> Result<Vec<f32>, CudaError> {
        let values = self.memory.host()?[..self.len].to_vec();
        self.downloads.spare.lock().unwrap_or_else(PoisonError::into_inner).push(self.memory);
        Ok(values)
    }
}
