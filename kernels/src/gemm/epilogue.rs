//! Operations on the finished sums of a product, instead of storing them.

use super::pack::PANEL;
use crate::element::Element;
use crate::isa::Isa;
use crate::rowwise::activation::{Function, GatedRows, Rows};
use crate::runtime::shared_pointer::SharedPointer;
use crate::simd;
use std::ops::Range;

/// An operation on finished sums. Sums of the same rows and columns come only once, on any thread.
pub(super) trait Epilogue: Sync {
    /// Takes the sums of some rows of the product and columns of the weight. `sums` begins with the first; its rows are `stride` apart.
    ///
    /// # Safety
    /// No other thread writes to these rows and columns of the output.
    unsafe fn apply(&self, rows: Range<usize>, columns: Range<usize>, sums: &[f32], stride: usize);
}

/// Writes `activation(sum)` to the output.
pub(super) struct Activated<E> {
    pub(super) isa: Isa,
    pub(super) function: Function,
    /// `[m, out_stride]`
    pub(super) out: SharedPointer<E>,
    pub(super) out_stride: usize,
    /// The column of the weight that is the output's first.
    pub(super) first_column: usize,
}

impl<E: Element> Epilogue for Activated<E> {
    unsafe fn apply(&self, rows: Range<usize>, columns: Range<usize>, sums: &[f32], stride: usize) {
        let Self { isa, function, out_stride, .. } = *self;
        let out = self.out.at(rows.start * out_stride + columns.start - self.first_column);
        let (rows, width) = (rows.len(), columns.len());
        simd::run(isa, Rows { function, x: sums, stride, rows, width, out, out_stride });
    }
}

/// Writes `activation(gate) * up` to the output, with the columns of a weight packed by
/// [`gated`](super::PackedMatrixBuilder::gated).
pub(super) struct Gated<E> {
    pub(super) isa: Isa,
    pub(super) function: Function,
    /// `[m, out_stride]`
    pub(super) out: SharedPointer<E>,
    pub(super) out_stride: usize,
    /// The column of the weight that the output begins with, the first of a panel.
    pub(super) first_column: usize,
    /// Columns of the whole output.
    pub(super) intermediate: usize,
}

impl<E: Element> Epilogue for Gated<E> {
    unsafe fn apply(&self, rows: Range<usize>, columns: Range<usize>, sums: &[f32], stride: usize) {
        debug_assert!(columns.start.is_multiple_of(PANEL), "sums of whole panels");
        let Self { isa, function, out_stride, .. } = *self;
        let (start, end) = (columns.start / 2, (columns.end / 2).min(self.intermediate));
        let out = self.out.at(rows.start * out_stride + start - self.first_column / 2);
        let (rows, width) = (rows.len(), end - start);
        simd::run(isa, GatedRows { function, x: sums, stride, rows, width, out, out_stride });
    }
}
