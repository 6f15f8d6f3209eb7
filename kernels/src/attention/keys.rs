//! Keys and values of a tile, collected through the page table and packed for the products.

use super::input::Attention;
use super::item::KEYS;
use super::layout::RowView;
use super::panels::pack_columns;
use super::products::Products;
use crate::simd::{L1, L2, Vector};
use std::ops::Range;

/// Keys and values of one head on one path.
#[derive(Clone, Copy)]
pub(super) struct Path<'a> {
    pub(super) attention: &'a Attention<'a>,
    /// The row of each position.
    pub(super) pages: &'a [u32],
    /// First column of the head.
    pub(super) column: usize,
}

/// Distance in rows between the row being read and the row being prefetched.
pub(super) const PREFETCH: usize = 12;

/// Words of the values of a tile in a panel of `width` columns.
const fn panel_words(elements: usize, width: usize) -> usize {
    KEYS / elements * width
}

impl<'a> Path<'a> {
    /// Prefetches the row that is needed [`PREFETCH`] positions later, if the path is long enough.
    #[inline(always)]
    fn prefetch(&self, rows: &RowView<'_>, position: usize) {
        if let Some(&page) = self.pages.get(position + PREFETCH) {
            rows.prefetch::<L1>(page as usize, self.column, self.attention.layout.head_dim);
        }
    }

    /// Prefetches keys and values of some positions into L2.
    #[inline(always)]
    pub(super) fn prefetch_to_l2(&self, positions: Range<usize>) {
        let Attention { k, v, layout, .. } = self.attention;
        for &page in &self.pages[positions] {
            k.prefetch::<L2>(page as usize, self.column, layout.head_dim);
            v.prefetch::<L2>(page as usize, self.column, layout.head_dim);
        }
    }

    /// The head's values in the row of a position.
    #[inline(always)]
    fn row(&self, rows: &RowView<'a>, position: usize) -> &'a [f32] {
        rows.values(self.pages[position] as usize, self.column, self.attention.layout.head_dim)
    }

    /// Packs the keys of a range of positions as columns, `[keys / WIDTH, row words, WIDTH]`.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn pack_keys<P: Products>(&self, positions: Range<usize>, rows: &mut [u32], keys: &mut [u32]) {
        let key = |i: usize| {
            self.prefetch(&self.attention.k, positions.start + i);
            self.row(&self.attention.k, positions.start + i)
        };
        // SAFETY: the caller's duty.
        unsafe { pack_columns::<P>(positions.len(), self.attention.layout.head_dim, key, rows, keys) };
    }

    /// Packs the values of a range of positions, `[head_dim / WIDTH, key words, WIDTH]`: a word holds `P::ELEMENTS` positions of a
    /// column. Positions outside `visible`, and those after the range up to a whole step, are zero. Returns whether all elements are
    /// finite.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn pack_values<P: Products>(
        &self,
        positions: Range<usize>,
        visible: Range<usize>,
        values: &mut [u32],
    ) -> bool {
        let dim = self.attention.layout.head_dim;
        let none: &[f32] = &[];
        let row = |position: usize| {
            if position < positions.end && visible.contains(&position) {
                self.row(&self.attention.v, position)
            } else {
                none
            }
        };
        let words = positions.len().div_ceil(P::ELEMENTS).next_multiple_of(P::STEP);
        // SAFETY: the instructions are the caller's duty; each vector is within a row of `dim` values, or within a line of a panel.
        unsafe {
            let zero = P::V::set1(0.0);
            // A little more than 1, so that values which would overflow when rounded to bf16 count as infinite.
            let margin = P::V::set1(1.01);
            let mut not_finite = zero;
            for word in 0..words {
                let position = positions.start + word * P::ELEMENTS;
                (position..position + P::ELEMENTS).for_each(|position| self.prefetch(&self.attention.v, position));
                let low = row(position);
                let high = if P::ELEMENTS == 2 { row(position + 1) } else { none };
                let mut i = 0;
                while i < dim {
                    let count = (dim - i).min(P::V::LANES);
                    let low = if low.is_empty() { zero } else { P::V::loadu_up_to(low[i..].as_ptr(), count) };
                    let high = if high.is_empty() { zero } else { P::V::loadu_up_to(high[i..].as_ptr(), count) };
                    not_finite = low.mul(margin).fmadd(zero, not_finite);
                    not_finite = high.mul(margin).fmadd(zero, not_finite);
                    let packed = if P::ELEMENTS == 2 { P::V::pack_bf16(low, high) } else { P::round(low) };
                    let panel = i / P::WIDTH * panel_words(P::ELEMENTS, P::WIDTH);
                    let line = &mut values[panel + word * P::WIDTH + i % P::WIDTH..][..P::V::LANES];
                    packed.storeu(line.as_mut_ptr().cast());
                    i += count;
                }
            }
            not_finite.reduce_add() == 0.0
        }
    }
}
