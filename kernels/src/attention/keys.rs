//! Keys and values of a tile, collected through the page table and converted to words.

use super::input::Attention;
use super::layout::RowView;
use super::products::Products;
use crate::simd::Vector;
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

/// Writes the values of a row as words.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(super) unsafe fn row_words<P: Products>(row: &[f32], factor: f32, words: &mut [u32]) {
    assert_eq!(words.len(), P::row_words(row.len()));
    words[row.len() / P::ELEMENTS..].fill(0);
    let to = words.as_mut_ptr().cast::<P::Element>();
    let mut i = 0;
    while i < row.len() {
        let count = (row.len() - i).min(P::V::LANES);
        // SAFETY: `i + count <= row.len()`, and `words` has room for `row.len()` elements.
        unsafe {
            let values = load::<P::V>(&row[i..], count).mul(P::V::set1(factor));
            if P::ELEMENTS == 1 {
                P::round(values).store_elements(words[i..].as_mut_ptr().cast::<f32>(), count);
            } else {
                values.store_elements(to.add(i), count);
            }
        }
        i += count;
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn load<V: Vector>(from: &[f32], count: usize) -> V {
    assert!(count <= from.len());
    // SAFETY: `from` has `count` values.
    unsafe { V::loadu_up_to(from.as_ptr(), count) }
}

/// Distance in rows between the row being read and the row being prefetched.
pub(super) const PREFETCH: usize = 12;

impl Path<'_> {
    /// Prefetches the row that is needed [`PREFETCH`] positions later, if the path is long enough.
    #[inline(always)]
    fn prefetch(&self, rows: &RowView<'_>, position: usize) {
        if let Some(&page) = self.pages.get(position + PREFETCH) {
            rows.prefetch(page as usize, self.column, self.attention.layout.head_dim);
        }
    }

    /// Writes the keys of a range of positions, one row of words each.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn copy_keys<P: Products>(&self, positions: Range<usize>, keys: &mut [u32]) {
        let dim = self.attention.layout.head_dim;
        for (position, words) in positions.zip(keys.chunks_exact_mut(P::row_words(dim))) {
            self.prefetch(&self.attention.k, position);
            let page = self.pages[position];
            let row = self.attention.k.values(page as usize, self.column, dim);
            // SAFETY: the caller's duty.
            unsafe { row_words::<P>(row, 1.0, words) };
        }
    }

    /// Writes the values of a range of positions: for each `P::ELEMENTS` positions, `head_dim` words that hold one
    /// element of each position. Positions outside `visible` are zero. Returns whether all elements are finite.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn copy_values<P: Products>(
        &self,
        positions: Range<usize>,
        visible: Range<usize>,
        values: &mut [u32],
    ) -> bool {
        let dim = self.attention.layout.head_dim;
        let none: &[f32] = &[];
        let row = |position: usize| {
            if position < positions.end && visible.contains(&position) {
                self.attention.v.values(self.pages[position] as usize, self.column, dim)
            } else {
                none
            }
        };
        // SAFETY: the instructions are the caller's duty; each vector is within a row of `dim` values or words.
        unsafe {
            let zero = P::V::set1(0.0);
            // A little more than 1, so that values which would overflow when rounded to bf16 count as infinite.
            let margin = P::V::set1(1.01);
            let mut not_finite = zero;
            for (position, words) in positions.clone().step_by(P::ELEMENTS).zip(values.chunks_exact_mut(dim)) {
                (position..position + P::ELEMENTS).for_each(|position| self.prefetch(&self.attention.v, position));
                let low = row(position);
                let high = if P::ELEMENTS == 2 { row(position + 1) } else { none };
                let mut i = 0;
                while i < dim {
                    let count = (dim - i).min(P::V::LANES);
                    let low = if low.is_empty() { zero } else { load::<P::V>(&low[i..], count) };
                    let high = if high.is_empty() { zero } else { load::<P::V>(&high[i..], count) };
                    not_finite = low.mul(margin).fmadd(zero, not_finite);
                    not_finite = high.mul(margin).fmadd(zero, not_finite);
                    let word = if P::ELEMENTS == 2 { P::V::pack_bf16(low, high) } else { P::round(low) };
                    word.store_elements(words[i..].as_mut_ptr().cast::<f32>(), count);
                    i += count;
                }
            }
            not_finite.reduce_add() == 0.0
        }
    }
}
