//! The products by register blocks, with a line of queries as packed B.

use super::{Factors, Products, WeighedValues, WeightedSums, line_vector};
use crate::simd::{ColumnWords, FloatDot, RowTiles, RowWords, Vector, for_rows, product};
use std::marker::PhantomData;

/// Rows of a register block (MR): the most that can be addressed with a stride without running out of registers.
const MAX_MR: usize = 8;

/// The products by the dot product `D`.
pub(crate) struct OnVectors<D>(PhantomData<D>);

impl<D> OnVectors<D> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

impl<D: FloatDot> Products for OnVectors<D> {
    type V = D::V;
    type Element = D::Element;
    const ELEMENTS: usize = D::ELEMENTS;
    const VECTORS: usize = D::VECTORS;
    const STEP: usize = 1;
    const IS_ARRANGED: bool = false;

    #[inline(always)]
    fn round(values: D::V) -> D::V {
        D::round(values)
    }

    #[inline(always)]
    unsafe fn arrange(_: &[u32], _: usize, _: &mut [u32]) {}

    #[inline(always)]
    unsafe fn score(&mut self, factors: Factors<'_>, count: usize, scores: &mut [u32]) {
        let Factors { keys, queries, row_words, vectors } = factors;
        let (keys, queries) = (&keys[..count * row_words], &queries[..row_words * D::NR]);
        let scores = &mut scores[..count * D::NR];
        let tiles = RowTiles::new(count, D::MR.min(MAX_MR));
        for tile in 0..tiles.count() {
            let rows = tiles.rows(tile);
            let a = RowWords { start: keys[rows.start * row_words..].as_ptr(), step: 1, row: row_words };
            let to = Scores(scores[rows.start * D::NR..].as_mut_ptr().cast());
            // SAFETY: `a` has the words of its rows, `queries` a line for each word, `scores` one for each row.
            unsafe { by_rows::<D>((rows.len(), vectors), row_words, a, queries.as_ptr(), to) };
        }
    }

    #[inline(always)]
    unsafe fn weigh(&mut self, factors: WeighedValues<'_>, count: usize, sums: WeightedSums) {
        let WeighedValues { values, weights, dim, vectors } = factors;
        let steps = count.div_ceil(D::ELEMENTS);
        let (values, weights) = (&values[..steps * dim], &weights[..steps * D::NR]);
        let tiles = RowTiles::new(dim, D::MR.min(MAX_MR));
        for tile in 0..tiles.count() {
            let rows = tiles.rows(tile);
            let a = RowWords { start: values[rows.start..].as_ptr(), step: dim, row: 1 };
            let sums = WeightedSums { to: line_vector::<Self>(sums.to, rows.start, 0), ..sums };
            // SAFETY: `a` has `steps` lines of `dim` words, `weights` as many of a line's width; the sums are the caller's
            // duty.
            unsafe { by_rows::<D>((rows.len(), vectors), steps, a, weights.as_ptr(), sums) };
        }
    }
}

/// Destination of a register block's sums.
///
/// A trait rather than a closure, because its method is always inlined: an intrinsic in a closure that is not inlined
/// is compiled without its instruction set, as a call.
trait BlockSink: Copy {
    /// Takes the sum of row `r` and vector `c`.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`, and what the sink points to has this row and vector.
    unsafe fn put<D: FloatDot>(self, r: usize, c: usize, sum: D::V);
}

/// Stores the products of queries and keys.
#[derive(Clone, Copy)]
struct Scores(*mut f32);

impl BlockSink for Scores {
    #[inline(always)]
    unsafe fn put<D: FloatDot>(self, r: usize, c: usize, sum: D::V) {
        // SAFETY: the caller's duty.
        unsafe { sum.storeu(line_vector::<OnVectors<D>>(self.0, r, c)) }
    }
}

impl BlockSink for WeightedSums {
    #[inline(always)]
    unsafe fn put<D: FloatDot>(self, r: usize, c: usize, sum: D::V) {
        // SAFETY: the caller's duty.
        unsafe { self.add::<OnVectors<D>>(r, c, sum) }
    }
}

/// [`product`] for numbers of rows and vectors known only at run time.
///
/// # Safety
/// As [`product`]; `1 <= rows <= MAX_MR`, `1 <= vectors <= D::VECTORS`.
#[inline(always)]
unsafe fn by_rows<D: FloatDot>(
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
                $($rows if $rows <= D::MR => unsafe { by_vectors::<D, $rows>(vectors, steps, a, b, sink) },)*
                _ => unreachable!("1 to MAX_MR rows"),
            }
        };
    }
    by_rows!(1 2 3 4 5 6 7 8);
}

/// # Safety
/// As [`by_rows`], for `R` rows.
#[inline(always)]
unsafe fn by_vectors<D: FloatDot, const R: usize>(
    vectors: usize,
    steps: usize,
    a: RowWords,
    b: *const u32,
    sink: impl BlockSink,
) {
    // SAFETY: the caller's duty.
    unsafe {
        if D::VECTORS == 2 && vectors == 2 {
            let sums = product::<D, R, 2>(steps, a, lines(b, D::NR));
            for_rows!(r < R, {
                sink.put::<D>(r, 0, D::to_vector(sums[r][0]));
                sink.put::<D>(r, 1, D::to_vector(sums[r][1]));
            });
        } else {
            let sums = product::<D, R, 1>(steps, a, lines(b, D::NR));
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
