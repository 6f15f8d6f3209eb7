//! The destination of weighted values.

use super::{Products, line_vector};
use crate::simd::Vector;

/// Sums of values so far, `[dim, WIDTH]`, which are rescaled when something is added.
#[derive(Clone, Copy)]
pub(in super::super) struct WeightedSums {
    pub(in super::super) to: *mut f32,
    /// A line of factors of the sums so far.
    pub(in super::super) factors: *mut f32,
    /// A line of path positions.
    pub(in super::super) positions: *mut f32,
    /// Leaves the sums of queries at other path positions alone.
    pub(in super::super) only: Option<usize>,
}

impl WeightedSums {
    /// Adds to vector `c` of line `line`.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`, and the sums have this line and vector.
    #[inline(always)]
    pub(super) unsafe fn add<P: Products>(self, line: usize, c: usize, sum: P::V) {
        // SAFETY: the caller's duty.
        unsafe {
            let to = line_vector::<P>(self.to, line, c);
            let before = P::V::loadu(to);
            let mut sum = before.fmadd(P::V::loadu(line_vector::<P>(self.factors, 0, c)), sum);
            if let Some(only) = self.only {
                let only = P::V::set1(only as f32);
                let position = P::V::loadu(line_vector::<P>(self.positions, 0, c));
                sum = position.blend_le(only, only.blend_le(position, sum, before), before);
            }
            sum.storeu(to);
        }
    }
}
