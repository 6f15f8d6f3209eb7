//! The layout of weights.
//!
//! A *word* is one f32 or two neighbouring bf16 of a row. A *panel* is [`PANEL`] rows of W, word by word: the words
//! at the same place of all its rows lie side by side, so that one vector load gives a word of each of 16 columns of
//! the product. Rows and elements that are not there are zero.

use crate::error::{check_len, whole_rows};
use crate::huge_pages::HugePages;
use crate::simd::Packing;
use crate::{Element, KernelError};
use rayon::prelude::*;
use std::marker::PhantomData;

/// Rows of W in a panel.
pub(super) const PANEL: usize = 32;

/// A weight matrix `[n, k]` in the layout of the GEMM, held once.
#[derive(Debug)]
pub struct PackedMatrix<P> {
    words: HugePages,
    n: usize,
    k: usize,
    packing: PhantomData<P>,
}

impl<P: Packing> PackedMatrix<P> {
    /// Packs a row-major `[n, k]` matrix.
    ///
    /// # Errors
    /// If `weight` does not have `n * k` elements, or `k` is 0.
    pub fn pack<E: Element>(weight: &[E], n: usize, k: usize) -> Result<Self, KernelError> {
        let mut builder = PackedMatrixBuilder::new(n, k)?;
        builder.push(weight)?;
        builder.finish()
    }

    /// n: rows of W, columns of the product.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// k: columns of W, columns of the input.
    pub fn cols(&self) -> usize {
        self.k
    }

    /// Words of a row.
    pub(super) fn row_words(&self) -> usize {
        self.k.div_ceil(elements_per_word::<P::Input>())
    }

    /// The words of a panel, `[row_words, PANEL]`.
    pub(super) fn panel(&self, panel: usize) -> &[u32] {
        &self.panels_from(panel)[..self.row_words() * PANEL]
    }

    /// The words of a panel and of all after it.
    pub(super) fn panels_from(&self, panel: usize) -> &[u32] {
        &self.words.words()[panel * self.row_words() * PANEL..]
    }
}

const fn elements_per_word<E>() -> usize {
    size_of::<u32>() / size_of::<E>()
}

/// The word of up to `elements_per_word` elements, the first in the lowest bits as in memory.
#[inline(always)]
pub(super) fn word<E: Element>(elements: &[E]) -> u32 {
    elements.iter().rev().fold(0, |word, x| word << 16 | x.to_word())
}

/// Packs a matrix row by row, so that several matrices become one (q, k and v; gate and up) without a second copy.
#[derive(Debug)]
pub struct PackedMatrixBuilder<P> {
    matrix: PackedMatrix<P>,
    filled: usize,
}

impl<P: Packing> PackedMatrixBuilder<P> {
    /// An empty `[n, k]` matrix.
    ///
    /// # Errors
    /// If `k` is 0, or there is not enough memory.
    pub fn new(n: usize, k: usize) -> Result<Self, KernelError> {
        if k == 0 {
            return Err(KernelError::Value { argument: "k", found: 0, expected: "positive" });
        }
        let row_words = k.div_ceil(elements_per_word::<P::Input>());
        let words = HugePages::new(n.div_ceil(PANEL).saturating_mul(row_words * PANEL))?;
        Ok(Self { matrix: PackedMatrix { words, n, k, packing: PhantomData }, filled: 0 })
    }

    /// Appends rows, `[any, k]`, rounded to the matrix's type if they have another.
    ///
    /// # Errors
    /// If `rows` is not a whole number of rows, or there are more than `n` in all.
    pub fn push<E: Element>(&mut self, rows: &[E]) -> Result<(), KernelError> {
        let PackedMatrix { n, k, .. } = self.matrix;
        let count = whole_rows("rows", k, rows.len())?;
        let end = self.filled + count;
        if end > n {
            return Err(KernelError::Index { argument: "rows of the matrix", found: end, limit: n + 1 });
        }
        let panel_words = self.matrix.row_words() * PANEL;
        let start = self.filled;
        let panels = self.matrix.words.words_mut().par_chunks_exact_mut(panel_words);
        panels.enumerate().skip(start / PANEL).take(end.div_ceil(PANEL) - start / PANEL).for_each(|(p, panel)| {
            for row in (p * PANEL).max(start)..((p + 1) * PANEL).min(end) {
                let source = &rows[(row - start) * k..][..k];
                let column = panel.iter_mut().skip(row % PANEL).step_by(PANEL);
                for (to, elements) in column.zip(source.chunks(elements_per_word::<P::Input>())) {
                    *to = elements.iter().rev().fold(0, |word, x| word << 16 | x.convert::<P::Input>().to_word());
                }
            }
        });
        self.filled = end;
        Ok(())
    }

    /// The packed matrix.
    ///
    /// # Errors
    /// If fewer than `n` rows were pushed.
    pub fn finish(self) -> Result<PackedMatrix<P>, KernelError> {
        check_len("rows of the matrix", self.matrix.n, self.filled)?;
        Ok(self.matrix)
    }
}
