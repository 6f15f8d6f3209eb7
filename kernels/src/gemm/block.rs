//! The serial part of a product: a block of rows times some panels, on one core.

use super::pack::{PANEL, PackedMatrix};
use super::rows::RowBytes;
use crate::Store;
use crate::quantize::RowScale;
use crate::simd::{Packing, Vector};
use std::ops::Range;

/// The columns of some panels for some rows.
pub(super) struct Block<'a, P> {
    pub(super) x: RowBytes<'a>,
    pub(super) rows: Range<usize>,
    pub(super) weight: &'a PackedMatrix<P>,
    /// Columns to compute.
    pub(super) columns: Range<usize>,
    /// For `columns`.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) store: Store,
    /// Address of `columns.start` in the first of `rows` in the product; rows are `out_stride` apart. All of it is this block's
    /// alone to write.
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
}

impl<P: Packing> Block<'_, P> {
    /// The panels that have columns of the block.
    pub(super) fn panels(&self) -> Range<usize> {
        self.columns.start / PANEL..self.columns.end.div_ceil(PANEL)
    }

    /// The columns of a panel that are wanted.
    pub(super) fn columns_of(&self, panel: usize) -> Range<usize> {
        (panel * PANEL).max(self.columns.start)..((panel + 1) * PANEL).min(self.columns.end)
    }

    /// Address of a column of one of the block's rows, counted from the first, in the product.
    ///
    /// # Safety
    /// The row and the column are in the block.
    #[inline(always)]
    pub(super) unsafe fn at(&self, row: usize, column: usize) -> *mut f32 {
        // SAFETY: the caller's duty.
        unsafe { self.out.add(row * self.out_stride + column - self.columns.start) }
    }

    /// Writes the sums of `count` columns of a row, f32 or the bits of integers, to the product, or adds them. Sums that are not the
    /// `first` of their columns have no bias and are added.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; the row and the columns are in the block.
    #[inline(always)]
    pub(super) unsafe fn finish<V: Vector>(
        &self,
        (row, column): (usize, usize),
        count: usize,
        is_first: bool,
        sums: V,
    ) {
        debug_assert!(self.columns.start <= column && column + count <= self.columns.end);
        // SAFETY: the instructions and the place are the caller's duty; scales and totals are those of all of the weight's rows,
        // the bias is that of all columns.
        unsafe {
            let mut sums = sums;
            if P::IS_QUANTIZED {
                let RowScale { scale, zero_point } = self.x.scales[self.rows.start + row];
                let quantized = self.weight.quantized();
                let totals = V::loadu_up_to(quantized.totals.as_ptr().add(column).cast(), count);
                let scales = V::loadu_up_to(quantized.scales.as_ptr().add(column), count);
                // A sum whose true value fits wraps around to it.
                let zero_point = V::set1(f32::from_bits(zero_point.cast_unsigned()));
                sums = sums.integers_less(zero_point, totals).mul(scales).mul(V::set1(scale));
            }
            if let Some(bias) = self.bias.filter(|_| is_first) {
                sums = sums.add(V::loadu_up_to(bias.as_ptr().add(column - self.columns.start), count));
            }
            let out = self.at(row, column);
            if !is_first || self.store == Store::Accumulate {
                sums = V::loadu_up_to(out, count).add(sums);
            }
            sums.store_elements::<f32>(out, count);
        }
    }
}
