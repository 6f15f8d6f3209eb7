//! The register block: the micro-kernel of every matrix product.

use super::{Dot, Vector};
use std::ops::Range;

/// Maximum MR, the rows of a register block.
pub(crate) const MAX_MR: usize = 14;

/// Unrolls a block for each row `$r` below `$rows`, at most [`MAX_MR`], with the row as a constant.
///
/// In a loop that the compiler does not unroll, it would keep the sums in memory rather than in registers.
macro_rules! for_rows {
    ($r:ident < $rows:ident, $block:block) => {
        for_rows!($r < $rows, $block, 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    ($r:ident < $rows:ident, $block:block, $($row:literal)*) => {
        $(if $row < $rows {
            let $r: usize = $row;
            $block
        })*
    };
}
pub(crate) use for_rows;

/// Addresses of A in a [`product`]: word `s` of row `r` is at `start + s * step + r * row`.
#[derive(Clone, Copy)]
pub(crate) struct RowWords {
    pub(crate) start: *const u32,
    pub(crate) step: usize,
    pub(crate) row: usize,
}

/// Addresses of B in a [`product`]: a line of `line` words for each step; columns beyond a line are in further panels,
/// `panel` words apart.
#[derive(Clone, Copy)]
pub(crate) struct ColumnWords {
    pub(crate) start: *const u32,
    pub(crate) line: usize,
    pub(crate) panel: usize,
}

impl ColumnWords {
    /// Address of a step's word of a column.
    ///
    /// # Safety
    /// The step and the column exist.
    #[inline(always)]
    unsafe fn at(self, step: usize, column: usize) -> *const u32 {
        let offset = column / self.line * self.panel + step * self.line + column % self.line;
        // SAFETY: the caller's duty.
        unsafe { self.start.add(offset) }
    }
}

/// Sums over `steps` words of `R` rows times `C` vectors of columns, held in registers.
///
/// Each sum is one chain in the order of the steps, for all `R` and `C`, so that a row's result does not depend on the other rows.
///
/// # Safety
/// The CPU has the instructions of `D`; the words of `a` for `R` rows, and `C` vectors at each step of `b`, may be
/// read.
#[inline(always)]
pub(crate) unsafe fn product<D: Dot, const R: usize, const C: usize>(
    steps: usize,
    a: RowWords,
    b: ColumnWords,
) -> [[D::Sums; C]; R] {
    // SAFETY: the caller's duty; every address is one that it promised.
    unsafe {
        // Not a loop of zeros, for the same reason as `for_rows`. Sums are numbers, and numbers of zero bits are zero.
        let mut sums: [[D::Sums; C]; R] = std::mem::zeroed();
        for s in 0..steps {
            add_step::<D, R, C>(&mut sums, a.start.add(s * a.step), a.row, load::<D, C>(b, s));
        }
        sums
    }
}

/// [`product`] with `b` in `steps` packed words, which are widened on the fly, each for two words of the rows. Gives the
/// same bits as with widened columns.
///
/// # Safety
/// As [`product`].
#[inline(always)]
pub(crate) unsafe fn product_widening<D: Dot, const R: usize, const C: usize>(
    steps: usize,
    a: RowWords,
    b: ColumnWords,
) -> [[D::Sums; C]; R] {
    // SAFETY: the caller's duty; every address is one that it promised.
    unsafe {
        let mut sums: [[D::Sums; C]; R] = std::mem::zeroed();
        for s in 0..steps {
            let packed = load::<D, C>(b, s);
            let (mut low, mut high) = (packed, packed);
            for c in 0..C {
                (low[c], high[c]) = D::widen_columns(packed[c]);
            }
            let a_step = a.start.add(2 * s * a.step);
            add_step::<D, R, C>(&mut sums, a_step, a.row, low);
            add_step::<D, R, C>(&mut sums, a_step.add(a.step), a.row, high);
        }
        sums
    }
}

/// The words of a step.
///
/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn load<D: Dot, const C: usize>(b: ColumnWords, step: usize) -> [D::V; C] {
    // SAFETY: the caller's duty.
    unsafe {
        let mut columns = [D::V::loadu(b.at(step, 0).cast()); C];
        for c in 1..C {
            columns[c] = D::V::loadu(b.at(step, c * D::V::LANES).cast());
        }
        columns
    }
}

/// Adds the products of a step; the words of the rows are `row` apart.
///
/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn add_step<D: Dot, const R: usize, const C: usize>(
    sums: &mut [[D::Sums; C]; R],
    a: *const u32,
    row: usize,
    columns: [D::V; C],
) {
    // SAFETY: the caller's duty.
    unsafe {
        for_rows!(r < R, {
            let row = D::V::set1(f32::from_bits(*a.add(r * row)));
            for c in 0..C {
                sums[r][c] = D::fmadd(sums[r][c], row, columns[c]);
            }
        });
    }
}

/// Rows split into register blocks whose sizes differ by at most one, so that no block is left with few rows.
pub(crate) struct RowTiles {
    rows: usize,
    count: usize,
}

impl RowTiles {
    pub(crate) fn new(rows: usize, max_rows: usize) -> Self {
        Self { rows, count: rows.div_ceil(max_rows) }
    }

    /// Number of register blocks.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The rows of a register block.
    #[inline(always)]
    pub(crate) fn rows(&self, tile: usize) -> Range<usize> {
        self.rows * tile / self.count..self.rows * (tile + 1) / self.count
    }
}
