//! The serial part of a product: a block of rows times some panels, on one core.

use super::pack::{PANEL, PackedMatrix};
use super::rows::RowBytes;
use crate::Store;
use crate::simd::Packing;
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

    /// The bias from a column on.
    #[inline(always)]
    pub(super) fn bias_from(&self, column: usize) -> Option<&[f32]> {
        self.bias.map(|bias| &bias[column - self.columns.start..])
    }

    /// Adds the bias to some columns' sums of a row, the bits of f32 or of integers, and writes them to the product, or adds them.
    /// Sums that are not the `first` of their columns have no bias and are added.
    ///
    /// It has no intrinsics: the loops are vectorised for the instruction set that it is inlined into, and compute the same bits
    /// in each.
    ///
    /// # Safety
    /// The row and the columns are in the block.
    #[inline(always)]
    pub(super) unsafe fn finish(&self, row: usize, columns: Range<usize>, is_first: bool, sums: &[u32]) {
        let width = columns.len().min(PANEL);
        let sums = &sums[..width];
        let mut values = [0.0_f32; PANEL];
        if P::IS_QUANTIZED {
            let scale = self.x.scales[self.rows.start + row];
            let columns = &self.weight.scales()[columns.clone()][..width];
            for ((value, &sum), column) in values.iter_mut().zip(sums).zip(columns) {
                // A sum whose true value fits wraps around to it.
                let sum = sum.cast_signed().wrapping_sub(scale.zero_point.wrapping_mul(column.total));
                *value = sum as f32 * column.scale * scale.scale;
            }
        } else {
            for (value, &sum) in values.iter_mut().zip(sums) {
                *value = f32::from_bits(sum);
            }
        }
        if let Some(bias) = self.bias_from(columns.start).filter(|_| is_first) {
            for (value, bias) in values.iter_mut().zip(&bias[..width]) {
                *value += bias;
            }
        }
        // SAFETY: the columns of the row are in the block, which is this call's alone to write.
        let out = unsafe { std::slice::from_raw_parts_mut(self.at(row, columns.start), width) };
        if is_first && self.store == Store::Overwrite {
            out.copy_from_slice(&values[..width]);
        } else {
            for (out, value) in out.iter_mut().zip(&values) {
                *out += value;
            }
        }
    }
}
