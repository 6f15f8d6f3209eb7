//! Register blocks of attention: products of queries and keys, and of weights and values.

use crate::simd::{ColumnWords, Dot, RowWords, Vector, product};

/// Rows of a register block: as many as can be addressed with a stride without running out of registers.
pub(super) const MAX_ROWS: usize = 8;

/// What becomes of a register block.
///
/// A trait and not a closure, because its method is inlined at every place: an intrinsic that stays in a closure of
/// its own is compiled without its instruction set, as a call.
pub(super) trait BlockSink: Copy {
    /// Takes the sum of row `r` and vector `c`.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and what the sink points to has this row and vector.
    unsafe fn put<V: Vector>(self, r: usize, c: usize, sum: V);
}

/// Stores the products of queries and keys.
#[derive(Clone, Copy)]
pub(super) struct Scores(pub(super) *mut f32);

impl BlockSink for Scores {
    #[inline(always)]
    unsafe fn put<V: Vector>(self, r: usize, c: usize, sum: V) {
        // SAFETY: the caller's duty.
        unsafe { sum.store(line_vector::<V>(self.0, r, c)) }
    }
}

/// Adds to the sums of values so far, rescaled.
#[derive(Clone, Copy)]
pub(super) struct WeightedSums {
    pub(super) to: *mut f32,
    /// A line of what the sums so far are multiplied with.
    pub(super) factors: *mut f32,
    /// A line of path positions.
    pub(super) positions: *mut f32,
    /// Leaves the sums of queries at other path positions alone.
    pub(super) only: Option<usize>,
}

impl BlockSink for WeightedSums {
    #[inline(always)]
    unsafe fn put<V: Vector>(self, r: usize, c: usize, sum: V) {
        // SAFETY: the caller's duty.
        unsafe {
            let to = line_vector::<V>(self.to, r, c);
            let before = V::load(to);
            let mut sum = before.mul_add(V::load(line_vector::<V>(self.factors, 0, c)), sum);
            if let Some(only) = self.only {
                let only = V::splat(only as f32);
                let position = V::load(line_vector::<V>(self.positions, 0, c));
                sum = position.select_le(only, only.select_le(position, sum, before), before);
            }
            sum.store(to);
        }
    }
}

/// [`product`] for a number of rows and vectors known at run time.
///
/// # Safety
/// As [`product`], with `BLOCK_VECTORS` vectors; `1 <= rows <= MAX_ROWS`.
#[inline(always)]
pub(super) unsafe fn by_rows<D: Dot>(rows: usize, steps: usize, a: RowWords, b: *const u32, sink: impl BlockSink) {
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match rows {
                // SAFETY: the caller's duty.
                $($rows if $rows <= D::ROWS => unsafe { by_vectors::<D, $rows>(steps, a, b, sink) },)*
                _ => unreachable!("1 to MAX_ROWS rows"),
            }
        };
    }
    by_rows!(1 2 3 4 5 6 7 8);
}

/// # Safety
/// As [`by_rows`], for `R` rows.
#[inline(always)]
unsafe fn by_vectors<D: Dot, const R: usize>(steps: usize, a: RowWords, b: *const u32, sink: impl BlockSink) {
    // SAFETY: the caller's duty.
    unsafe {
        if D::V::BLOCK_VECTORS == 2 {
            let sums = product::<D, R, 2>(steps, a, lines(b, 2 * D::V::LANES));
            for r in 0..R {
                sink.put(r, 0, sums[r][0]);
                sink.put(r, 1, sums[r][1]);
            }
        } else {
            let sums = product::<D, R, 1>(steps, a, lines(b, D::V::LANES));
            for r in 0..R {
                sink.put(r, 0, sums[r][0]);
            }
        }
    }
}

/// Lines of so many words, and nothing beyond them.
#[inline(always)]
fn lines(start: *const u32, line: usize) -> ColumnWords {
    ColumnWords { start, line, panel: 0 }
}

/// Vector `c` of line `line`.
#[inline(always)]
pub(super) fn line_vector<V: Vector>(lines: *mut f32, line: usize, c: usize) -> *mut f32 {
    lines.wrapping_add((line * V::BLOCK_VECTORS + c) * V::LANES)
}
