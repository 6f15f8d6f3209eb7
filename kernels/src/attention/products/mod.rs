//! The two products of attention, scores and weighted sums, and what they ask of their factors.

mod on_tiles;
mod on_vectors;
mod weighted_sums;

pub(super) use on_tiles::OnTiles;
pub(super) use on_vectors::OnVectors;
pub(super) use weighted_sums::WeightedSums;

use crate::simd::{Vector, exp, exp_for_bf16};
use crate::{Dtype, Element};

/// The instructions of the products. Factors are *words*, which hold one element or two. A line has a word, or a number, for
/// each of [`WIDTH`](Self::WIDTH) queries.
pub(super) trait Products {
    /// Vectors of words and of numbers.
    type V: Vector;
    /// The elements of the factors.
    type Element: Element;
    /// Elements of a word.
    const ELEMENTS: usize;
    /// Vectors of a line.
    const VECTORS: usize;
    /// Queries of a line.
    const WIDTH: usize = Self::VECTORS * Self::V::LANES;
    /// Words of a factor that are multiplied at once: a row of keys or queries has a multiple of them, the last ones zeros.
    const STEP: usize;
    /// Whether values are multiplied in another order than they are collected in: by [`arrange`](Self::arrange).
    const IS_ARRANGED: bool;

    /// Words of a row of `dim` elements.
    fn row_words(dim: usize) -> usize {
        dim.div_ceil(Self::ELEMENTS).next_multiple_of(Self::STEP)
    }

    /// Values rounded to elements, each as an f32.
    fn round(values: Self::V) -> Self::V;

    /// `e^x`, as exact as the elements are.
    #[inline(always)]
    fn exp(x: Self::V) -> Self::V {
        if Self::Element::DTYPE == Dtype::Bfloat16 { exp_for_bf16(x) } else { exp(x) }
    }

    /// Brings values, `[words, dim]`, into the order of the product.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn arrange(values: &[u32], dim: usize, arranged: &mut [u32]);

    /// Writes the scores `[keys, WIDTH]` of the first `count` keys. What is in the lines after them, up to a multiple of 32, is
    /// arbitrary then.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn score(&mut self, factors: Factors<'_>, count: usize, scores: &mut [u32]);

    /// Adds the values of the first `count` keys, times their weights, to the sums `[dim, WIDTH]`.
    ///
    /// # Safety
    /// The CPU has the instructions, and `sums` has a line for each of `dim` columns.
    unsafe fn weigh(&mut self, factors: WeighedValues<'_>, count: usize, sums: WeightedSums);
}

/// The factors of scores.
pub(super) struct Factors<'a> {
    /// `[keys, row words]`; as many rows as a tile of keys can have.
    pub(super) keys: &'a [u32],
    /// `[row words, WIDTH]`
    pub(super) queries: &'a [u32],
    /// Words of a row.
    pub(super) row_words: usize,
    /// Vectors of a line that have queries.
    pub(super) vectors: usize,
}

/// The factors of weighted sums.
pub(super) struct WeighedValues<'a> {
    /// Arranged values.
    pub(super) values: &'a [u32],
    /// `[words of keys, WIDTH]`; as many lines as a tile of keys can have.
    pub(super) weights: &'a mut [u32],
    /// Columns of the values.
    pub(super) dim: usize,
    /// Vectors of a line that have queries.
    pub(super) vectors: usize,
}

/// Vector `c` of a line.
#[inline(always)]
pub(super) fn line_vector<P: Products>(lines: *mut f32, line: usize, c: usize) -> *mut f32 {
    lines.wrapping_add(line * P::WIDTH + c * P::V::LANES)
}
