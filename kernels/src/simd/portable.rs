//! Plain Rust, vectorised by the compiler for the target's baseline.

use super::{Dot, Vector};
use crate::element::round_to_bf16;
use half::bf16;

/// Eight lanes: two registers of SSE2 or NEON.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub(crate) struct V8([f32; 8]);

impl V8 {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut lanes = self.0;
        for i in 0..8 {
            lanes[i] = f(lanes[i], other.0[i]);
        }
        Self(lanes)
    }

    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        self.zip(self, |x, _| f(x))
    }
}

impl Vector for V8 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn set1(x: f32) -> Self {
        Self([x; 8])
    }

    #[inline(always)]
    unsafe fn loadu(from: *const f32) -> Self {
        // SAFETY: the caller's duty.
        Self(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn storeu(self, to: *mut f32) {
        // SAFETY: the caller's duty.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn storeu_bf16(self, to: *mut bf16) {
        // SAFETY: the caller's duty.
        unsafe { to.cast::<[u16; 8]>().write_unaligned(self.0.map(|x| round_to_bf16(x) as u16)) }
    }

    #[inline(always)]
    unsafe fn storeu_u8(self, offset: i32, to: *mut u8) {
        let byte = |x: f32| if x.is_nan() { 0 } else { (x as i32 + offset).clamp(0, 255) as u8 };
        // SAFETY: the caller's duty.
        unsafe { to.cast::<[u8; 8]>().write_unaligned(self.round().0.map(byte)) }
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }

    #[inline(always)]
    fn fmadd(self, factor: Self, term: Self) -> Self {
        // `f32::mul_add` is a slow function call on targets without an FMA instruction.
        if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
            let mut lanes = self.0;
            for i in 0..8 {
                lanes[i] = lanes[i].mul_add(factor.0[i], term.0[i]);
            }
            return Self(lanes);
        }
        self.mul(factor).add(term)
    }

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }

    #[inline(always)]
    fn min(self, other: Self) -> Self {
        self.zip(other, |a, b| if a < b { a } else { b })
    }

    #[inline(always)]
    fn round(self) -> Self {
        // Adding 1.5 * 2^23 leaves no bits for the fraction; the addition rounds to nearest, ties to even.
        self.map(|x| (x + 12_582_912.0) - 12_582_912.0)
    }

    #[inline(always)]
    fn scalef(self, n: Self) -> Self {
        self.zip(n, |x, n| {
            let n = n as i32;
            let half = n >> 1;
            let power = |n: i32| f32::from_bits(((n + 127) << 23) as u32);
            x * power(half) * power(n - half)
        })
    }

    #[inline(always)]
    fn blend_le(self, bound: Self, yes: Self, no: Self) -> Self {
        let mut lanes = no.0;
        for i in 0..8 {
            lanes[i] = if self.0[i] <= bound.0[i] { yes.0[i] } else { no.0[i] };
        }
        Self(lanes)
    }

    #[inline(always)]
    fn integers_less(self, factor: Self, term: Self) -> Self {
        let product = factor.zip(term, |a, b| {
            f32::from_bits(a.to_bits().cast_signed().wrapping_mul(b.to_bits().cast_signed()).cast_unsigned())
        });
        self.zip(product, |sum, product| {
            sum.to_bits().cast_signed().wrapping_sub(product.to_bits().cast_signed()) as f32
        })
    }

    #[inline(always)]
    fn unpack_bf16(self) -> (Self, Self) {
        let low = self.map(|x| f32::from_bits(x.to_bits() << 16));
        let high = self.map(|x| f32::from_bits(x.to_bits() & 0xFFFF_0000));
        (low, high)
    }

    #[inline(always)]
    fn pack_bf16(low: Self, high: Self) -> Self {
        low.zip(high, |low, high| f32::from_bits(round_to_bf16(low) | round_to_bf16(high) << 16))
    }
}

/// A word is four bytes.
pub(crate) struct BytesDot;

impl Dot for BytesDot {
    type V = V8;
    type Sums = V8;
    const ELEMENTS: usize = 4;
    const MR: usize = 4;
    const VECTORS: usize = 1;

    #[inline(always)]
    fn fmadd(sums: V8, a: V8, b: V8) -> V8 {
        let mut sums = sums.0.map(|sum| sum.to_bits().cast_signed());
        for byte in 0..4 {
            for lane in 0..8 {
                let [a, b] = [a, b].map(|words| (words.0[lane].to_bits() >> (8 * byte)) as u8);
                sums[lane] += i32::from(a) * i32::from(b.cast_signed());
            }
        }
        V8(sums.map(|sum| f32::from_bits(sum.cast_unsigned())))
    }

    #[inline(always)]
    fn to_vector(sums: V8) -> V8 {
        sums
    }
}
