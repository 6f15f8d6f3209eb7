//! Packed B: the layout of weights.
//!
//! A *word* is one f32, two neighbouring bf16 or four neighbouring bytes of a row. A *panel* (micro-panel) is [`PANEL`] rows of W, stored
//! word by word: words at the same place of all its rows are contiguous, so that one vector load gives a word of each of 16
//! columns of the product, and an AMX tile is 16 such lines. Missing rows of the last panel, and elements beyond `k`, are zero.

use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::quantization::weights::QuantizedWeights;
use crate::rowwise::activation::GROUP;
use crate::runtime::huge_pages::HugePages;
use crate::simd::Format;
use crate::tiles;
use rayon::prelude::*;
use std::marker::PhantomData;
use std::ops::Range;

/// Columns of a panel of packed B: rows of W whose products are computed together. A multiple of NR.
pub const PANEL: usize = 32;

/// Maximum rows whose quantization error is measured.
const SAMPLED_ROWS: usize = 64;

/// Maximum row length in int8: longer sums of products could overflow 32 bits.
const MAX_QUANTIZED: usize = i32::MAX as usize / (255 * 127);

/// A weight matrix `[n, k]` as packed B.
#[derive(Debug)]
pub struct PackedMatrix<P> {
    words: HugePages,
    n: usize,
    k: usize,
    order: Order,
    quantized: Quantized,
    packing: PhantomData<P>,
}

/// The order of the rows in the panels.
#[derive(Debug, Clone, Copy)]
enum Order {
    /// As pushed.
    Pushed,
    /// Half of each panel for gate rows, which are pushed first, and half for the up rows of the same columns.
    Gated {
        /// Gate rows, and as many up rows.
        intermediate: usize,
    },
}

impl Order {
    /// The rows of a panel that are pushed in `pushed`, each with its column of the panel.
    fn rows_of(self, panel: usize, pushed: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
        let halves = match self {
            Self::Pushed => [(panel * PANEL..(panel + 1) * PANEL, 0), (0..0, 0)],
            Self::Gated { intermediate } => {
                let gates = panel * GROUP..((panel + 1) * GROUP).min(intermediate);
                let ups = gates.start + intermediate..gates.end + intermediate;
                [(gates, 0), (ups, GROUP)]
            }
        };
        halves.into_iter().flat_map(move |(rows, column)| {
            let start = rows.start;
            (start.max(pushed.start)..rows.end.min(pushed.end)).map(move |row| (row, column + row - start))
        })
    }

    /// The column of the product that a pushed row becomes.
    fn column_of(self, row: usize) -> usize {
        match self {
            Self::Pushed => row,
            Self::Gated { intermediate } => {
                let (row, half) = if row < intermediate { (row, 0) } else { (row - intermediate, GROUP) };
                row / GROUP * PANEL + half + row % GROUP
            }
        }
    }
}

/// Scales and statistics of quantized rows; empty for other formats.
#[derive(Debug, Default)]
pub(super) struct Quantized {
    /// `[n]`
    pub(super) scales: Vec<f32>,
    /// Sums of the bytes, `[n]`.
    pub(super) totals: Vec<i32>,
    /// Squared quantization errors, summed over each row of the [sample](PackedMatrix::sampled_rows).
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

    /// n: rows of W, columns of the product. A gated matrix is rounded up to whole panels.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// Rows that were pushed.
    pub fn pushed_rows(&self) -> usize {
        self.intermediate().map_or(self.n, |intermediate| 2 * intermediate)
    }

