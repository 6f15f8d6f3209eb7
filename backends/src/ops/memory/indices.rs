//! All indices of a batch in one list, so that they reach the device in one copy.

use crate::ops::device::target::Target;
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, CudaOutput, CudaTensor, InPlace, Operation};
use candle_core::{Result, Tensor};
use std::ops::Range;
#[cfg(feature = "cuda")]
use {
    super::buffer::Buffer,
    crate::ops::tensor::cuda::{Cuda, cuda_error, view_mut},
    prefold_kernels::cuda::cudarc::driver::{CudaEvent, CudaStream, DriverError},
    prefold_kernels::cuda::{CudaError, Pinned},
    std::cell::RefCell,
    std::sync::Arc,
};

/// Lists of indices, one after another.
#[derive(Debug, Default)]
pub(crate) struct IndexPack {
    words: Vec<u32>,
}

/// Place of a list in its pack.
#[derive(Debug, Clone)]
pub(crate) struct Slot(Range<usize>);

impl IndexPack {
    /// Adds a list. Lists begin at multiples of 16 bytes.
    pub(crate) fn push(&mut self, list: &[u32]) -> Slot {
        let start = self.words.len();
        self.words.extend_from_slice(list);
        let end = self.words.len();
        self.words.resize(end.next_multiple_of(4), 0);
        Slot(start..end)
    }
}

/// The lists of a pack on the device.
#[derive(Debug)]
pub(crate) struct Indices {
    words: Tensor,
}

impl Indices {
    /// A list as a vector of `u32`.
    ///
    /// # Errors
    /// The list belongs to another pack.
    pub(crate) fn get(&self, slot: &Slot) -> Result<Tensor> {
        self.words.narrow(0, slot.0.start, slot.0.len())
    }
}

/// Uploads packs to the device, into two sets of memory in turn: while a pass reads one, the indices of the next pass are copied to the other.
#[derive(Debug)]
pub(crate) struct Uploader {
    target: Target,
    /// `None` on a CPU.
    #[cfg(feature = "cuda")]
    copies: Option<Copies>,
}

/// Two sets of memory for packs, used in turn, and the stream of the copies.
#[cfg(feature = "cuda")]
struct Copies {
    compute: Arc<Cuda>,
    stream: Arc<CudaStream>,
    next: CopySet,
    previous: CopySet,
}

#[cfg(feature = "cuda")]
struct CopySet {
    buffer: Buffer,
    pinned: RefCell<Pinned>,
    /// A place in the queue of the computing stream after the last operation that reads the buffer; `None` before the first upload.
    read: Option<CudaEvent>,
}

impl Uploader {
    /// # Errors
    /// The device has no memory.
    pub(crate) fn new(target: &Target) -> Result<Self> {
        Ok(Self {
            #[cfg(feature = "cuda")]
            copies: target.cuda().map(|cuda| Copies::new(cuda, target)).transpose()?,
            target: target.clone(),
        })
    }

    /// Copies a pack to the device. Returns before the copy is done; operations queued afterwards see the new indices.
    ///
    /// # Errors
    /// The device has no memory.
    pub(crate) fn upload(&mut self, pack: IndexPack) -> Result<Indices> {
        #[cfg(feature = "cuda")]
        if let Some(copies) = &mut self.copies {
            return copies.upload(&pack.words, &self.target).map(|words| Indices { words });
        }
        let len = pack.words.len();
        Ok(Indices { words: Tensor::from_vec(pack.words, len, &self.target.device)? })
    }
}

#[cfg(feature = "cuda")]
impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copies").finish_non_exhaustive()
    }
}

#[cfg(feature = "cuda")]
impl Copies {
    fn new(compute: &Arc<Cuda>, target: &Target) -> Result<Self> {
        let set = || -> Result<_> {
            let buffer = Buffer::new(candle_core::DType::U32, target)?;
            Ok(CopySet { buffer, pinned: RefCell::default(), read: None })
        };
        let stream = compute.stream().context().new_stream().map_err(driver_error)?;
        Ok(Self { compute: Arc::clone(compute), stream, next: set()?, previous: set()? })
    }

    /// Copies words to the device while it computes. Operations queued afterwards see them.
    fn upload(&mut self, words: &[u32], target: &Target) -> Result<Tensor> {
        std::mem::swap(&mut self.next, &mut self.previous);
        let Self { compute, stream, next, previous } = self;
        // All operations that read the other set are queued.
        let read = match previous.read.take() {
            Some(read) => read,
            None => stream.context().new_event(None).map_err(driver_error)?,
        };
        previous.read.insert(read).record(compute.stream()).map_err(driver_error)?;
        if !next.buffer.holds(words.len()) {
            // Both grow, so that the next pass allocates nothing. The old memory must not be in use, and the new is cleared on another stream.
            target.synchronize()?;
            for set in [&mut *next, &mut *previous] {
                set.buffer.view(1, words.len())?;
                set.pinned.borrow_mut().reserve(stream.context(), words.len()).map_err(cuda_error)?;
            }
            target.synchronize()?;
        }
        if let Some(read) = &next.read {
            stream.wait(read).map_err(driver_error)?;
        }
        let on_device = next.buffer.view(1, words.len())?.flatten_all()?;
        on_device.inplace_op1(&InPlace(Upload { words, pinned: &next.pinned, stream }))?;
        if let Some(copied) = next.pinned.borrow().copied() {
            compute.stream().wait(copied).map_err(driver_error)?;
        }
        Ok(on_device)
    }
}

#[cfg(feature = "cuda")]
fn driver_error(error: DriverError) -> candle_core::Error {
    cuda_error(CudaError::from(error))
}

#[cfg(feature = "cuda")]
struct Upload<'a> {
    words: &'a [u32],
    pinned: &'a RefCell<Pinned>,
    stream: &'a Arc<CudaStream>,
}

#[cfg(feature = "cuda")]
impl Operation<0> for Upload<'_> {
    const NAME: &'static str = "upload";

    fn on_cpu(&self, _: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        candle_core::bail!("indices of the CPU need no upload")
    }

    fn on_cuda(&self, to: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        self.pinned.borrow_mut().upload(self.stream, self.words, &mut view_mut::<u32>(to)?).map_err(cuda_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefold_kernels::Dtype;

    #[test]
    fn lists_come_back_as_they_were_packed() {
        let mut pack = IndexPack::default();
        let lists: [&[u32]; 4] = [&[1, 2, 3, 4, 5], &[], &[6], &[7, 8, 9, 10]];
        let slots = lists.map(|list| pack.push(list));
        assert!(slots.iter().all(|slot| slot.0.start % 4 == 0));
        let indices = Uploader::new(&Target::cpu(Dtype::Float32)).unwrap().upload(pack).unwrap();
        for (slot, list) in slots.iter().zip(lists) {
            assert_eq!(indices.get(slot).unwrap().to_vec1::<u32>().unwrap(), list);
        }
    }
}
