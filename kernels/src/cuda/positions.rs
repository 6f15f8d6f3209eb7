//! Relative position embeddings on the device, for the kernels of `cuda/attention.cu` and `cuda/attention_plain.cu`.

use crate::attention::{DistanceRows, QkvLayout};
use crate::error::{KernelError, check_len};
use cudarc::driver::CudaView;

/// [`crate::RelativePositions`] in device memory.
#[derive(Debug)]
pub struct RelativePositions<'a, T> {
    /// Position keys, `[rows, num_heads * head_dim]`, multiplied with queries; `None` for no such term.
    pub keys: Option<CudaView<'a, T>>,
    /// Position queries, of the same shape, multiplied with keys; `None` for no such term.
    pub queries: Option<CudaView<'a, T>>,
    /// The row of each distance on the host.
    pub rows: &'a DistanceRows,
    /// A copy of [`DistanceRows::values`] in device memory.
    pub values: CudaView<'a, u32>,
}

impl<T> RelativePositions<'_, T> {
    /// Checks that each distance on a path of `longest` positions has a row, and that every table contains it.
    pub(super) fn check(&self, layout: QkvLayout, longest: usize) -> Result<(), KernelError> {
        let rows = self.rows.check(layout, longest)?;
        check_len("rows of distances on the device", self.rows.values().len(), self.values.len())?;
        for table in [&self.keys, &self.queries].into_iter().flatten() {
            let found = table.len() / layout.q_width();
            if rows > found {
                return Err(KernelError::Index { argument: "row of a distance", found: rows - 1, limit: found });
            }
        }
        Ok(())
    }
}
