//! The layout of weights.
//!
//! A *word* is one f32 or two neighbouring bf16 of a row. A *panel* is [`PANEL`] rows of W, word by word: the words
//! at the same place of all its rows lie side by side, so that one vector load gives a word of each of 16 columns of
//! the product. Rows and elements that are not there are zero.

use crate::error::{check_len, whole_rows};
use crate::pages::Pages;
use crate::{Activation, KernelError, Precision};
use half::bf16;
use rayon::prelude::*;

/// Rows of W in a panel.
pub(super) const PANEL: usize = 32;

/// A weight matrix `[n, k]` in the layout of the GEMM, held once.
#[derive(Debug)]
pub struct PackedMatrix {
    pages: Pages,
    n: usize,
    k: usize,
    precision: Precision,
}

impl PackedMatrix {
    /// Packs a row-major `[n, k]` matrix for f32 activations.
    ///
    /// # Errors
    /// If `weight` does not have `n * k` elements, or `k` is 0.
    pub fn from_f32(weight: &[f32], n: usize, k: usize) -> Result<Self, KernelError> {
        let mut builder = PackedMatrixBuilder::new(Precision::F32, n, k)?;
        builder.push(weight)?;
        builder.finish()
    }

    /// Packs a row-major `[n, k]` matrix for bf16 activations.
    ///
    /// # Errors
    /// If `weight` does not have `n * k` elements, or `k` is 0.
    pub fn from_bf16(weight: &[bf16], n: usize, k: usize) -> Result<Self, KernelError> {
        let mut builder = PackedMatrixBuilder::new(Precision::Bf16, n, k)?;
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

    /// What the activations must be.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Words of a row.
    pub(super) fn row_words(&self) -> usize {
        self.k.div_ceil(elements_per_word(self.precision))
    }

    /// The words of a panel, `[row_words, PANEL]`.
    pub(super) fn panel(&self, panel: usize) -> &[u32] {
        &self.panels_from(panel)[..self.row_words() * PANEL]
    }

    /// The words of a panel and of all after it.
    pub(super) fn panels_from(&self, panel: usize) -> &[u32] {
        &self.pages.words()[panel * self.row_words() * PANEL..]
    }
}

pub(super) fn elements_per_word(precision: Precision) -> usize {
    match precision {
        Precision::F32 => 1,
        Precision::Bf16 => 2,
    }
}

/// Packs a matrix row by row, so that several matrices become one (q, k and v; gate and up) without a second copy.
#[derive(Debug)]
pub struct PackedMatrixBuilder {
    matrix: PackedMatrix,
    filled: usize,
}

impl PackedMatrixBuilder {
    /// An empty `[n, k]` matrix of the given precision.
    ///
    /// # Errors
    /// If `k` is 0, or there is not enough memory.
    pub fn new(precision: Precision, n: usize, k: usize) -> Result<Self, KernelError> {
        if k == 0 {
            return Err(KernelError::Value { what: "k", found: 0, expected: "positive" });
        }
        let row_words = k.div_ceil(elements_per_word(precision));
        let pages = Pages::new(n.div_ceil(PANEL).saturating_mul(row_words * PANEL))?;
        Ok(Self { matrix: PackedMatrix { pages, n, k, precision }, filled: 0 })
    }

    /// Appends rows, `[any, k]`, rounded to the matrix's precision if they have another.
    ///
    /// # Errors
    /// If `rows` is not a whole number of rows, or there are more than `n` in all.
    pub fn push<T: Activation>(&mut self, rows: &[T]) -> Result<(), KernelError> {
        let PackedMatrix { n, k, precision, .. } = self.matrix;
        let count = whole_rows("rows", k, rows.len())?;
        let end = self.filled + count;
        if end > n {
            return Err(KernelError::Index { what: "rows of the matrix", found: end, limit: n + 1 });
        }
        let panel_words = self.matrix.row_words() * PANEL;
        let start = self.filled;
        let panels = self.matrix.pages.words_mut().par_chunks_exact_mut(panel_words);
        panels.enumerate().skip(start / PANEL).take(end.div_ceil(PANEL) - start / PANEL).for_each(|(p, panel)| {
            for row in (p * PANEL).max(start)..((p + 1) * PANEL).min(end) {
                let source = &rows[(row - start) * k..][..k];
                let column = panel.iter_mut().skip(row % PANEL).step_by(PANEL);
                match precision {
                    Precision::F32 => column.zip(source).for_each(|(word, x)| *word = x.to_f32().to_bits()),
                    Precision::Bf16 => column.zip(source.chunks(2)).for_each(|(word, pair)| *word = bf16_word(pair)),
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
    pub fn finish(self) -> Result<PackedMatrix, KernelError> {
        check_len("rows of the matrix", self.matrix.n, self.filled)?;
        Ok(self.matrix)
    }
}

/// One or two elements as a word.
fn bf16_word<T: Activation>(pair: &[T]) -> u32 {
    let bits = |x: &T| u32::from(bf16::from_f32(x.to_f32()).to_bits());
    pair.iter().rev().fold(0, |word, x| word << 16 | bits(x))
}