    /// The pushed rows whose quantization error is measured, evenly spread.
    pub(super) fn sampled_rows(&self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.pushed_rows()).step_by(self.sample_step())
    }

    fn sample_step(&self) -> usize {
        self.pushed_rows().div_ceil(SAMPLED_ROWS).max(1)
    }

    /// Gate rows of a gated matrix, and as many up rows.
    pub fn intermediate(&self) -> Option<usize> {
        match self.order {
            Order::Pushed => None,
            Order::Gated { intermediate } => Some(intermediate),
        }
    }

    /// The column of the product that a pushed row becomes.
    pub fn column_of(&self, row: usize) -> usize {
        self.order.column_of(row)
    }

    /// k: columns of W, columns of the input.
    pub fn cols(&self) -> usize {
        self.k
    }

    /// The weights of a pushed row after packing (rounded or quantized), `[k]`.
    #[doc(hidden)]
    pub fn unpack_row(&self, row: usize) -> Vec<f32> {
        let column = self.order.column_of(row);
        let words = self.panel(column / PANEL).iter().skip(column % PANEL).step_by(PANEL);
        let mut weights = Vec::with_capacity(self.row_words() * P::ELEMENTS);
        if P::IS_QUANTIZED {
            let scale = self.quantized.scales[column];
            words.for_each(|word| weights.extend(word.to_le_bytes().map(|byte| f32::from(byte.cast_signed()) * scale)));
        } else {
            let bits = u32::MAX >> (32 - 8 * P::DTYPE_SIZE);
            let element = |word: u32, i: usize| P::Input::from_word(word >> (8 * P::DTYPE_SIZE * i) & bits).to_f32();
            words.for_each(|&word| weights.extend((0..P::ELEMENTS).map(|i| element(word, i))));
        }
        weights.truncate(self.k);
        weights
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
        Self::in_order(Order::Pushed, n, k)
    }

    /// An empty matrix of a gated block, `[2 * intermediate, k]`: the gate rows are pushed first, then the up rows.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn gated(intermediate: usize, k: usize) -> Result<Self, KernelError> {
        let n = intermediate.div_ceil(GROUP).saturating_mul(PANEL);
        Self::in_order(Order::Gated { intermediate }, n, k)
    }

    fn in_order(order: Order, n: usize, k: usize) -> Result<Self, KernelError> {
        if k == 0 {
            return Err(KernelError::Value { argument: "k", found: 0, expected: "positive" });
        }
        if P::IS_QUANTIZED && k > MAX_QUANTIZED {
            return Err(KernelError::Index { argument: "k of a quantized matrix", found: k, limit: MAX_QUANTIZED + 1 });
        }
        let words = HugePages::new(n.div_ceil(PANEL).saturating_mul(row_words::<P>(k) * PANEL))?;
        let quantized = Quantized::default();
        let mut matrix = PackedMatrix { words, n, k, order, quantized, packing: PhantomData };
        if P::IS_QUANTIZED {
            let sampled = matrix.sampled_rows().len();
            matrix.quantized =
                Quantized { scales: vec![0.0; n], totals: vec![0; n], error_squares: vec![0.0; sampled] };
        }
        Ok(Self { matrix, filled: 0 })
    }

    /// Appends rows, `[any, k]`, rounded to the matrix's type or quantized.
    ///
    /// # Errors
    /// If `rows` is not a whole number of rows, or there are more than `n` in all.
    pub fn push<E: Element>(&mut self, rows: &[E]) -> Result<(), KernelError> {
        let k = self.matrix.k;
        let count = whole_rows("rows", k, rows.len())?;
        let (start, end, order) = (self.filled, self.filled + count, self.matrix.order);
        if end > self.matrix.pushed_rows() {
            let limit = self.matrix.pushed_rows() + 1;
            return Err(KernelError::Index { argument: "rows of the matrix", found: end, limit });
        }
        let (panel_words, sample_step) = (self.matrix.row_words() * PANEL, self.matrix.sample_step());
        let panels = self.matrix.words.words_mut().par_chunks_exact_mut(panel_words).enumerate();
        let packed = panels.flat_map_iter(|(p, panel)| {
            let of_panel =
                order.rows_of(p, start..end).map(|(row, column)| (row, column, &rows[(row - start) * k..][..k]));
            if P::IS_QUANTIZED {
                return quantize_panel(panel, of_panel, sample_step);
            }
            of_panel.for_each(|(_, column, weights)| pack_row::<P, E>(panel, column, weights));
            Vec::new()
        });
        for QuantizedRow { row, weights, error_squares } in packed.collect::<Vec<_>>() {
            let (column, quantized) = (order.column_of(row), &mut self.matrix.quantized);
            quantized.scales[column] = weights.scale;
            quantized.totals[column] = weights.total;
            if let Some(error_squares) = error_squares {
                quantized.error_squares[row / sample_step] = error_squares;
            }
        }
        self.filled = end;
        Ok(())
    }

    /// The packed matrix.
    ///
    /// # Errors
    /// If fewer than `n` rows were pushed.
    pub fn finish(self) -> Result<PackedMatrix<P>, KernelError> {
        check_len("rows of the matrix", self.matrix.pushed_rows(), self.filled)?;
        Ok(self.matrix)
    }
}

/// Packs a row into a column of a panel.
fn pack_row<P: Format, E: Element>(panel: &mut [u32], column: usize, weights: &[E]) {
    for (word, elements) in panel.iter_mut().skip(column).step_by(PANEL).zip(weights.chunks(P::ELEMENTS)) {
        let bits = elements.iter().map(|x| x.convert::<P::Input>().to_word());
        *word = bits.rev().fold(0, |word, bits| word << 16 | bits);
    }
}

/// A pushed row after quantization.
struct QuantizedRow {
    row: usize,
    weights: QuantizedWeights,
    /// For sampled rows.
    error_squares: Option<f64>,
}

/// Quantizes rows, each with its column, into a panel. The errors of every `sample_step`-th pushed row are measured.
fn quantize_panel<'a, E: Element>(
    panel: &mut [u32],
    rows: impl Iterator<Item = (usize, usize, &'a [E])>,
    sample_step: usize,
) -> Vec<QuantizedRow> {
    let (mut values, mut bytes) = (Vec::new(), Vec::new());
    let quantize = |(row, column, weights): (usize, usize, &[E])| {
        values.clear();
        values.extend(weights.iter().map(|x| x.to_f32()));
        bytes.resize(values.len().next_multiple_of(size_of::<u32>()), 0);
        let of_weights = &mut bytes[..values.len()];
        let quantized = QuantizedWeights::quantize(&values, of_weights);
        let error_squares = row.is_multiple_of(sample_step).then(|| quantized.error_squares(&values, of_weights));
        for (word, bytes) in panel.iter_mut().skip(column).step_by(PANEL).zip(bytes.as_chunks().0) {
            *word = u32::from_le_bytes(bytes.map(i8::cast_unsigned));
        }
        QuantizedRow { row, weights: quantized, error_squares }
    };
    rows.map(quantize).collect()
}
