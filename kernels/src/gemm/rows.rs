//! The rows of a product's input.

use crate::dtype::Dtype;
use crate::element::Element;
use crate::isa::Isa;
use crate::quantization::rows::{QuantizeRows, RowScale};
use crate::runtime::scratch::{Line, Scratch};
use crate::runtime::shared_pointer::SharedPointer;
use crate::runtime::thread_pool;
use crate::simd::{self, Format};
use std::cell::Cell;

/// Rows in the format that is multiplied with packed weights, as bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowBytes<'a> {
    /// `[rows, stride]`
    pub(super) bytes: &'a [u8],
    /// Bytes of a row's elements, without padding.
    pub(super) len: usize,
    /// Row stride in bytes.
    pub(super) stride: usize,
    /// Scales and zero points of quantized rows, `[rows]`; else empty.
    pub(super) scales: &'a [RowScale],
}

impl<'a> RowBytes<'a> {
    #[inline]
    pub(super) fn row(&self, row: usize) -> &'a [u8] {
        &self.bytes[row * self.stride..][..self.len]
    }
}

/// Minimum number of values to quantize on several threads.
const PARALLEL_VALUES: usize = 1 << 15;

thread_local! {
    /// Kept for the next call.
    static SCALES: Cell<Vec<RowScale>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with the rows of `x`, `[m, k]`, converted to the input type of the format.
pub(super) fn with_rows<P: Format, T>(isa: Isa, x: &[P::Input], k: usize, f: impl FnOnce(RowBytes<'_>) -> T) -> T {
    if !P::IS_QUANTIZED {
        let len = k * size_of::<P::Input>();
        return f(RowBytes { bytes: as_bytes(x), len, stride: len, scales: &[] });
    }
    let (m, stride) = (x.len() / k, k.next_multiple_of(size_of::<Line>()));
    let mut scratch = Scratch::new(m * stride / size_of::<u32>());
    let bytes = as_bytes_mut(scratch.words());
    let mut scales = SCALES.take();
    scales.clear();
    scales.resize(m, RowScale::default());
    let (first_byte, first_scale) = (SharedPointer::new(bytes), SharedPointer::new(&mut scales));
    let blocks = if m * k < PARALLEL_VALUES { 1 } else { thread_pool::num_threads() }.min(m.max(1));
    thread_pool::for_each(blocks, |block| {
        let rows = m * block / blocks..m * (block + 1) / blocks;
        // SAFETY: blocks have disjoint rows within both slices, which nothing else uses during the call.
        let (bytes, scales) = unsafe {
            let bytes = std::slice::from_raw_parts_mut(first_byte.at(rows.start * stride), rows.len() * stride);
            (bytes, std::slice::from_raw_parts_mut(first_scale.at(rows.start), rows.len()))
        };
        let x = x[rows.start * k..rows.end * k].iter();
        simd::run(isa, QuantizeRows { x: as_f32(x.as_slice()), width: k, bytes, stride, scales });
    });
    let result = f(RowBytes { bytes, len: stride, stride, scales: &scales });
    SCALES.set(scales);
    result
}

/// The same bits.
fn as_bytes<E: Element>(values: &[E]) -> &[u8] {
    // SAFETY: elements have no padding, and all bytes are valid.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The same bits.
pub(super) fn as_bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: words have no padding, and all bits are valid for both.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// The same slice, of a type known to be f32.
fn as_f32<E: Element>(values: &[E]) -> &[f32] {
    assert_eq!(E::DTYPE, Dtype::Float32);
    // SAFETY: `E` is f32, as just seen, since each type has a `DTYPE` of its own.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
}
