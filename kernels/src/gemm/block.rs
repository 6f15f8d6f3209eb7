//! The serial part of a product: a block of rows times a range of panels, on one core.

use super::epilogue::Epilogue;
use super::pack::{PANEL, PackedMatrix};
use super::rows::RowBytes;
use crate::quantization::rows::RowScale;
use crate::simd::{Format, Vector};
use crate::store::Store;
use std::ops::Range;

/// A block of the product: a range of rows and of columns.
pub struct Block<'a, P> {
    pub(super) x: RowBytes<'a>,
    pub(super) rows: Range<usize>,
    pub(super) weight: &'a PackedMatrix<P>,
    /// Columns to compute.
    pub(super) columns: Range<usize>,
    /// Added to every row, for `columns`.
    pub(super) bias: Option<&'a [f32]>,
    pub(super) store: Store,
    /// Address of the block's first element in the product; rows are `out_stride` apart. No other thread writes to the block.
    pub(super) out: *mut f32,
    pub(super) out_stride: usize,
    /// Takes the finished sums instead of the product, as far as the block's instruction set hands them out. `out` is then unused.
    pub(super) epilogue: Option<&'a dyn Epilogue>,
}

impl<P: Format> Block<'_, P> {
    /// The panels that contain columns of the block.
    pub(super) fn panels(&self) -> Range<usize> {
        self.columns.start / PANEL..self.columns.end.div_ceil(PANEL)
    }

    /// The columns of a panel that belong to the block.
    pub(super) fn columns_of(&self, panel: usize) -> Range<usize> {
        (panel * PANEL).max(self.columns.start)..((panel + 1) * PANEL).min(self.columns.end)
    }

    /// Address in the product of a column, in a row counted from the block's first.
    ///
    /// # Safety
    /// The row and the column are in the block.
    #[inline(always)]
    pub(super) unsafe fn at(&self, row: usize, column: usize) -> *mut f32 {
        // SAFETY: the caller's duty.
        unsafe { self.out.add(row * self.out_stride + column - self.columns.start) }
    }

    /// Writes sums of a range of rows and columns, f32 or the bits of integers, to the product, or adds them. `sums` begins with
    /// the first sum; rows are `stride` words apart. With `is_first` the bias is added; later sums of the same columns are added
    /// without it.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`; rows and columns are in the block, and their sums in `sums`.
    #[inline(always)]
    pub(super) unsafe fn finish<V: Vector>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        is_first: bool,
        sums: (&[u32], usize),
    ) {
        // SAFETY: the caller's duty.
        unsafe {
            let out = self.at(rows.start, columns.start);
            let adds = !is_first || self.store == Store::Accumulate;
            self.finish_to::<V>(rows, columns, (is_first, adds), sums, (out, self.out_stride));
        }
    }

    /// [`finish`](Self::finish) with any output: its first address, and the distance of its rows.
    ///
    /// # Safety
    /// As [`finish`](Self::finish), and only the caller uses the output.
    #[inline(always)]
    pub(super) unsafe fn finish_to<V: Vector>(
        &self,
        rows: Range<usize>,
        columns: Range<usize>,
        (is_first, adds): (bool, bool),
        (sums, stride): (&[u32], usize),
        (out, out_stride): (*mut f32, usize),
    ) {
        for column in columns.clone().step_by(V::LANES) {
            let sums = (&sums[column - columns.start..], stride);
            let out = (out.wrapping_add(column - columns.start), out_stride);
            // SAFETY: the caller's duty. Where the compiler knows the count, it leaves out the masks.
            unsafe {
                match columns.end - column {
                    rest if rest < V::LANES => {
                        self.finish_columns::<V>(rows.clone(), (column, rest), (is_first, adds), sums, out);
                    }
                    _ => self.finish_columns::<V>(rows.clone(), (column, V::LANES), (is_first, adds), sums, out),
                }
            }
        }
    }

    /// [`finish_to`](Self::finish_to) for up to one vector of columns.
    ///
    /// # Safety
    /// As [`finish_to`](Self::finish_to).
    #[inline(always)]
    unsafe fn finish_columns<V: Vector>(
        &self,
        rows: Range<usize>,
        (column, count): (usize, usize),
        (is_first, adds): (bool, bool),
        (sums, stride): (&[u32], usize),
        (mut out, out_stride): (*mut f32, usize),
    ) {
        debug_assert!(self.columns.start <= column && column + count <= self.columns.end);
        debug_assert!(rows.is_empty() || (rows.len() - 1) * stride + count <= sums.len());
        let bias = self.bias.filter(|_| is_first);
        let row_scales = self.x.scales.get(self.rows.start + rows.start..).unwrap_or_default();
        // SAFETY: the instructions and the places are the caller's duty; scales and totals cover all rows of the weight, the bias covers
        // all columns.
        unsafe {
            let nothing = V::set1(0.0);
            // Totals, scales and biases are read once for all rows: the compiler cannot know that they do not alias the product.
            let (totals, scales) = if P::IS_QUANTIZED {
                let quantized = self.weight.quantized();
                let totals = V::loadu_up_to(quantized.totals.as_ptr().add(column).cast(), count);
                (totals, V::loadu_up_to(quantized.scales.as_ptr().add(column), count))
            } else {
                (nothing, nothing)
            };
            let (has_bias, bias) = match bias {
                Some(bias) => (true, V::loadu_up_to(bias.as_ptr().add(column - self.columns.start), count)),
                None => (false, nothing),
            };
            let mut from = sums.as_ptr().cast::<f32>();
            for row in 0..rows.len() {
                let mut x = V::loadu_up_to(from, count);
                if P::IS_QUANTIZED {
                    let RowScale { scale, zero_point } = row_scales[row];
                    // Intermediate wrap-around is harmless: a sum whose true value fits is exact.
                    let zero_point = V::set1(f32::from_bits(zero_point.cast_unsigned()));
                    x = x.integers_less(zero_point, totals).mul(scales).mul(V::set1(scale));
                }
                if has_bias {
                    x = x.add(bias);
                }
                if adds {
                    x = V::loadu_up_to(out, count).add(x);
                }
                x.store_elements::<f32>(out, count);
                from = from.wrapping_add(stride);
                out = out.wrapping_add(out_stride);
            }
        }
    }
}
