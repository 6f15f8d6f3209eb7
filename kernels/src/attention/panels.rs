//! Packed B of attention's products: panels of columns, `[columns / WIDTH, words, WIDTH]`.

use super::products::Products;
use crate::simd::{MAX_LANES, Vector};

/// Writes the values of a row, times `factor` and rounded to elements, as words; those up to a whole step are zero.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(super) unsafe fn row_words<P: Products>(row: &[f32], factor: f32, words: &mut [u32]) {
    assert_eq!(words.len(), P::row_words(row.len()));
    if words.len() * P::ELEMENTS > row.len() {
        words[row.len() / P::ELEMENTS..].fill(0);
    }
    let to = words.as_mut_ptr().cast::<P::Element>();
    let mut i = 0;
    while i < row.len() {
        let count = (row.len() - i).min(P::V::LANES);
        // SAFETY: `i + count <= row.len()`, and `words` has room for `row.len()` elements.
        unsafe {
            let values = P::V::loadu_up_to(row[i..].as_ptr(), count).mul(P::V::set1(factor));
            if P::ELEMENTS == 1 {
                P::round(values).store_elements(words[i..].as_mut_ptr().cast::<f32>(), count);
            } else {
                values.store_elements(to.add(i), count);
            }
        }
        i += count;
    }
}

/// Packs rows of `dim` values as columns: row `i` of `count` is column `i`. Columns up to a multiple of the lanes of a vector become
/// arbitrary. `rows` has room for a row of words per lane.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(super) unsafe fn pack_columns<'a, P: Products>(
    count: usize,
    dim: usize,
    row: impl Fn(usize) -> &'a [f32],
    rows: &mut [u32],
    panels: &mut [u32],
) {
    let words = P::row_words(dim);
    for first in (0..count).step_by(P::V::LANES) {
        let some = first..(first + P::V::LANES).min(count);
        for (i, words) in some.zip(rows.chunks_exact_mut(words)) {
            // SAFETY: the caller's duty.
            unsafe { row_words::<P>(row(i), 1.0, words) };
        }
        let panel = &mut panels[first / P::WIDTH * words * P::WIDTH..][..words * P::WIDTH];
        // SAFETY: the caller's duty.
        unsafe { transpose::<P>(&rows[..P::V::LANES * words], words, &mut panel[first % P::WIDTH..]) };
    }
}

/// Writes a row of words per lane as a vector of columns of a panel, `[words, WIDTH]`, that begins with their first word.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
unsafe fn transpose<P: Products>(rows: &[u32], words: usize, panel: &mut [u32]) {
    for word in (0..words).step_by(P::V::LANES) {
        let count = (words - word).min(P::V::LANES);
        // SAFETY: the instructions are the caller's duty; each row has `count` words from `word` on, and the panel has a vector for
        // each of them.
        unsafe {
            let mut square = [P::V::set1(0.0); MAX_LANES];
            for (vector, row) in square[..P::V::LANES].iter_mut().zip(rows.chunks_exact(words)) {
                *vector = P::V::loadu_up_to(row[word..].as_ptr().cast(), count);
            }
            P::V::transpose(&mut square);
            for (i, vector) in square.iter().enumerate().take(count) {
                vector.storeu(panel[(word + i) * P::WIDTH..][..P::V::LANES].as_mut_ptr().cast());
            }
        }
    }
}
