//! Attention over whole sequences with candle-flash-attn, the reference for prefold's own kernel.

use crate::ops::memory::indices::{IndexPack, Indices, Slot};
use candle_core::{DType, Result, Tensor};
use prefold_kernels::{QkvLayout, QuerySpan};

/// Whole sequences whose keys are in the same rows as their queries: ordinary attention over a ragged batch.
#[derive(Debug)]
pub(in crate::ops) struct Sequences {
    cu_seqlens: Vec<u32>,
    max_seqlen: usize,
    /// Queries also see the keys after them.
    full: bool,
    slot: Option<Slot>,
    on_device: Option<Tensor>,
}

impl Sequences {
    /// `None` unless the page table is 0, 1, 2, ... and the spans are the sequences, one after another. `path_lens` is present with a
    /// full mask.
    pub(in crate::ops) fn new(table: &[u32], spans: &[QuerySpan], path_lens: Option<&[u32]>) -> Option<Self> {
        let mut cu_seqlens = vec![0];
        for span in spans {
            let start = cu_seqlens[cu_seqlens.len() - 1];
            if (span.row, span.depth, span.path) != (start, 0, start) {
                return None;
            }
            cu_seqlens.push(start + span.len);
        }
        let is_whole = path_lens.is_none_or(|lens| spans.iter().zip(lens).all(|(span, &len)| span.len == len));
        let is_identity = table.iter().zip(0..).all(|(&page, row)| page == row);
        let max_seqlen = spans.iter().map(|span| span.len as usize).max()?;
        (is_whole && is_identity).then_some(Self {
            cu_seqlens,
            max_seqlen,
            full: path_lens.is_some(),
            slot: None,
            on_device: None,
        })
    }

    pub(in crate::ops) fn pack(&mut self, pack: &mut IndexPack) {
        self.slot = Some(pack.push(&self.cu_seqlens));
    }

    pub(in crate::ops) fn resolve(&mut self, indices: &Indices) -> Result<()> {
        self.on_device = self.slot.as_ref().map(|slot| indices.get(slot)).transpose()?;
        Ok(())
    }

    /// True if the library has a kernel for these heads.
    pub(in crate::ops) fn suit(&self, q: &Tensor, layout: QkvLayout) -> bool {
        self.on_device.is_some()
            && q.dtype() != DType::F32
            && layout.head_dim.is_multiple_of(8)
            && layout.head_dim <= 256
    }

    /// The output of all queries, `[rows, num_heads * head_dim]`.
    pub(in crate::ops) fn attend(
        &self,
        layout: QkvLayout,
        scale: f32,
        window: Option<usize>,
        q: &Tensor,
        kv: &Tensor,
    ) -> Result<Tensor> {
        let Some(cu_seqlens) = &self.on_device else {
            candle_core::bail!("attention: the sequences were not uploaded")
        };
        let QkvLayout { num_heads, num_kv_heads, head_dim } = layout;
        let (rows, kv_width) = (q.dim(0)?, num_kv_heads * head_dim);
        // The library's window excludes the query's own key.
        let before = window.map(|window| window - 1);
        let heads = |x: Tensor, count| x.reshape((rows, count, head_dim));
        let attended = candle_flash_attn::flash_attn_varlen_windowed(
            &heads(q.clone(), num_heads)?,
            &heads(kv.narrow(1, 0, kv_width)?, num_kv_heads)?,
            &heads(kv.narrow(1, kv_width, kv_width)?, num_kv_heads)?,
            cu_seqlens,
            cu_seqlens,
            self.max_seqlen,
            self.max_seqlen,
            scale,
            before,
            if self.full { before } else { Some(0) },
        )?;
        attended.reshape((rows, num_heads * head_dim))
    }
}
