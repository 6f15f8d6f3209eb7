//! Launcher of `cuda/rope.cu`.

use super::error::CudaError;
use super::launch::{Kernels, Launch, address, address_mut, is_aligned};
use super::names::{names, per_16_bytes};
use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use cudarc::driver::{CudaView, CudaViewMut};

/// Threads of a block.
const THREADS: usize = 128;

/// Neighbouring heads of a row that share a norm weight, as [`crate::HeadSpan`].
#[derive(Debug)]
pub struct RopeSpan<'a> {
    /// Column of the first head's first value.
    pub offset: usize,
    /// Number of heads.
    pub num_heads: usize,
    /// The weight of the RMSNorm before the rotation, `[head_dim]`; `None` for no norm.
    pub norm: Option<CudaView<'a, f32>>,
}

/// Per-head RMSNorm (where a span has a weight) and split-half RoPE, in place.
#[derive(Debug)]
pub struct QkNormRope<'a> {
    /// RoPE cache, `[positions, head_dim]`: a row is `[cos | sin]`.
    pub table: CudaView<'a, f32>,
    /// Values of a head.
    pub head_dim: usize,
    /// `[rows]`; a position outside the RoPE cache gives NaN.
    pub position_ids: CudaView<'a, u32>,
    /// Values of a row.
    pub row_width: usize,
    /// One or two spans of heads.
    pub spans: &'a [RopeSpan<'a>],
    /// Added to the mean square of the norm.
    pub eps: f32,
}

impl QkNormRope<'_> {
    /// Normalises and rotates the heads of `x`, `[rows, row_width]`.
    ///
    /// # Errors
    /// The lengths do not fit together, a span ends after the row, or there are more than two.
    pub fn run<T: Element>(&self, kernels: &Kernels, x: &mut CudaViewMut<'_, T>) -> Result<(), CudaError> {
        let rows = whole_rows("x", self.row_width, x.len())?;
        check_len("position ids", rows, self.position_ids.len())?;
        let positions = whole_rows("table", self.head_dim, self.table.len())?;
        if !self.head_dim.is_multiple_of(2) {
            return Err(KernelError::Value { argument: "head_dim", found: self.head_dim, expected: "even" }.into());
        }
        if self.spans.len() > 2 {
            return Err(KernelError::Index { argument: "head spans", found: self.spans.len(), limit: 3 }.into());
        }
        for span in self.spans {
            let end = span.offset + span.num_heads * self.head_dim;
            if end > self.row_width {
                let limit = self.row_width + 1;
                return Err(KernelError::Index { argument: "end of a head span", found: end, limit }.into());
            }
            if let Some(weight) = &span.norm {
                check_len("norm weight", self.head_dim, weight.len())?;
            }
        }
        let half = self.head_dim / 2;
        let items = rows * self.spans.iter().map(|span| span.num_heads).sum::<usize>();
        let items = u32::try_from(items).map_err(|_| KernelError::Index {
            argument: "heads of all rows",
            found: items,
            limit: 1 << 32,
        })?;
        let span = |index: usize| match self.spans.get(index) {
            Some(RopeSpan { offset, num_heads, norm }) => {
                [norm.as_ref().map_or(0, |norm| address(kernels, norm)), *offset as u64, *num_heads as u64]
            }
            None => [0; 3],
        };
        let ([q_norm, q_offset, q_heads], [k_norm, k_offset, k_heads]) = (span(0), span(1));
        let (table, position_ids) = (address(kernels, &self.table), address(kernels, &self.position_ids));
        let x = address_mut(kernels, x);
        let widths = [self.row_width, half, q_offset as usize, k_offset as usize];
        let wide = self.lanes::<T>().filter(|_| {
            widths.iter().all(|width| width.is_multiple_of(per_16_bytes::<T>()))
                && is_aligned(&[x, table, q_norm, k_norm])
        });
        let launch = Launch {
            name: names::<T>().qk_norm_rope[usize::from(wide.is_some())],
            blocks: (items as usize).div_ceil(THREADS / wide.unwrap_or(32)),
            threads: THREADS as u32,
            shared_bytes: 0,
        };
        let sizes = [rows, self.row_width, half, positions].map(|size| size as u64);
        let arguments = [x, position_ids, table, q_norm, q_offset, q_heads, k_norm, k_offset, k_heads];
        kernels.launch(launch, &[&arguments[..], &sizes, &[self.eps.to_bits().into()]].concat())
    }

    /// Lanes per head if each lane takes 16 bytes of both halves; `None` if a warp cannot be divided this way.
    fn lanes<T: Element>(&self) -> Option<usize> {
        Some(self.head_dim / 2 / per_16_bytes::<T>()).filter(|lanes| lanes.is_power_of_two() && *lanes <= 32)
    }
}
