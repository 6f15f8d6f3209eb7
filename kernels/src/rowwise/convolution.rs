//! Gated short convolutions along the paths of rows.

use super::rows::for_row_blocks;
use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};

/// Channels that are summed together, so that the sums stay in registers and caches.
const CHANNELS: usize = 64;

/// A convolution of each channel alone over the neighbours of a row, with a gate before it and one after it:
/// `out[i][c] = after[i][c] * (bias[c] + sum over k of weight[k][c] * before[t][c] * x[t][c])`, where `t = taps[i][k]`.
///
/// A causal convolution over a prefix tree follows the ancestors of a row, which need not be the rows before it; hence the indices.
#[derive(Debug, Clone, Copy)]
pub struct ShortConvolution<'a> {
    /// `[taps, width]`
    pub weight: &'a [f32],
    /// `[width]`
    pub bias: Option<&'a [f32]>,
    /// Channels.
    pub width: usize,
    /// The tap that is the row itself.
    pub own: usize,
}

impl ShortConvolution<'_> {
    /// The index of a neighbour that does not exist, whose term is missing. A row that is not its own neighbour gets zeros.
    pub const NONE: u32 = u32::MAX;

    /// Neighbours of a row.
    ///
    /// # Errors
    /// The weight is not a whole number of rows, or has no row `own`.
    pub fn taps(&self) -> Result<usize, KernelError> {
        let taps = whole_rows("weight", self.width, self.weight.len())?;
        if self.own >= taps {
            return Err(KernelError::Index { argument: "own", found: self.own, limit: taps });
        }
        Ok(taps)
    }

    /// Computes all rows of `out`, `[rows, width]`. `gated` is `[computed rows, 3 * width]`: the gate before, the gate after, and the
    /// input. `taps` is `[rows, taps]`.
    ///
    /// # Errors
    /// If the lengths do not fit together, or a neighbour is not a row of `gated`.
    pub fn run<E: Element>(&self, gated: &[f32], taps: &[u32], out: &mut [E]) -> Result<(), KernelError> {
        let count = self.taps()?;
        let computed = whole_rows("gated", 3 * self.width, gated.len())?;
        let rows = whole_rows("taps", count, taps.len())?;
        check_len("out", rows * self.width, out.len())?;
        if let Some(bias) = self.bias {
            check_len("bias", self.width, bias.len())?;
        }
        if let Some(&bad) = taps.iter().find(|&&row| row != Self::NONE && row as usize >= computed) {
            return Err(KernelError::Index { argument: "taps", found: bad as usize, limit: computed });
        }
        for_row_blocks(out, self.width, |first, out| {
            for (taps, out) in taps[first * count..].chunks_exact(count).zip(out.chunks_exact_mut(self.width)) {
                self.row(gated, taps, out);
            }
        });
        Ok(())
    }

    fn row<E: Element>(&self, gated: &[f32], taps: &[u32], out: &mut [E]) {
        let own = taps[self.own];
        if own == Self::NONE {
            return out.fill(E::from_f32(0.0));
        }
        let of_row = |row: u32, part: usize| &gated[row as usize * 3 * self.width + part * self.width..][..self.width];
        for (start, out) in (0..self.width).step_by(CHANNELS).zip(out.chunks_mut(CHANNELS)) {
            let channels = start..start + out.len();
            let mut sums = [0.0; CHANNELS];
            if let Some(bias) = self.bias {
                sums[..out.len()].copy_from_slice(&bias[channels.clone()]);
            }
            for (weight, &row) in self.weight.chunks_exact(self.width).zip(taps).filter(|(_, row)| **row != Self::NONE)
            {
                let (before, x) = (&of_row(row, 0)[channels.clone()], &of_row(row, 2)[channels.clone()]);
                let terms = weight[channels.clone()].iter().zip(before).zip(x);
                sums.iter_mut().zip(terms).for_each(|(sum, ((weight, before), x))| *sum += weight * (before * x));
            }
            let after = &of_row(own, 1)[channels];
            out.iter_mut().zip(after).zip(&sums).for_each(|((out, after), sum)| *out = E::from_f32(after * sum));
        }
    }
}
