//! All indices of a batch in one list, so that they reach the device in one copy.

use crate::ops::device::target::Target;
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, CudaOutput, CudaTensor, InPlace, Operation};
use candle_core::{Result, Tensor};
use std::ops::Range;
#[cfg(feature = "cuda")]
use {super::buffer::Buffer, prefold_kernels::cuda::Pinned, std::cell::RefCell};

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

/// Uploads packs to the device. An upload overwrites the previous one.
#[derive(Debug)]
pub(crate) struct Uploader {
    target: Target,
    #[cfg(feature = "cuda")]
    buffer: Buffer,
    #[cfg(feature = "cuda")]
    pinned: RefCell<Pinned>,
}

impl Uploader {
    /// # Errors
    /// The device has no memory.
    pub(crate) fn new(target: &Target) -> Result<Self> {
        Ok(Self {
            #[cfg(feature = "cuda")]
            buffer: Buffer::new(candle_core::DType::U32, target)?,
            #[cfg(feature = "cuda")]
            pinned: RefCell::default(),
            target: target.clone(),
        })
    }

    /// Copies a pack to the device. Returns before the copy is done; operations queued afterwards see the new indices.
    ///
    /// # Errors
    /// The device has no memory.
    pub(crate) fn upload(&mut self, pack: IndexPack) -> Result<Indices> {
        #[cfg(feature = "cuda")]
        if !self.target.is_cpu() {
            let words = self.buffer.view(1, pack.words.len())?.flatten_all()?;
            words.inplace_op1(&InPlace(Upload { words: &pack.words, pinned: &self.pinned }))?;
            return Ok(Indices { words });
        }
        let len = pack.words.len();
        Ok(Indices { words: Tensor::from_vec(pack.words, len, &self.target.device)? })
    }
}

#[cfg(feature = "cuda")]
struct Upload<'a> {
    words: &'a [u32],
    pinned: &'a RefCell<Pinned>,
}

#[cfg(feature = "cuda")]
impl Operation<0> for Upload<'_> {
    const NAME: &'static str = "upload";

    fn on_cpu(&self, _: CpuOutput<'_>, []: [CpuTensor<'_>; 0]) -> Result<()> {
        candle_core::bail!("indices of the CPU need no upload")
    }

    fn on_cuda(&self, to: CudaOutput<'_>, []: [CudaTensor<'_>; 0]) -> Result<()> {
        let cuda = crate::ops::tensor::cuda::of(to.0)?;
        let to = &mut crate::ops::tensor::cuda::view_mut::<u32>(to)?;
        self.pinned.borrow_mut().upload(&cuda.kernels, self.words, to).map_err(crate::ops::tensor::cuda::cuda_error)
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
