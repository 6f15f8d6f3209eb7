//! Experts instead of a feed-forward block, computed sparsely: each expert runs only on its own rows, which are gathered.
//!
//! A row's result is the sum over its experts in the order of their numbers, so that it does not depend on the other rows.
//!
//! The device lists and counts the rows, and the lists stay there. cuBLAS takes the sizes of products from the host, so the host waits for
//! the counts once in each block of rows: one word for each expert, and a round trip in each such layer. The alternatives are all experts
//! for all rows, or own products that read their sizes on the device.

use super::buffers::{Name, Workspace};
use super::feed_forward::Experts;
use crate::ops::{self, ExpertRows, Store};
use candle_core::{Result, Tensor};

impl Experts {
    /// Adds the block's output for the rows `x` to `residual`, the same rows without rounding, which the router scores.
    pub(super) fn forward(&self, space: &mut Workspace<'_, '_>, x: &Tensor, residual: &Tensor) -> Result<()> {
        let Workspace { buffers, yields } = space;
        let rows = x.dim(0)?;
        let scores = buffers.rows(Name::RouterScores, rows)?;
        self.router.forward(residual, &scores, Store::Overwrite, yields)?;
        let listed = ExpertRows::route(&scores, self.top_k, &buffers.rows(Name::ExpertRows, rows)?, yields)?;
        // Summed apart from the residual stream, from which the next expert's rows may be gathered.
        let sum = buffers.rows(Name::ExpertSum, rows)?;
        ops::fill_rows(&sum, &self.bias, yields)?;
        for (index, (expert, count)) in self.experts.iter().zip(listed.counts()?).enumerate() {
            if count == 0 {
                continue;
            }
            let [rows, weights] = listed.of(index, count)?;
            let count = count as usize;
            let input = buffers.rows(Name::ExpertInput, count)?;
            ops::gather_rows(x, &rows, &input, yields)?;
            let activated = buffers.rows(Name::Activated, count)?;
            expert.up.forward_activated(self.activation, &input, &activated, yields)?;
            let output = buffers.rows(Name::ExpertOutput, count)?;
            expert.down.forward(&activated, &output, Store::Overwrite, yields)?;
            ops::scatter_add(&output, &rows, &weights, &sum, yields)?;
        }
        ops::add(&sum, residual, yields)
    }
}
