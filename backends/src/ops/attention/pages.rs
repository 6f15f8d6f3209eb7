//! The query rows and the page table of a batch, on the host and on the device.

#[cfg(feature = "flash-attn")]
use crate::ops::attention::flash::Sequences;
use crate::ops::device::target::Target;
use crate::ops::memory::indices::{IndexPack, Indices};
use candle_core::Result;
use prefold_kernels::{Mask, QkvLayout, QuerySpan};
#[cfg(feature = "cuda")]
use {
    crate::ops::memory::indices::Slot, crate::ops::tensor::storage::kernel_error, candle_core::Tensor,
    prefold_kernels::cuda::AttentionPlan,
};

/// The query rows and the page table of their keys and values.
#[derive(Debug)]
pub(crate) struct Pages {
    /// `table[path + p]` is the K/V row at position `p` of the path that begins at `path`.
    pub(crate) table: Vec<u32>,
    /// The query rows.
    pub(crate) spans: Vec<QuerySpan>,
    /// The length of each span's path; present with a full mask.
    pub(crate) path_lens: Option<Vec<u32>>,
    #[cfg(feature = "cuda")]
    pub(in crate::ops) device: Option<DevicePages>,
    #[cfg(feature = "flash-attn")]
    pub(in crate::ops) sequences: Option<Sequences>,
}

/// The work list of a GPU and, once uploaded, its words there.
#[cfg(feature = "cuda")]
#[derive(Debug)]
pub(in crate::ops) struct DevicePages {
    pub(in crate::ops) plan: AttentionPlan,
    slot: Slot,
    pub(in crate::ops) words: Option<Tensor>,
}

impl Pages {
    /// Pages with a causal mask, or with [`Mask::Full`] if there are `path_lens`.
    pub(crate) fn new(table: Vec<u32>, spans: Vec<QuerySpan>, path_lens: Option<Vec<u32>>) -> Self {
        Self {
            #[cfg(feature = "flash-attn")]
            sequences: Sequences::new(&table, &spans, path_lens.as_deref()),
            table,
            spans,
            path_lens,
            #[cfg(feature = "cuda")]
            device: None,
        }
    }

    pub(in crate::ops) fn mask(&self) -> Mask<'_> {
        match &self.path_lens {
            Some(path_lens) => Mask::Full { path_lens },
            None => Mask::Causal,
        }
    }

    /// Adds the work list of a GPU to the indices of the batch; `has_positions` is true with relative position embeddings.
    ///
    /// # Errors
    /// A span's path is not in the table.
    pub(crate) fn pack(
        &mut self,
        target: &Target,
        (layout, has_positions): (QkvLayout, bool),
        pack: &mut IndexPack,
    ) -> Result<()> {
        #[cfg(feature = "cuda")]
        if !target.is_cpu() {
            let wide_tiles = target.projections() != candle_core::DType::F32 && !has_positions;
            let plan = AttentionPlan::new(layout, wide_tiles, &self.table, &self.spans, self.mask());
            let plan = plan.map_err(kernel_error)?;
            let slot = pack.push(plan.words());
            self.device = Some(DevicePages { plan, slot, words: None });
            #[cfg(feature = "flash-attn")]
            if let Some(sequences) = &mut self.sequences {
                sequences.pack(pack);
            }
        }
        let _ = (target, layout, has_positions, pack);
        Ok(())
    }

    /// Finds the packed lists on the device.
    pub(crate) fn resolve(&mut self, indices: &Indices) -> Result<()> {
        #[cfg(feature = "cuda")]
        if let Some(device) = &mut self.device {
            device.words = Some(indices.get(&device.slot)?);
        }
        #[cfg(feature = "flash-attn")]
        if let Some(sequences) = &mut self.sequences {
            sequences.resolve(indices)?;
        }
        let _ = indices;
        Ok(())
    }
}
