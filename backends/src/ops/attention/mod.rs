//! Attention over the paths of a radix plan or over whole sequences.

#[cfg(feature = "flash-attn")]
mod flash;
pub(super) mod pages;
pub(super) mod positions;
pub(super) mod score_bias;

#[cfg(feature = "cuda")]
use crate::ops::attention::pages::DevicePages;
use crate::ops::attention::pages::Pages;
use crate::ops::attention::positions::RelativePositions;
use crate::ops::attention::score_bias::ScoreBias;
use crate::ops::pacing::pace::Pace;
use crate::ops::pacing::yields::Yields;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{kernel_error, slice_mut, with_element};
use candle_core::{Layout, Result, Tensor};
use prefold_kernels::{AttentionItems, QkvLayout, RowView, bf16};
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

/// Initial guess of the time for one multiplication of a score, in nanoseconds.
const GUESS: f32 = 0.1;

thread_local! {
    /// Items, kept for the next call to reuse their memory.
    static ITEMS: Cell<AttentionItems> = const { Cell::new(AttentionItems::new()) };
}

/// The attention of one layer.
#[derive(Debug)]
pub(crate) struct Attention {
    pub(crate) layout: QkvLayout,
    /// A query sees keys less than this many positions away; `None`: all that the mask allows.
    pub(crate) window: Option<usize>,
    /// Factor on the scores.
    pub(crate) scale: f32,
    /// Bound of the scores after the factor, `softcap * tanh(score / softcap)`. A GPU has no kernel for it.
    pub(crate) softcap: Option<f32>,
    /// Biases added to the scores, after the factor.
    pub(crate) bias: Option<Arc<ScoreBias>>,
    /// Relative position embeddings, against which queries and keys are also scored.
    pub(crate) positions: Option<Arc<RelativePositions>>,
    /// True if a CPU rounds the factors of products to bf16 although activations are f32.
    pub(crate) rounds_factors: bool,
    /// Time for one score and one value of a head.
    pub(crate) pace: Pace,
}

impl Attention {
    /// The pace before the first measurement.
    pub(crate) fn guessed_pace() -> Pace {
        Pace::guessed(GUESS)
    }

    /// `q` is `[queries, num_heads * head_dim]`, `kv` is `[rows, 2 * num_kv_heads * head_dim]` with the
    /// keys first; both are projections and may be columns of a wider matrix. `out` has the shape of `q`.
    pub(crate) fn forward(
        &self,
        q: &Tensor,
        kv: &Tensor,
        pages: &Pages,
        out: &Tensor,
        yields: &mut Yields<'_>,
    ) -> Result<()> {
        #[cfg(feature = "flash-attn")]
        if let Some(sequences) = &pages.sequences
            && self.bias.is_none()
            && self.positions.is_none()
            && sequences.suit(q, self.layout)
        {
            let attend = || sequences.attend(self.layout, self.scale, self.window, q, kv);
            return out.slice_set(&yields.run("attention", attend)?, 0, 0);
        }
        let op = |items| AttentionOp { attention: self, pages, items };
        if !q.device().is_cpu() {
            return yields.run("attention", || out.inplace_op3(q, kv, &InPlace(op(None))));
        }
        let mut items = ITEMS.take();
        items.list(&pages.spans, self.layout, pages.mask(), self.window).map_err(kernel_error)?;
        let (value_work, mut start) = (self.layout.head_dim as f64, 0);
        while start < items.len() {
            let share = self.pace.share(items.cost(start..items.len()) as f64 * value_work);
            let range = items.take(start, (share / value_work) as u64);
            start = range.end;
            let work = items.cost(range.clone()) as f64 * value_work;
            let op = op(Some((&items, range)));
            yields.run("attention", || self.pace.measure(work, || out.inplace_op3(q, kv, &InPlace(op))))?;
        }
        ITEMS.set(items);
        Ok(())
    }
}

struct AttentionOp<'a> {
    attention: &'a Attention,
    pages: &'a Pages,
    /// The items that a CPU computes.
    items: Option<(&'a AttentionItems, Range<usize>)>,
}

/// Distance between rows, in values, of a matrix that may be columns of a wider one.
fn row_stride(layout: &Layout) -> Result<usize> {
    match layout.stride() {
        &[row_stride, 1] => Ok(row_stride),
        _ => candle_core::bail!("attention: expected rows, found {layout:?}"),
    }
}

/// Columns `offset..` of a matrix that may itself be columns of a wider one.
fn columns<'a>((storage, layout): CpuTensor<'a>, offset: usize) -> Result<RowView<'a>> {
    let data = &storage.as_slice::<f32>()?[layout.start_offset()..];
    Ok(RowView { data, row_stride: row_stride(layout)?, offset })
}

impl Operation<2> for AttentionOp<'_> {
    const NAME: &'static str = "attention";

    fn on_cpu(&self, out: CpuOutput<'_>, [q, kv]: [CpuTensor<'_>; 2]) -> Result<()> {
        let Some((items, range)) = &self.items else { candle_core::bail!("attention: no items") };
        let &Attention { layout, window, scale, softcap, ref bias, ref positions, rounds_factors, .. } = self.attention;
        let attention = prefold_kernels::Attention {
            q: columns(q, 0)?,
            k: columns(kv, 0)?,
            v: columns(kv, layout.num_kv_heads * layout.head_dim)?,
            pages: &self.pages.table,
            spans: &self.pages.spans,
            layout,
            scale,
            mask: self.pages.mask(),
            window,
            softcap,
            bias: bias.as_ref().map(|bias| &bias.host),
            positions: None,
        };
        with_element!(out.0, T => {
            let out = slice_mut::<T>(out)?;
            RelativePositions::on_host(positions.as_deref(), |positions| {
                let attention = prefold_kernels::Attention { positions, ..attention };
                let result = if rounds_factors {
                    attention.run_items::<bf16, T>(items, range.clone(), out)
                } else {
                    attention.run_items::<T, T>(items, range.clone(), out)
                };
                result.map_err(kernel_error)
            })
        })
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [q, kv]: [CudaTensor<'_>; 2]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view_mut, with_cuda_element, with_view};
        use prefold_kernels::cuda::{Attention as OnDevice, Columns};
        let cuda = cuda::of(q.0)?;
        let Some(DevicePages { plan, words: Some(words), .. }) = &self.pages.device else {
            candle_core::bail!("attention: the pages were not uploaded")
        };
        let &Attention { layout, window, scale, ref bias, ref positions, .. } = self.attention;
        let positions = positions.as_deref();
        with_cuda_element!(q.0, T => with_view::<u32, _>(words, |words| RelativePositions::on_device(positions, |positions| {
            let attention = OnDevice::<T> {
                q: Columns { data: q.0.as_cuda_slice::<T>()?.slice(q.1.start_offset()..), row_stride: row_stride(q.1)? },
                kv: Columns { data: kv.0.as_cuda_slice::<T>()?.slice(kv.1.start_offset()..), row_stride: row_stride(kv.1)? },
                plan: plan.on_device(words).map_err(kernel_error)?,
                layout,
                scale,
                window,
                bias: bias.as_ref().map(|bias| bias.on_device()).transpose()?,
                positions,
            };
            attention.run(&cuda.kernels, &mut view_mut::<T>(out)?).map_err(cuda_error)
        })))
    }
}
