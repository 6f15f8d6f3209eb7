//! Pooling on the device of the states, so that only pooled states are copied to the host.

use crate::ops::memory::indices::{IndexPack, Indices, Slot};
use crate::ops::pacing::yields::{Yields, block_rows};
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{dims, slice, slice_mut};
use candle_core::{Result, Tensor};
use std::ops::Range;

pub(crate) use prefold_kernels::PoolKind;

/// Rows of the final states that are pooled, for each sequence and kind of pooling.
#[derive(Debug)]
pub(crate) struct Pool {
    kinds: Vec<PoolKind>,
    table: Vec<u32>,
    starts: Vec<u32>,
    slots: Option<[Slot; 2]>,
    tensors: Option<[Tensor; 2]>,
}

impl Pool {
    pub(crate) fn new(kinds: Vec<PoolKind>) -> Self {
        Self { kinds, table: Vec::new(), starts: Vec::new(), slots: None, tensors: None }
    }

    /// Adds a pooled state. A sequence's pooled states follow one another in the order of the kinds. The pool of no rows is zero.
    pub(crate) fn push(&mut self, rows: impl Iterator<Item = u32>) {
        self.starts.push(self.table.len() as u32);
        self.table.extend(rows);
    }

    /// Adds the rows to the indices of the batch.
    pub(crate) fn pack(&mut self, pack: &mut IndexPack) {
        self.starts.push(self.table.len() as u32);
        self.slots = Some([pack.push(&self.table), pack.push(&self.starts)]);
    }

    /// Finds the packed rows on the device.
    pub(crate) fn resolve(&mut self, indices: &Indices) -> Result<()> {
        if let Some([table, starts]) = &self.slots {
            self.tensors = Some([indices.get(table)?, indices.get(starts)?]);
        }
        Ok(())
    }

    /// The rows alone, for states on the host.
    pub(crate) fn on_host(self) -> Self {
        Self { tensors: None, ..self }
    }

    /// Pooled states of a sequence.
    pub(crate) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Number of pooled states.
    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// `out[i]` = the pool of the rows of `x` that belong to pooled state `i`; both are `f32`.
    pub(crate) fn forward(&self, x: &Tensor, out: &Tensor, yields: &mut Yields<'_>) -> Result<()> {
        let all = self.table.len();
        let block = if x.device().is_cpu() { block_rows(x.dim(1)?) } else { all.max(1) };
        // Pooled states of no rows are written too.
        for start in (0..all.max(1)).step_by(block) {
            let entries = start..all.min(start + block);
            yields.run("pool", || out.inplace_op2(x, &InPlace(PoolOp { pool: self, entries })))?;
        }
        Ok(())
    }

    /// Adds the rows of a pooled state among the `entries` of the table to `out`, and scales it after the last one.
    fn add_rows(
        &self,
        kind: PoolKind,
        (state, entries): (Range<usize>, Range<usize>),
        (x, width): (&[f32], usize),
        out: &mut [f32],
    ) -> Result<()> {
        let own = state.start.max(entries.start)..state.end.min(entries.end);
        if own.is_empty() {
            return Ok(());
        }
        // In the order of positions; a single row is returned unchanged.
        for entry in own.clone() {
            let (i, row) = (entry - state.start, self.table[entry] as usize);
            let Some(values) = x.get(row * width..(row + 1) * width) else {
                candle_core::bail!("a pooled state was not computed")
            };
            let pairs = out.iter_mut().zip(values);
            match kind {
                _ if i == 0 => pairs.for_each(|(out, x)| *out = *x),
                PoolKind::Mean | PoolKind::MeanSqrtLen => pairs.for_each(|(sum, x)| *sum += x),
                PoolKind::WeightedMean => pairs.for_each(|(sum, x)| *sum += x * (i + 1) as f32),
                // A NaN is kept.
                PoolKind::Max => pairs.for_each(|(max, x)| *max = if max.is_nan() || *x <= *max { *max } else { *x }),
            }
        }
        if own.end < state.end {
            return Ok(());
        }
        let count = state.len() as f32;
        let scale = match kind {
            PoolKind::Mean => 1.0 / count,
            PoolKind::MeanSqrtLen => 1.0 / count.sqrt(),
            PoolKind::WeightedMean => 2.0 / (count * (count + 1.0)),
            PoolKind::Max => return Ok(()),
        };
        out.iter_mut().for_each(|x| *x *= scale);
        Ok(())
    }
}

/// Pooling of some entries of a pool's table; the states at the ends may be incomplete.
struct PoolOp<'a> {
    pool: &'a Pool,
    entries: Range<usize>,
}

impl Operation<1> for PoolOp<'_> {
    const NAME: &'static str = "pool";

    fn on_cpu(&self, out: CpuOutput<'_>, [x]: [CpuTensor<'_>; 1]) -> Result<()> {
        let (_, width) = dims(x.1)?;
        let (x, out) = (slice::<f32>(x)?, slice_mut::<f32>(out)?);
        let Self { pool, entries } = self;
        let kinds = pool.kinds.iter().cycle();
        for ((ends, out), &kind) in pool.starts.windows(2).zip(out.chunks_exact_mut(width)).zip(kinds) {
            let state = ends[0] as usize..ends[1] as usize;
            if state.is_empty() && entries.start == 0 {
                out.fill(0.0);
            } else {
                pool.add_rows(kind, (state, entries.clone()), (x, width), out)?;
            }
        }
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, out: CudaOutput<'_>, [x]: [CudaTensor<'_>; 1]) -> Result<()> {
        use crate::ops::tensor::cuda::{self, cuda_error, view, view_mut, with_view};
        let cuda = cuda::of(x.0)?;
        let &[kind] = self.pool.kinds.as_slice() else {
            candle_core::bail!("pool: a GPU computes one pooled state per sequence")
        };
        let Some([table, starts]) = &self.pool.tensors else { candle_core::bail!("pool: the rows were not uploaded") };
        let (_, width) = x.1.shape().dims2()?;
        let rows_end = self.pool.table.iter().max().map_or(0, |&row| row as usize + 1);
        with_view::<u32, _>(table, |table| {
            with_view::<u32, _>(starts, |starts| {
                // The engine scales to unit length, after truncation to the requested dimensions.
                let pool = prefold_kernels::cuda::PoolRows { kind, table, starts, rows_end, normalize: false };
                let out = &mut view_mut::<f32>(out)?;
                cuda.kernels.pool_rows(&view::<f32>(x)?, width, &pool, out).map_err(cuda_error)
            })
        })
    }
}
