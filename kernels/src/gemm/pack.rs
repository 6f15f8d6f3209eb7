//! Packed B: the layout of weights.
//!
//! A *word* is one f32, two neighbouring bf16 or four neighbouring bytes of a row. A *panel* (micro-panel) is [`PANEL`] rows of W, stored
//! word by word: words at the same place of all its rows are contiguous, so that one vector load gives a word of each of 16
//! columns of the product, and an AMX tile is 16 such lines. Missing rows of the last panel, and elements beyond `k`, are zero.

use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::quantization::rows::{QuantizedWeights, quantize_weights};
use crate::runtime::huge_pages::HugePages;
use crate::simd::Format;
use crate::tiles;
use rayon::prelude::*;
use std::marker::PhantomData;

/// Columns of a panel of packed B: rows of W whose products are computed together. A multiple of NR.
pub const PANEL: usize = 32;

/// Maximum row length in int8: longer sums of products could overflow 32 bits.
const MAX_QUANTIZED: usize = i32::MAX as usize / (255 * 127);

/// A weight matrix `[n, k]` as packed B.
#[derive(Debug)]
pub struct PackedMatrix<P> {
    words: HugePages,
    n: usize,
    k: usize,
    quantized: Quantized,
    packing: PhantomData<P>,
}

/// Scales and statistics of quantized rows; empty for other formats.
#[derive(Debug, Default)]
pub(super) struct Quantized {
    /// `[n]`
    pub(super) scales: Vec<f32>,
    /// Sums of the bytes, `[n]`.
    pub(super) totals: Vec<i32>,
    /// Squared quantization errors, summed over each row, `[n]`.
    pub(super) error_squares: Vec<f64>,
}

impl<P: Format> PackedMatrix<P> {
    /// Packs a row-major `[n, k]` matrix.
    ///
    /// # Errors
    /// If `weight` does not have `n * k` elements, or `k` is 0 or too large for the format.
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

    /// The weights of a row after packing (rounded or quantized), `[k]`.
    #[doc(hidden)]
    pub fn unpack_row(&self, row: usize) -> Vec<f32> {
        let panel = self.panel(row / PANEL);
        let weight = |i: usize| {
            let word = panel[i / P::ELEMENTS * PANEL + row % PANEL];
            let bits = word >> (8 * P::DTYPE_SIZE * (i % P::ELEMENTS));
            if P::IS_QUANTIZED {
                return f32::from(bits as i8) * self.quantized.scales[row];
            }
            P::Input::from_word(bits & (u32::MAX >> (32 - 8 * P::DTYPE_SIZE))).to_f32()
        };
        (0..self.k).map(weight).collect()
    }

    /// Words of a row in a panel.
    pub(super) fn row_words(&self) -> usize {
        row_words::<P>(self.k)
    }

    /// The words of a panel, `[row_words, PANEL]`.
    pub(super) fn panel(&self, panel: usize) -> &[u32] {
        &self.panels_from(panel)[..self.row_words() * PANEL]
    }

    /// The words of all panels.
    pub(crate) fn words(&self) -> &[u32] {
        self.panels_from(0)
    }

    /// The words of a panel and of all later panels.
    pub(super) fn panels_from(&self, panel: usize) -> &[u32] {
        &self.words.words()[panel * self.row_words() * PANEL..]
    }

    pub(super) fn quantized(&self) -> &Quantized {
        &self.quantized
    }
}

/// Words of a row of `k` elements, rounded up to a whole tile line in formats that tiles multiply.
fn row_words<P: Format>(k: usize) -> usize {
    let words = k.div_ceil(P::ELEMENTS);
    if P::ELEMENTS > 1 { words.next_multiple_of(tiles::ROWS) } else { words }
}

/// Packs a matrix row by row, so that several matrices (q, k and v; gate and up) become one without a second copy.
#[derive(Debug)]
pub struct PackedMatrixBuilder<P> {
    matrix: PackedMatrix<P>,
    filled: usize,
}

impl<P: Format> PackedMatrixBuilder<P> {
    /// An empty `[n, k]` matrix.
    ///
    /// # Errors
    /// If `k` is 0 or too large for the format, or there is not enough memory.
    pub fn new(n: usize, k: usize) -> Result<Self, KernelError> {
        if k == 0 {
            return Err(KernelError::Value { argument: "k", found: 0, expected: "positive" });
        }
        if P::IS_QUANTIZED && k > MAX_QUANTIZED {
            return Err(KernelError::Index { argument: "k of a quantized matrix", found: k, limit: MAX_QUANTIZED + 1 });
        }
        let words = HugePages::new(n.div_ceil(PANEL).saturating_mul(row_words::<P>(k) * PANEL))?;
        Ok(Self {
            matrix: PackedMatrix { words, n, k, quantized: Quantized::default(), packing: PhantomData },
            filled: 0,
        })
    }

    /// Appends rows, `[any, k]`, rounded to the matrix's type or quantized.
    ///
    /// # Errors
    /// If `rows` is not a whole number of rows, or there are more than `n` in all.
    pub fn push<E: Element>(&mut self, rows: &[E]) -> Result<(), KernelError> {
        let k = self.matrix.k;
        let count = whole_rows("rows", k, rows.len())?;
        self.push_with(count, |panel, row, column| {
            let source = &rows[row * k..][..k];
            let words = panel.iter_mut().skip(column).step_by(PANEL);
            if P::IS_QUANTIZED {
                let mut bytes = vec![0_u8; k.next_multiple_of(P::ELEMENTS)];
                let quantized =
                    quantize_weights(source.iter().map(|x| x.to_f32()), |i, byte| bytes[i] = byte.cast_unsigned());
                for (word, bytes) in words.zip(bytes.as_chunks().0) {
                    *word = u32::from_le_bytes(*bytes);
                }
                return quantized;
            }
            for (word, elements) in words.zip(source.chunks(P::ELEMENTS)) {
                let bits = elements.iter().map(|x| x.convert::<P::Input>().to_word());
                *word = bits.rev().fold(0, |word, bits| word << 16 | bits);
            }
            QuantizedWeights::default()
        })
    }

    /// Appends `count` rows; `pack` writes one into a column of a panel.
    fn push_with(
        &mut self,
        count: usize,
        pack: impl Fn(&mut [u32], usize, usize) -> QuantizedWeights + Sync,
    ) -> Result<(), KernelError> {
        let n = self.matrix.n;
        let (start, end) = (self.filled, self.filled + count);
        if end > n {
            return Err(KernelError::Index { argument: "rows of the matrix", found: end, limit: n + 1 });
        }
        let panel_words = self.matrix.row_words() * PANEL;
        let panels = self.matrix.words.words_mut().par_chunks_exact_mut(panel_words).enumerate();
        let packed =
            panels.skip(start / PANEL).take(end.div_ceil(PANEL) - start / PANEL).flat_map_iter(|(p, panel)| {
                let rows = (p * PANEL).max(start)..((p + 1) * PANEL).min(end);
                rows.map(|row| pack(panel, row - start, row % PANEL)).collect::<Vec<_>>()
            });
        if P::IS_QUANTIZED {
            let rows: Vec<QuantizedWeights> = packed.collect();
            let quantized = &mut self.matrix.quantized;
            quantized.scales.extend(rows.iter().map(|row| row.scale));
            quantized.totals.extend(rows.iter().map(|row| row.total));
            quantized.error_squares.extend(rows.iter().map(|row| row.error_squares));
        } else {
            packed.for_each(drop);
        }
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
