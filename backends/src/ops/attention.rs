//! Causal attention over paths of a radix plan.

use super::storage::{slice_mut, with_element};
use super::{kernel_error, timed};
use candle_core::{CpuStorage, InplaceOp3, Layout, Result, Tensor};
use prefold_kernels::{QkvLayout, QuerySpan, RowView};

/// Which rows ask and where their keys and values are.
#[derive(Debug)]
pub(crate) struct Pages {
    /// `table[path + p]` is the K/V row at position `p` of the path that begins at `path`.
    pub(crate) table: Vec<u32>,
    /// The query rows.
    pub(crate) spans: Vec<QuerySpan>,
}

/// The attention of one layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attention {
    pub(crate) layout: QkvLayout,
    /// A query at path position p sees the keys `p - window + 1 ..= p`; all up to p when absent.
    pub(crate) window: Option<usize>,
}

impl Attention {
    /// `q` is `[queries, num_heads * head_dim]`, `kv` is `[rows, 2 * num_kv_heads * head_dim]` with the
    /// keys first; both are `f32` and may be columns of a wider matrix. `out` has the shape of `q`.
    pub(crate) fn forward(&self, q: &Tensor, kv: &Tensor, pages: &Pages, out: &Tensor) -> Result<()> {
        timed("attention", || out.inplace_op3(q, kv, &AttentionOp { attention: self, pages }))
    }
}

struct AttentionOp<'a> {
    attention: &'a Attention,
    pages: &'a Pages,
}

/// Columns `offset..` of a matrix that may itself be columns of a wider one.
fn columns<'a>(storage: &'a CpuStorage, layout: &Layout, offset: usize) -> Result<RowView<'a>> {
    let data = storage.as_slice::<f32>()?;
    match layout.stride() {
        &[row_stride, 1] => Ok(RowView { data, row_stride, offset: layout.start_offset() + offset }),
        _ => candle_core::bail!("attention: expected rows, found {layout:?}"),
    }
}

impl InplaceOp3 for AttentionOp<'_> {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(
        &self,
        out: &mut CpuStorage,
        out_layout: &Layout,
        q: &CpuStorage,
        q_layout: &Layout,
        kv: &CpuStorage,
        kv_layout: &Layout,
    ) -> Result<()> {
        let Attention { layout, window } = *self.attention;
        let attention = prefold_kernels::Attention {
            q: columns(q, q_layout, 0)?,
            k: columns(kv, kv_layout, 0)?,
            v: columns(kv, kv_layout, layout.num_kv_heads * layout.head_dim)?,
            pages: &self.pages.table,
            spans: &self.pages.spans,
            layout,
            scale: 1.0 / (layout.head_dim as f32).sqrt(),
            window,
        };
        with_element!(out, T => attention.run::<T>(slice_mut::<T>(out, out_layout)?).map_err(kernel_error))
    }
}
