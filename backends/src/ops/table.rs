//! Tables of embeddings.

use super::rows::embed;
use super::storage::{kernel_error, slice, slice_mut};
use super::yields::Yields;
use crate::LoadError;
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};
use prefold_kernels::{QuantizedTable, Store};

/// A table of embeddings, `[rows, width]`.
#[derive(Debug)]
pub(crate) enum Table {
    /// In a floating-point type, on the device.
    Plain(Tensor),
    /// In int8, on the CPU.
    Quantized(QuantizedTable),
}

impl Table {
    /// Quantizes a table; `read` gives some of its rows.
    ///
    /// # Errors
    /// Rows cannot be read, or there is no memory.
    pub(crate) fn quantize(
        [rows, width]: [usize; 2],
        read: impl Fn(&[u32]) -> std::result::Result<Vec<f32>, LoadError>,
    ) -> std::result::Result<Self, LoadError> {
        /// Rows that are read at a time, so that few of them are in memory as f32.
        const ROWS: usize = 4096;
        let mut table = QuantizedTable::with_capacity(rows, width)?;
        let rows: Vec<u32> = (0..rows as u32).collect();
        for rows in rows.chunks(ROWS) {
            table.push(&read(rows)?)?;
        }
        Ok(Self::Quantized(table))
    }

    /// `out[i] = table[ids[i]]` as `f32`, or adds it.
    pub(crate) fn embed(&self, ids: &Tensor, out: &Tensor, store: Store, yields: &mut Yields<'_>) -> Result<()> {
        match self {
            Self::Plain(table) => embed(table, ids, out, store, yields),
            Self::Quantized(table) => {
                yields.run_rows("embed", [out, ids], |[out, ids]| out.inplace_op2(ids, &EmbedQuantized(table, store)))
            }
        }
    }
}

struct EmbedQuantized<'a>(&'a QuantizedTable, Store);

impl InplaceOp2 for EmbedQuantized<'_> {
    fn name(&self) -> &'static str {
        "embed"
    }

    fn cpu_fwd(&self, out: &mut CpuStorage, out_layout: &Layout, ids: &CpuStorage, ids_layout: &Layout) -> Result<()> {
        let Self(table, store) = self;
        let ids = slice::<u32>(ids, ids_layout)?;
        table.embed_rows(ids, *store, slice_mut::<f32>(out, out_layout)?).map_err(kernel_error)
    }
}
