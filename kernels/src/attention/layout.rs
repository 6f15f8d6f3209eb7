//! The layout of heads in rows.

use crate::error::KernelError;
use crate::simd::prefetch;

/// Values of a cache line.
const LINE: usize = 16;

/// The heads of an attention layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QkvLayout {
    /// Query heads.
    pub num_heads: usize,
    /// Key/value heads; a divisor of `num_heads`. Query head `h` reads key/value head `h / (num_heads / num_kv_heads)`.
    pub num_kv_heads: usize,
    /// Values of a head.
    pub head_dim: usize,
}

impl QkvLayout {
    /// Values of all query heads of a row.
    pub fn q_width(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Values of all key heads of a row, and of all value heads.
    pub fn kv_width(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }

    /// Values of a fused `[q heads | k heads | v heads]` row.
    pub fn qkv_width(&self) -> usize {
        self.q_width() + 2 * self.kv_width()
    }

    /// Query heads that share a key/value head.
    #[inline(always)]
    pub fn group(&self) -> usize {
        self.num_heads / self.num_kv_heads
    }
}

/// Neighbouring columns of a row-major matrix.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    /// The matrix.
    pub data: &'a [f32],
    /// Values from one row to the next.
    pub row_stride: usize,
    /// First column of the view.
    pub offset: usize,
}

impl<'a> RowView<'a> {
    /// `len` values of a row, starting at a column of the view.
    #[inline(always)]
    pub(super) fn values(&self, row: usize, column: usize, len: usize) -> &'a [f32] {
        &self.data[row * self.row_stride + self.offset + column..][..len]
    }
}

impl RowView<'_> {
    /// Prefetches the values that [`values`](Self::values) will read into the cache `LEVEL`. Rows lie pages apart, and hardware
    /// prefetchers stop at page ends.
    #[inline(always)]
    pub(super) fn prefetch<const LEVEL: i32>(&self, row: usize, column: usize, len: usize) {
        let start = self.data.as_ptr().wrapping_add(row * self.row_stride + self.offset + column);
        for i in (0..len).step_by(LINE) {
            prefetch::<LEVEL>(start.wrapping_add(i));
        }
    }

    /// The number of rows of `width` columns in the view.
    pub(super) fn rows(&self, width: usize) -> usize {
        if self.offset + width > self.row_stride || self.data.len() < self.offset + width {
            return 0;
        }
        (self.data.len() - self.offset - width) / self.row_stride + 1
    }
}

/// Checks that heads have values and that `num_kv_heads` divides `num_heads`.
pub(crate) fn check_layout(layout: QkvLayout) -> Result<(), KernelError> {
    let QkvLayout { num_heads, num_kv_heads, head_dim } = layout;
    if num_kv_heads == 0 || num_heads == 0 || !num_heads.is_multiple_of(num_kv_heads) {
        let expected = "a positive multiple of num_kv_heads";
        return Err(KernelError::Value { argument: "num_heads", found: num_heads, expected });
    }
    if head_dim == 0 {
        return Err(KernelError::Value { argument: "head_dim", found: 0, expected: "positive" });
    }
    Ok(())
}
