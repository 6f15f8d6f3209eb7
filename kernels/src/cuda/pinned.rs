//! Page-locked host memory, which the device reads directly.

use super::error::CudaError;
use super::launch::Kernels;
use crate::error::check_len;
use cudarc::driver::{CudaStream, CudaViewMut, PinnedHostSlice};
use std::sync::Arc;

/// Page-locked memory for indices; it only grows.
#[derive(Default)]
pub struct Pinned {
    memory: Option<PinnedHostSlice<u32>>,
    /// The stream of the last copy.
    stream: Option<Arc<CudaStream>>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The device may still be reading. If waiting fails, the device has stopped and reads no more.
        let _ = self.stream.as_ref().map(|stream| stream.synchronize());
    }
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pinned").field("len", &self.memory.as_ref().map(PinnedHostSlice::len)).finish()
    }
}

impl Pinned {
    /// Queues a copy of `values` to the device and returns before it is done.
    ///
    /// # Errors
    /// The lengths differ, or there is no memory.
    pub fn upload(
        &mut self,
        kernels: &Kernels,
        values: &[u32],
        to: &mut CudaViewMut<'_, u32>,
    ) -> Result<(), CudaError> {
        check_len("values", to.len(), values.len())?;
        if values.is_empty() {
            return Ok(());
        }
        let stream = kernels.stream();
        // The previous copy may still be pending if its batch failed.
        stream.synchronize()?;
        if self.memory.as_ref().is_none_or(|memory| memory.len() < values.len()) {
            self.memory = None;
            let len = values.len().next_power_of_two();
            // SAFETY: u32 of any bits; `upload` copies only what it has written.
            self.memory = Some(unsafe { stream.context().alloc_pinned::<u32>(len) }?);
        }
        self.stream = Some(Arc::clone(stream));
        if let Some(memory) = &mut self.memory {
            memory.as_mut_slice()?[..values.len()].copy_from_slice(values);
            let (from, _synchronised) = memory_of(memory, stream);
            stream.memcpy_htod(&from[..values.len()], to)?;
        }
        Ok(())
    }
}

/// The memory as a slice, for a copy on `stream`.
fn memory_of<'a>(
    memory: &'a PinnedHostSlice<u32>,
    stream: &'a CudaStream,
) -> (&'a [u32], cudarc::driver::SyncOnDrop<'a>) {
    use cudarc::driver::HostSlice;
    // SAFETY: the slice is used for a copy on this stream and for nothing else.
    unsafe { memory.stream_synced_slice(stream) }
}
