//! Quantization of rows of weights to signed bytes.
//!
//! A row's bytes depend on that row alone and are equal on every instruction set: minima, maxima, and one division and one rounding per
//! weight.

use super::extremes::extremes;
use crate::isa::Isa;
use crate::simd::{self, MAX_LANES, Operation, Simd, Vector, for_vectors};

/// Scale and sum of a row of weights in signed bytes, which are kept elsewhere: byte `q` stands for `scale * q`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QuantizedWeights {
    /// NaN where the row has a weight that is not finite; all bytes are then 0.
    pub(crate) scale: f32,
    /// Sum of the bytes, exact for rows of up to 132,104 weights.
    pub(crate) total: i32,
}

impl QuantizedWeights {
    /// Quantizes a row to -127 ..= 127; the weight of the largest magnitude becomes 127 or -127. `bytes` is as long as `weights`.
    pub(crate) fn quantize(weights: &[f32], bytes: &mut [i8]) -> Self {
        Self::quantize_with(Isa::best(), weights, bytes)
    }

    fn quantize_with(isa: Isa, weights: &[f32], bytes: &mut [i8]) -> Self {
        let mut row = Self::default();
        simd::run(isa, Quantize { weights, bytes, row: &mut row });
        row
    }

    /// Sum of the squared quantization errors of the weights that were quantized to `bytes`; 0 for a row that is not finite.
    pub(crate) fn error_squares(&self, weights: &[f32], bytes: &[i8]) -> f64 {
        if self.scale.is_nan() {
            return 0.0;
        }
        let error = |(x, &byte): (&f32, &i8)| f64::from(x - f32::from(byte) * self.scale).powi(2);
        weights.iter().zip(bytes).map(error).sum()
    }
}

struct Quantize<'a> {
    weights: &'a [f32],
    bytes: &'a mut [i8],
    row: &'a mut QuantizedWeights,
}

impl Operation for Quantize<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { weights, bytes, row } = self;
        assert_eq!(weights.len(), bytes.len());
        // SAFETY: the instruction set is the caller's duty.
        let Some((min, max)) = (unsafe { extremes::<S::V>(weights) }) else {
            bytes.fill(0);
            row.scale = f32::NAN;
            return;
        };
        // The quotients round to at most 127, because the division is exact to within its rounding.
        row.scale = (max.max(-min) / 127.0).max(f32::MIN_POSITIVE);
        // SAFETY: as above; vectors are within both slices.
        row.total = unsafe { write_bytes::<S::V>(weights, row.scale, bytes) };
    }
}

/// Writes `weights / scale` as bytes and returns their sum.
///
/// # Safety
/// The CPU has the instructions of `V`, and `bytes` is as long as `weights`.
#[inline(always)]
unsafe fn write_bytes<V: Vector>(weights: &[f32], scale: f32, bytes: &mut [i8]) -> i32 {
    /// Difference between the unsigned bytes that vectors store and the signed ones: their highest bit.
    const OFFSET: i32 = 128;
    // SAFETY: the caller's duty.
    unsafe {
        let scale = V::set1(scale);
        // Partial sums of integers below 2^24 are exact; a packed row has at most 66,311 weights of up to 127 (`MAX_QUANTIZED`).
        let mut total = V::set1(0.0);
        for_vectors::<V>(weights.len(), |i, count| {
            let rounded = V::loadu_up_to(weights.as_ptr().add(i), count).div(scale).round();
            total = total.add(rounded);
            if count == V::LANES {
                rounded.storeu_u8(OFFSET, bytes.as_mut_ptr().add(i).cast());
            } else {
                let mut all = [0_i8; MAX_LANES];
                rounded.storeu_u8(OFFSET, all.as_mut_ptr().cast());
                bytes[i..].copy_from_slice(&all[..count]);
            }
        });
        bytes.iter_mut().for_each(|byte| *byte ^= i8::MIN);
        total.reduce_add() as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scale, bytes, their sum and the squared errors by definition.
    fn definition(weights: &[f32]) -> (f32, Vec<i8>, i32, f64) {
        let largest = weights.iter().fold(0.0_f32, |largest, x| largest.max(x.abs()));
        let scale = (largest / 127.0).max(f32::MIN_POSITIVE);
        let byte = |x: &f32| (x / scale).round_ties_even().clamp(-127.0, 127.0) as i8;
        let bytes: Vec<i8> = weights.iter().map(byte).collect();
        let total = bytes.iter().map(|&byte| i32::from(byte)).sum();
        let mut errors = 0.0;
        for (x, &byte) in weights.iter().zip(&bytes) {
            errors += f64::from(x - f32::from(byte) * scale).powi(2);
        }
        (scale, bytes, total, errors)
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_definition() {
        // Halves of a step, which round to even, are among the numbers: 63.5 of 127 steps.
        let number = |i: usize, size: f32| ((i * 7919 % 509) as f32 / 254.0 - 1.0) * size;
        for len in [1, 7, 16, 33, 64, 384, 1001] {
            for size in [1.0, 127.0, 3e38, 1e-3, 1e-38, 1e-44, 0.0] {
                let mut weights: Vec<f32> = (0..len).map(|i| number(i, size)).collect();
                weights[len / 2] = -size;
                let (scale, expected, total, errors) = definition(&weights);
                for isa in Isa::available() {
                    let mut bytes = vec![99; len];
                    let row = QuantizedWeights::quantize_with(isa, &weights, &mut bytes);
                    assert_eq!((row.scale.to_bits(), row.total), (scale.to_bits(), total), "{isa} {len} {size}");
                    assert_eq!(bytes, expected, "{isa} {len} {size}");
                    assert_eq!(row.error_squares(&weights, &bytes).to_bits(), errors.to_bits(), "{isa} {len} {size}");
                }
            }
        }
    }

    #[test]
    fn a_row_that_is_not_finite_has_no_scale_and_no_bytes() {
        for (bad, place) in [(f32::NAN, 0), (f32::INFINITY, 16), (f32::NEG_INFINITY, 36)] {
            let mut weights = vec![1.0; 37];
            weights[place] = bad;
            for isa in Isa::available() {
                let mut bytes = vec![99; 37];
                let row = QuantizedWeights::quantize_with(isa, &weights, &mut bytes);
                assert!(row.scale.is_nan() && row.total == 0 && bytes.iter().all(|&byte| byte == 0), "{isa} {bad}");
                assert_eq!(row.error_squares(&weights, &bytes), 0.0);
            }
        }
    }
}
