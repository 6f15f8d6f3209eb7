//! Experts in the place of a feed-forward block, computed sparsely: the rows of each expert are gathered, and no expert sees others.
//!
//! A row's result is the sum over its experts in the order of their numbers, so that it does not depend on the other rows.
//!
//! The device of the rows lists and counts them, and the lists stay there. The host must know the counts to size the products (cuBLAS
//! takes dimensions from the host), so it waits for them once in each block of rows: one word for each expert. That takes a round trip
//! in each such layer; the alternatives are all experts for all rows, or products of prefold's own that read their sizes on the device.

use super::buffers::{Name, Workspace};
use super::feed_forward::Experts;
use crate::ops::{self, ExpertRows, Store};
use candle_core::{Result, Tensor};

impl Experts {
    /// Adds the block's output for the rows `x` to `residual`, which the router scores: the same rows, not rounded.
    pub(super) fn forward(&self, space: &mut Workspace<'_, '_>, x: &Tensor, residual: &Tensor) -> Result<()> {
        let Workspace { buffers, yields } = space;
        let rows = x.dim(0)?;
        let scores = buffers.rows(Name::RouterScores, rows)?;
        self.router.forward(residual, &scores, Store::Overwrite, yields)?;
        let listed = ExpertRows::route(&scores, self.top, &buffers.rows(Name::ExpertRows, rows)?, yields)?;
        // Not the residual stream itself, which may be what the next expert's rows are gathered from.
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
