//! Register blocks of attention: products of queries and keys, and of weights and values.

use crate::simd::{ColumnWords, Dot, RowWords, Vector, for_rows, product};

/// Rows of a register block: as many as can be addressed with a stride without running out of registers.
pub(super) const MAX_ROWS: usize = 8;

/// Destination of a register block's sums.
///
/// A trait and not a closure, because its method is inlined at every place: an intrinsic that stays in a closure of
/// its own is compiled without its instruction set, as a call.
pub(super) trait BlockSink: Copy {
    /// Takes the sum of row `r` and vector `c`.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`, and what the sink points to has this row and vector.
    unsafe fn put<D: Dot>(self, r: usize, c: usize, sum: D::V);
}

/// Stores the products of queries and keys.
#[derive(Clone, Copy)]
pub(super) struct Scores(pub(super) *mut f32);

impl BlockSink for Scores {
    #[inline(always)]
    unsafe fn put<D: Dot>(self, r: usize, c: usize, sum: D::V) {
        // SAFETY: the caller's duty.
        unsafe { sum.storeu(line_vector::<D>(self.0, r, c)) }
    }
}

/// Adds to the sums of values so far, rescaled.
#[derive(Clone, Copy)]
pub(super) struct WeightedSums {
    pub(super) to: *mut f32,
    /// A line of factors of the sums so far.
    pub(super) factors: *mut f32,
    /// A line of path positions.
    pub(super) positions: *mut f32,
    /// Leaves the sums of queries at other path positions alone.
    pub(super) only: Option<usize>,
}

impl BlockSink for WeightedSums {
    #[inline(always)]
    unsafe fn put<D: Dot>(self, r: usize, c: usize, sum: D::V) {
        // SAFETY: the caller's duty.
        unsafe {
            let to = line_vector::<D>(self.to, r, c);
            let before = D::V::loadu(to);
            let mut sum = before.fmadd(D::V::loadu(line_vector::<D>(self.factors, 0, c)), sum);
            if let Some(only) = self.only {
                let only = D::V::set1(only as f32);
                let position = D::V::loadu(line_vector::<D>(self.positions, 0, c));
                sum = position.blend_le(only, only.blend_le(position, sum, before), before);
            }
            sum.storeu(to);
        }
    }
}

/// [`product`] for a number of rows and vectors known at run time.
///
/// # Safety
/// As [`product`]; `1 <= rows <= MAX_ROWS`, `1 <= vectors <= D::VECTORS`.
#[inline(always)]
pub(super) unsafe fn by_rows<D: Dot>(
    (rows, vectors): (usize, usize),
    steps: usize,
    a: RowWords,
    b: *const u32,
    sink: impl BlockSink,
) {
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match rows {
                // SAFETY: the caller's duty.
                $($rows if $rows <= D::ROWS => unsafe { by_vectors::<D, $rows>(vectors, steps, a, b, sink) },)*
                _ => unreachable!("1 to MAX_ROWS rows"),
            }
        };
    }
    by_rows!(1 2 3 4 5 6 7 8);
}

/// # Safety
/// As [`by_rows`], for `R` rows.
#[inline(always)]
unsafe fn by_vectors<D: Dot, const R: usize>(
    vectors: usize,
    steps: usize,
    a: RowWords,
    b: *const u32,
    sink: impl BlockSink,
) {
    // SAFETY: the caller's duty.
    unsafe {
        if D::VECTORS == 2 && vectors == 2 {
            let sums = product::<D, R, 2>(steps, a, lines(b, D::WIDTH));
            for_rows!(r < R, {
                sink.put::<D>(r, 0, D::to_vector(sums[r][0]));
                sink.put::<D>(r, 1, D::to_vector(sums[r][1]));
            });
        } else {
            let sums = product::<D, R, 1>(steps, a, lines(b, D::WIDTH));
            for_rows!(r < R, {
                sink.put::<D>(r, 0, D::to_vector(sums[r][0]));
            });
        }
    }
}

/// Lines of `line` words and no further panels.
#[inline(always)]
fn lines(start: *const u32, line: usize) -> ColumnWords {
    ColumnWords { start, line, panel: 0 }
}

/// Vector `c` of line `line`.
#[inline(always)]
pub(super) fn line_vector<D: Dot>(lines: *mut f32, line: usize, c: usize) -> *mut f32 {
    lines.wrapping_add(line * D::WIDTH + c * D::V::LANES)
}
