//! Rotary embedding, with the RMSNorm of q and k that some families put before it.

use super::storage::{dims, slice, slice_mut};
use super::{kernel_error, timed};
use candle_core::{CpuStorage, InplaceOp2, Layout, Result, Tensor};
use prefold_kernels::{QkNormRope, RopeTable};

pub(crate) use prefold_kernels::HeadSpan;

/// Rotates heads in place by their row's position (split halves, as in the published models).
#[derive(Debug)]
pub(crate) struct Rotary {
    table: RopeTable,
    norm_eps: f32,
}

impl Rotary {
    /// `inverse_frequencies` is `[head_dim / 2]`; positions must stay below `positions`.
    pub(crate) fn new(inverse_frequencies: &[f64], positions: usize, norm_eps: f32) -> Self {
        Self { table: RopeTable::new(inverse_frequencies, positions), norm_eps }
    }

    /// Treats the given heads of each row of `x` (`f32`); `position_ids` is `[rows]` of `u32`.
    pub(crate) fn forward(&self, x: &Tensor, position_ids: &Tensor, spans: &[HeadSpan<'_>]) -> Result<()> {
        timed("rotary", || x.inplace_op2(position_ids, &RotaryOp { rotary: self, spans }))
    }
}

struct RotaryOp<'a> {
    rotary: &'a Rotary,
    spans: &'a [HeadSpan<'a>],
}

impl InplaceOp2 for RotaryOp<'_> {
    fn name(&self) -> &'static str {
        "rotary"
    }

    fn cpu_fwd(&self, x: &mut CpuStorage, x_layout: &Layout, positions: &CpuStorage, p_layout: &Layout) -> Result<()> {
        let (_, row_width) = dims(x_layout)?;
        let position_ids = slice::<u32>(positions, p_layout)?;
        let Rotary { table, norm_eps } = self.rotary;
        let rotation = QkNormRope { table, position_ids, row_width, spans: self.spans, eps: *norm_eps };
        rotation.run(slice_mut::<f32>(x, x_layout)?).map_err(kernel_error)
    }
}
