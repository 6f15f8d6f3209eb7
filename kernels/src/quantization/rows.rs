//! Quantization from f32 to bytes: rows of a product's input, and rows of weights.
//!
//! A row's bytes depend on that row alone and are equal on every instruction set: minima, maxima, one division, and one
//! multiplication and rounding per value.

use crate::simd::{MAX_LANES, Operation, Simd, Vector, for_vectors, prefetch};

/// Scale and zero point of a row of unsigned bytes: byte `q` stands for `scale * (q - zero_point)`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RowScale {
    /// NaN where the row has a value that is not finite.
    pub(crate) scale: f32,
    /// 0 to 255.
    pub(crate) zero_point: i32,
}

impl RowScale {
    /// The scale of a row with these extremes, or of a row that is not finite. Zero is always represented exactly.
    #[inline(always)]
    fn new(min: f32, max: f32, is_finite: bool) -> Self {
        if !is_finite {
            return Self { scale: f32::NAN, zero_point: 0 };
        }
        let (min, max) = (min.min(0.0), max.max(0.0));
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
                *scale = row_scale::<S::V>(x);
                write_bytes::<S::V>(x, *scale, &mut bytes[..self.width]);
            }
            bytes[self.width..].fill(0);
        }
    }
}

/// Running extremes and a NaN marker, lane by lane.
#[derive(Clone, Copy)]
struct Extremes<V> {
    min: V,
    max: V,
    /// NaN where a value is not finite, else 0.
    not_finite: V,
}

impl<V: Vector> Extremes<V> {
    /// Includes `x`. Minima and maxima do not depend on the order of values.
    #[inline(always)]
    fn with(self, x: V, zero: V) -> Self {
        Self { min: x.min(self.min), max: x.max(self.max), not_finite: x.fmadd(zero, self.not_finite) }
    }

    /// Inlined like all code on vectors: a separate function would be compiled without the instruction set.
    #[inline(always)]
    fn scale(self) -> RowScale {
        // Missing lanes are 0, and so is the initial value of all lanes.
        let (mut min, mut max) = (self.min.to_array(), self.max.to_array());
        let mut width = MAX_LANES / 2;
        while width > 0 {
            for i in 0..width {
                min[i] = if min[i] < min[i + width] { min[i] } else { min[i + width] };
                max[i] = if max[i] > max[i + width] { max[i] } else { max[i + width] };
            }
            width /= 2;
        }
        RowScale::new(min[0], max[0], self.not_finite.reduce_add() == 0.0)
    }
}

/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn row_scale<V: Vector>(x: &[f32]) -> RowScale {
    // SAFETY: the instructions are the caller's duty; vectors are within `x`.
    unsafe {
        let zero = V::set1(0.0);
        let mut chains = [Extremes { min: zero, max: zero, not_finite: zero }; 2];
        let mut i = 0;
        // Two chains, since each step of a chain waits for the previous one.
        while i + 2 * V::LANES <= x.len() {
            chains[0] = chains[0].with(V::loadu(x.as_ptr().add(i)), zero);
            chains[1] = chains[1].with(V::loadu(x.as_ptr().add(i + V::LANES)), zero);
            i += 2 * V::LANES;
        }
        while i < x.len() {
            let count = V::LANES.min(x.len() - i);
            chains[0] = chains[0].with(V::loadu_up_to(x.as_ptr().add(i), count), zero);
            i += V::LANES;
        }
        let [a, b] = chains;
        let not_finite = a.not_finite.add(b.not_finite);
        Extremes { min: a.min.min(b.min), max: a.max.max(b.max), not_finite }.scale()
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
            prefetch(x.as_ptr().wrapping_add(x.len() + i));
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

/// A row of weights in signed bytes: byte `q` stands for `scale * q`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct QuantizedWeights {
    /// NaN where the row has a weight that is not finite.
    pub(crate) scale: f32,
    /// Sum of the bytes.
    pub(crate) total: i32,
    /// Sum of the squared quantization errors of the weights.
    pub(crate) error_squares: f64,
}

/// Quantizes a row of weights to -127 ..= 127, so that the largest weight is exact. Bytes for which `write` is not called are 0.
pub(crate) fn quantize_weights(
    weights: impl Iterator<Item = f32> + Clone,
    mut write: impl FnMut(usize, i8),
) -> QuantizedWeights {
    if !weights.clone().all(f32::is_finite) {
        return QuantizedWeights { scale: f32::NAN, ..QuantizedWeights::default() };
    }
    let largest = weights.clone().fold(0.0_f32, |largest, x| largest.max(x.abs()));
    let mut row = QuantizedWeights { scale: (largest / 127.0).max(f32::MIN_POSITIVE), ..QuantizedWeights::default() };
    for (i, x) in weights.enumerate() {
        let byte = (x / row.scale).round_ties_even().clamp(-127.0, 127.0) as i8;
        row.total += i32::from(byte);
        row.error_squares += f64::from(x - f32::from(byte) * row.scale).powi(2);
        write(i, byte);
    }
    row
}
