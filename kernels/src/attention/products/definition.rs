//! The product of attention's rows with panels, for scores and for weighted sums.

use crate::dtype::Dtype;
use crate::element::Element;
use crate::simd::{Vector, exp, exp2_for_bf16};
use crate::tiles::Between;
use std::f32::consts::LOG2_E;

/// Instructions of the products. Operands are *words* of one or two elements.
pub(crate) trait Products {
    /// Vectors of words and of numbers.
    type V: Vector;
    /// The elements of the operands.
    type Element: Element;
    /// Elements of a word.
    const ELEMENTS: usize;
    /// Vectors of a line of a panel.
    const VECTORS: usize;
    /// Columns of a panel.
    const WIDTH: usize = Self::VECTORS * Self::V::LANES;
    /// Words multiplied at once: the words of a row, and the lines of a panel, are padded with zeros to a multiple of this number.
    const STEP: usize;

    /// Words of a row of `dim` elements.
    fn row_words(dim: usize) -> usize {
        dim.div_ceil(Self::ELEMENTS).next_multiple_of(Self::STEP)
    }

    /// Values rounded to elements, each as an f32.
    fn round(values: Self::V) -> Self::V;

    /// `e^(scores - max)`, to the precision of the elements. For bf16 all weights with one maximum have a common factor near 1, since the
    /// maximum in powers of 2 is rounded; the factor may overflow or vanish where a maximum is beyond about ±1e9.
    ///
    /// # Safety
    /// The CPU has the instructions.
    #[inline(always)]
    unsafe fn exp(scores: Self::V, max: Self::V) -> Self::V {
        if Self::Element::DTYPE == Dtype::Bfloat16 {
            // SAFETY: the caller's duty.
            let (factor, term) = unsafe { (Self::V::set1(LOG2_E), max.mul(Self::V::set1(-LOG2_E))) };
            exp2_for_bf16(scores.fmadd(factor, term))
        } else {
            exp(scores.sub(max))
        }
    }

    /// Pieces of other work that a product of rows of `len` words with `columns` columns does.
    fn pieces(len: usize, columns: usize) -> usize;

    /// Multiplies rows with a panel. Sums after the panel's vectors, up to a whole panel, become arbitrary, as do rows after the last up
    /// to a multiple of 16. May do pieces of `between` after each step.
    ///
    /// # Safety
    /// The CPU has the instructions; the panel has a line for each word of a row. Rows up to a multiple of 16 may be read, and their lines of
    /// `sums` written; the sums were written before unless they begin with zero, and there is a factor for each row.
    unsafe fn multiply(&mut self, rows: Rows<'_>, panel: Panel<'_>, sums: Sums<'_>, between: &mut impl Between);

    /// Multiplies rows with panels, like [`multiply`](Self::multiply).
    ///
    /// # Safety
    /// As [`multiply`](Self::multiply), for each panel.
    #[inline(always)]
    unsafe fn multiply_panels(
        &mut self,
        rows: Rows<'_>,
        panels: Panels<'_>,
        sums: Sums<'_>,
        between: &mut impl Between,
    ) {
        for (first, words) in (0..panels.columns).step_by(Self::WIDTH).zip(panels.words.chunks_exact(panels.stride)) {
            let panel = Panel { words, vectors: (panels.columns - first).min(Self::WIDTH).div_ceil(Self::V::LANES) };
            // SAFETY: the caller's duty.
            unsafe { self.multiply(rows, panel, Sums { to: sums.to.wrapping_add(first), ..sums }, between) };
        }
    }
}

/// Packed columns, `[columns / WIDTH, stride / WIDTH, WIDTH]`.
#[derive(Clone, Copy)]
pub(crate) struct Panels<'a> {
    pub(crate) words: &'a [u32],
    /// Words from one panel to the next.
    pub(crate) stride: usize,
    pub(crate) columns: usize,
}

/// Packed columns, `[lines, WIDTH]`.
#[derive(Clone, Copy)]
pub(crate) struct Panel<'a> {
    pub(crate) words: &'a [u32],
    /// Vectors of columns to multiply, from the first of each line.
    pub(crate) vectors: usize,
}

/// Rows of words.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// The words, from the first of the first row; rows up to a multiple of 16 may be read.
    pub(crate) words: &'a [u32],
    /// Words from one row to the next.
    pub(crate) stride: usize,
    /// Rows, at most [`BLOCK`](super::BLOCK).
    pub(crate) count: usize,
    /// Words of a row, a multiple of [`STEP`](Products::STEP).
    pub(crate) len: usize,
}

/// Sums of a product, `[rows, stride]`.
#[derive(Clone, Copy)]
pub(crate) struct Sums<'a> {
    pub(crate) to: *mut f32,
    pub(crate) stride: usize,
    pub(crate) before: Before<'a>,
}

/// Initial values of the sums.
#[derive(Clone, Copy)]
pub(crate) enum Before<'a> {
    Zero,
    /// The sums so far.
    Kept,
    /// The sums so far, each row times its factor.
    Rescaled(&'a [f32]),
}

impl<'a> Sums<'a> {
    /// Sums that replace the values from the first on.
    #[inline(always)]
    pub(crate) fn new(to: &mut [f32], stride: usize) -> Self {
        Self { to: to.as_mut_ptr(), stride, before: Before::Zero }
    }

    /// The address of vector `c` of row `r`.
    #[inline(always)]
    pub(crate) fn vector<V: Vector>(&self, r: usize, c: usize) -> *mut f32 {
        self.to.wrapping_add(r * self.stride + c * V::LANES)
    }
}
