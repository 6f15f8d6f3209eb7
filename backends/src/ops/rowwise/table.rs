//! Tables of embeddings.

use crate::error::LoadError;
use crate::ops::pacing::yields::Yields;
use crate::ops::rowwise::rows::embed;
use crate::ops::tensor::operation::{CpuOutput, CpuTensor, InPlace, Operation};
#[cfg(feature = "cuda")]
use crate::ops::tensor::operation::{CudaOutput, CudaTensor};
use crate::ops::tensor::storage::{kernel_error, slice, slice_mut};
use candle_core::{Result, Tensor};
use prefold_kernels::{QuantizedTable, Store};
use std::ops::Range;

/// A table of embeddings, `[rows, width]`.
#[derive(Debug)]
pub(crate) enum Table {
    /// In a floating-point type, on the device.
    Plain(Tensor),
    /// In int8, on the CPU.
    Quantized(QuantizedTable),
}

impl Table {
    /// Quantizes a table; `read` gives some of its rows, on several threads.
    ///
    /// # Errors
    /// Rows cannot be read, or there is no memory.
    pub(crate) fn quantize(
        shape: [usize; 2],
        read: impl Fn(&[u32]) -> std::result::Result<Vec<f32>, LoadError> + Sync,
    ) -> std::result::Result<Self, LoadError> {
        let read = |rows: Range<usize>| read(&rows.map(|row| row as u32).collect::<Vec<_>>());
        Ok(Self::Quantized(QuantizedTable::quantize(shape, read)?))
    }

    /// `out[i] = table[ids[i]]` as `f32`, or adds it.
    pub(crate) fn embed(&self, ids: &Tensor, out: &Tensor, store: Store, yields: &mut Yields<'_>) -> Result<()> {
        match self {
            Self::Plain(table) => embed(table, ids, out, store, yields),
            Self::Quantized(table) => yields.run_rows("embed", [out, ids], |[out, ids]| {
                out.inplace_op2(ids, &InPlace(EmbedQuantized(table, store)))
            }),
        }
    }
}

struct EmbedQuantized<'a>(&'a QuantizedTable, Store);

impl Operation<1> for EmbedQuantized<'_> {
    const NAME: &'static str = "embed";

    fn on_cpu(&self, out: CpuOutput<'_>, [ids]: [CpuTensor<'_>; 1]) -> Result<()> {
        let Self(table, store) = self;
        let ids = slice::<u32>(ids)?;
        table.embed_rows(ids, *store, slice_mut::<f32>(out)?).map_err(kernel_error)
    }

    #[cfg(feature = "cuda")]
    fn on_cuda(&self, _: CudaOutput<'_>, _: [CudaTensor<'_>; 1]) -> Result<()> {
        candle_core::bail!("embed: a quantized table is on the CPU")
    }
}
