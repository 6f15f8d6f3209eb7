//! Quantization of the rows of a product's input to unsigned bytes.
//!
//! A row's bytes depend on that row alone and are equal on every instruction set: minima, maxima, one division, and one
//! multiplication and rounding per value.

use super::extremes::extremes;
use crate::simd::{L1, MAX_LANES, Operation, Simd, Vector, for_vectors, prefetch};

/// Scale and zero point of a row of unsigned bytes: byte `q` stands for `scale * (q - zero_point)`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RowScale {
    /// NaN where the row has a value that is not finite.
    pub(crate) scale: f32,
    /// 0 to 255.
    pub(crate) zero_point: i32,
}

impl RowScale {
    /// The scale of a row with these extremes, which include zero; `None` for a row that is not finite. Zero is always represented exactly.
    #[inline(always)]
    fn new(extremes: Option<(f32, f32)>) -> Self {
        let Some((min, max)) = extremes else { return Self { scale: f32::NAN, zero_point: 0 } };
        // Each is divided separately, since the difference may overflow. A scale whose inverse would overflow is raised.
        let scale = (max / 255.0 - min / 255.0).max(f32::MIN_POSITIVE);
        let zero_point = (-min / scale).round_ties_even();
        Self { scale, zero_point: zero_point.clamp(0.0, 255.0) as i32 }
    }
}

/// Quantizes rows of f32 to rows of bytes.
pub(crate) struct QuantizeRows<'a> {
    /// `[rows, width]`
    pub(crate) x: &'a [f32],
    pub(crate) width: usize,
    /// `[rows, stride]`; bytes beyond `width` become 0.
    pub(crate) bytes: &'a mut [u8],
    pub(crate) stride: usize,
    /// `[rows]`
    pub(crate) scales: &'a mut [RowScale],
}

impl Operation for QuantizeRows<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let rows = self.x.chunks_exact(self.width).zip(self.bytes.chunks_exact_mut(self.stride));
        for ((x, bytes), scale) in rows.zip(self.scales) {
            // SAFETY: the instruction set is the caller's duty.
            unsafe {
                *scale = RowScale::new(extremes::<S::V>(x));
                write_bytes::<S::V>(x, *scale, &mut bytes[..self.width]);
            }
            bytes[self.width..].fill(0);
        }
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn write_bytes<V: Vector>(x: &[f32], RowScale { scale, zero_point }: RowScale, bytes: &mut [u8]) {
    assert_eq!(x.len(), bytes.len());
    // SAFETY: the instructions are the caller's duty; vectors are within both slices.
    unsafe {
        let inverse = V::set1(1.0 / scale);
        for_vectors::<V>(x.len(), |i, count| {
            // The next row is prefetched while this one is written.
            prefetch::<L1>(x.as_ptr().wrapping_add(x.len() + i));
            let x = V::loadu_up_to(x.as_ptr().add(i), count).mul(inverse);
            if count == V::LANES {
                x.storeu_u8(zero_point, bytes.as_mut_ptr().add(i));
            } else {
                let mut all = [0_u8; MAX_LANES];
                x.storeu_u8(zero_point, all.as_mut_ptr());
                bytes[i..].copy_from_slice(&all[..count]);
            }
        });
    }
}
