//! The two products of attention, scores and weighted sums, and the layout of their operands.

use crate::dtype::Dtype;
use crate::element::Element;
use crate::simd::{Vector, exp, exp_for_bf16};

/// Instructions of the products. Operands are *words* of one or two elements. A line has a word, or a number, for each of
/// [`WIDTH`](Self::WIDTH) queries.
pub(crate) trait Products {
    /// Vectors of words and of numbers.
    type V: Vector;
    /// The elements of the operands.
    type Element: Element;
    /// Elements of a word.
    const ELEMENTS: usize;
    /// Vectors of a line.
    const VECTORS: usize;
    /// Queries of a line.
    const WIDTH: usize = Self::VECTORS * Self::V::LANES;
    /// Words multiplied at once: a row of keys or queries is padded with zeros to a multiple of this number.
    const STEP: usize;
    /// Whether values must be reordered by [`arrange`](Self::arrange) before they are multiplied.
    const IS_ARRANGED: bool;

    /// Words of a row of `dim` elements.
    fn row_words(dim: usize) -> usize {
        dim.div_ceil(Self::ELEMENTS).next_multiple_of(Self::STEP)
    }

    /// Values rounded to elements, each as an f32.
    fn round(values: Self::V) -> Self::V;

    /// `e^x`, to the precision of the elements.
    #[inline(always)]
    fn exp(x: Self::V) -> Self::V {
        if Self::Element::DTYPE == Dtype::Bfloat16 { exp_for_bf16(x) } else { exp(x) }
    }

    /// Reorders values, `[words, dim]`, for the product.
    ///
    /// # Safety
    /// The CPU has the instructions.
    unsafe fn arrange(values: &[u32], dim: usize, arranged: &mut [u32]);

    /// Writes the scores `[keys, WIDTH]` of the first `count` keys. Lines after them, up to a multiple of 32, become arbitrary.
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

/// The operands of scores.
pub(crate) struct Factors<'a> {
    /// `[keys, row words]`, with the rows of a full tile of keys.
    pub(crate) keys: &'a [u32],
    /// `[row words, WIDTH]`
    pub(crate) queries: &'a [u32],
    /// Words of a row.
    pub(crate) row_words: usize,
    /// Vectors of a line that have queries.
    pub(crate) vectors: usize,
}

/// The operands of weighted sums.
pub(crate) struct WeighedValues<'a> {
    /// Arranged values.
    pub(crate) values: &'a [u32],
    /// `[words of keys, WIDTH]`, with the lines of a full tile of keys.
    pub(crate) weights: &'a mut [u32],
    /// Columns of the values.
    pub(crate) dim: usize,
    /// Vectors of a line that have queries.
    pub(crate) vectors: usize,
}

/// Running sums of values, `[dim, WIDTH]`, rescaled when values are added.
#[derive(Clone, Copy)]
pub(crate) struct WeightedSums {
    pub(crate) to: *mut f32,
    /// A line of the factors that rescale the sums so far.
    pub(crate) factors: *mut f32,
    /// A line of path positions.
    pub(crate) positions: *mut f32,
    /// Adds only to the sums of queries at this path position.
    pub(crate) only: Option<usize>,
}

impl WeightedSums {
    /// Adds to vector `c` of line `line`.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`, and the sums have this line and vector.
    #[inline(always)]
    pub(crate) unsafe fn add<P: Products>(self, line: usize, c: usize, sum: P::V) {
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

/// Vector `c` of a line.
#[inline(always)]
pub(crate) fn line_vector<P: Products>(lines: *mut f32, line: usize, c: usize) -> *mut f32 {
    lines.wrapping_add(line * P::WIDTH + c * P::V::LANES)
}
