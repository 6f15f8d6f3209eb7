//! Pooling on the device of the states, so that only pooled states are copied to the host.

use super::indices::{IndexPack, Indices, Slot};
use super::profile::timed;
use super::storage::{dims, slice, slice_mut};
#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};

pub(crate) use prefold_kernels::PoolKind;

/// Rows of the final states of which the pooled states of the sequences are made, one for each kind.
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

    /// Adds a pooled state; those of a sequence follow one another in the order of the kinds. One of no rows is zero, on a CPU.
    pub(crate) fn push(&mut self, rows: impl Iterator<Item = u32>) {
        self.starts.push(self.table.len() as u32);
        self.table.extend(rows);
    }

    /// Adds the rows to the indices of the batch.
    pub(crate) fn pack(&mut self, pack: &mut IndexPack) {
        self.starts.push(self.table.len() as u32);
        self.slots = Some([pack.push(&self.table), pack.push(&self.starts)]);
    }

    /// Finds what was packed.
    pub(crate) fn resolve(&mut self, indices: &Indices) -> Result<()> {
        if let Some([table, starts]) = &self.slots {
            self.tensors = Some([indices.get(table)?, indices.get(starts)?]);
        }
        Ok(())
    }

    /// Pooled states of a sequence.
    pub(crate) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Number of pooled states.
    pub(crate) fn len(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// `out[i]` = what is made of the rows of `x` of pooled state `i`; both are `f32`.
    pub(crate) fn forward(&self, x: &Tensor, out: &Tensor) -> Result<()> {
        timed("pool", || out.inplace_op2(x, self))
    }
}

impl InplaceOp2 for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, x: &CpuStorage, x_layout: &Layout) -> Result<()> {
        let (rows, width) = dims(x_layout)?;
        let (x, out) = (slice::<f32>(x, x_layout)?, slice_mut::<f32>(out, out_layout)?);
        let kinds = self.kinds.iter().cycle();
        for ((ends, out), kind) in self.starts.windows(2).zip(out.chunks_exact_mut(width)).zip(kinds) {
            let table = &self.table[ends[0] as usize..ends[1] as usize];
            if table.iter().any(|&row| row as usize >= rows) {
                candle_core::bail!("a pooled state was not computed");
            }
            if table.is_empty() {
                out.fill(0.0);
                continue;
            }
            // In the order of positions; what is made of one state is the state itself.
            for (i, &row) in table.iter().enumerate() {
                let state = &x[row as usize * width..][..width];
                let pairs = out.iter_mut().zip(state);
                match kind {
                    _ if i == 0 => pairs.for_each(|(out, x)| *out = *x),
                    PoolKind::Mean | PoolKind::MeanSqrtLen => pairs.for_each(|(sum, x)| *sum += x),
                    PoolKind::WeightedMean => pairs.for_each(|(sum, x)| *sum += x * (i + 1) as f32),
                    // NaN stays.
                    PoolKind::Max => {
                        pairs.for_each(|(max, x)| *max = if max.is_nan() || *x <= *max { *max } else { *x })
                    }
                }
            }
            let count = table.len() as f32;
            let scale = match kind {
                PoolKind::Mean => 1.0 / count,
                PoolKind::MeanSqrtLen => 1.0 / count.sqrt(),
                PoolKind::WeightedMean => 2.0 / (count * (count + 1.0)),
                PoolKind::Max => continue,
            };
            out.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(())
    }

    #[cfg(feature = "cuda")]
    fn cuda_fwd(&self, out: &mut CudaStorage, out_layout: &Layout, x: &CudaStorage, x_layout: &Layout) -> Result<()> {
        use super::cuda::{self, cuda_error, view, view_mut, with_view};
        let cuda = cuda::of(x)?;
        let &[kind] = self.kinds.as_slice() else {
            candle_core::bail!("pool: a GPU makes one pooled state of a sequence")
        };
        let Some([table, starts]) = &self.tensors else { candle_core::bail!("pool: the rows were not uploaded") };
        let (_, width) = x_layout.shape().dims2()?;
        let rows_end = self.table.iter().max().map_or(0, |&row| row as usize + 1);
        with_view::<u32, _>(table, |table| {
            with_view::<u32, _>(starts, |starts| {
                // The engine scales to unit length, after it has cut off dimensions that were not asked for.
                let pool = prefold_kernels::cuda::PoolRows { kind, table, starts, rows_end, normalize: false };
                let out = &mut view_mut::<f32>(out, out_layout)?;
                cuda.kernels.pool_rows(&view::<f32>(x, x_layout)?, width, &pool, out).map_err(cuda_error)
            })
        })
    }
}
