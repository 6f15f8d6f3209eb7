//! The product by register blocks.

use super::{Before, Panel, Products, Rows, Sums};
use crate::simd::{ColumnWords, FloatDot, RowTiles, RowWords, Vector, for_rows, product};
use crate::tiles::Between;
use std::marker::PhantomData;

/// Rows of a register block (MR): the most that can be addressed with a stride without running out of registers.
const MAX_MR: usize = 8;

/// The product by the dot product `D`.
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

    #[inline(always)]
    fn pieces(_len: usize, _columns: usize) -> usize {
        0
    }

    #[inline(always)]
    fn round(values: D::V) -> D::V {
        D::round(values)
    }

    #[inline(always)]
    unsafe fn multiply(&mut self, rows: Rows<'_>, panel: Panel<'_>, sums: Sums<'_>, _between: &mut impl Between) {
        let b = ColumnWords { start: panel.words[..rows.len * D::NR].as_ptr(), line: D::NR, panel: 0 };
        let blocks = RowTiles::new(rows.count, D::MR.min(MAX_MR));
        for block in 0..blocks.count() {
            let some = blocks.rows(block);
            let a = RowWords { start: rows.words[some.start * rows.stride..].as_ptr(), step: 1, row: rows.stride };
            let before = match sums.before {
                Before::Rescaled(factors) => Before::Rescaled(&factors[some.clone()]),
                before => before,
            };
            let sums = Sums { to: sums.vector::<D::V>(some.start, 0), before, ..sums };
            // SAFETY: the caller's duty.
            unsafe { by_rows::<D>((some.len(), panel.vectors), rows.len, a, b, sums) };
        }
    }
}

/// Adds the product to the sum of row `r` and vector `c`.
///
/// # Safety
/// The CPU has the instructions of `D`, and the sums have this row and vector.
#[inline(always)]
unsafe fn put<D: FloatDot>(sums: &Sums<'_>, r: usize, c: usize, product: D::V) {
    let to = sums.vector::<D::V>(r, c);
    // SAFETY: the caller's duty.
    unsafe {
        let sum = match sums.before {
            Before::Zero => product,
            Before::Kept => D::V::loadu(to).add(product),
            Before::Rescaled(factors) => D::V::loadu(to).fmadd(D::V::set1(factors[r]), product),
        };
        sum.storeu(to);
    }
}

/// [`product`] for numbers of rows and vectors known only at run time.
///
/// # Safety
/// As [`product`]; `1 <= rows <= MAX_MR`, `1 <= vectors <= D::VECTORS`; the sums have these rows and vectors.
#[inline(always)]
unsafe fn by_rows<D: FloatDot>(
    (rows, vectors): (usize, usize),
    steps: usize,
    a: RowWords,
    b: ColumnWords,
    sums: Sums<'_>,
) {
    macro_rules! by_rows {
        ($($rows:literal)*) => {
            match rows {
                // SAFETY: the caller's duty.
                $($rows if $rows <= D::MR => unsafe { by_vectors::<D, $rows>(vectors, steps, a, b, sums) },)*
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
    b: ColumnWords,
    sums: Sums<'_>,
) {
    // SAFETY: the caller's duty.
    unsafe {
        if D::VECTORS == 2 && vectors == 2 {
            let products = product::<D, R, 2>(steps, a, b);
            for_rows!(r < R, {
                put::<D>(&sums, r, 0, D::to_vector(products[r][0]));
                put::<D>(&sums, r, 1, D::to_vector(products[r][1]));
            });
        } else {
            let products = product::<D, R, 1>(steps, a, b);
            for_rows!(r < R, {
                put::<D>(&sums, r, 0, D::to_vector(products[r][0]));
            });
        }
    }
}
