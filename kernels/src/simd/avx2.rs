//! AVX2 and FMA.

use super::{Dot, MAX_LANES, Vector};
use half::bf16;
use std::arch::x86_64::*;

/// Eight lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct V256(__m256);

/// The bits of `x` rounded to bf16, in the low half of each word.
#[inline(always)]
fn round_to_bf16(x: V256) -> __m256i {
    // SAFETY: `x` exists, so the CPU has AVX2.
    unsafe {
        let bits = _mm256_castps_si256(x.0);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
        let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
        let is_nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(x.0, x.0));
        _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, is_nan))
    }
}

macro_rules! lane_wise {
    ($($name:ident = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: `self` exists, so the CPU has AVX2.
            Self(unsafe { $intrinsic(self.0, other.0) })
        }
    )*};
}

impl Vector for V256 {
    const LANES: usize = 8;

    lane_wise! {
        add = _mm256_add_ps;
        sub = _mm256_sub_ps;
        mul = _mm256_mul_ps;
        div = _mm256_div_ps;
        max = _mm256_max_ps;
        min = _mm256_min_ps;
    }

    #[inline(always)]
    unsafe fn set1(x: f32) -> Self {
        // SAFETY: the caller's duty.
        Self(unsafe { _mm256_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn loadu(from: *const f32) -> Self {
        // SAFETY: the caller's duty.
        Self(unsafe { _mm256_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn storeu(self, to: *mut f32) {
        // SAFETY: the caller's duty; `self` exists, so the CPU has AVX2.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn storeu_bf16(self, to: *mut bf16) {
        let words = round_to_bf16(self);
        // SAFETY: the caller's duty; `self` exists, so the CPU has AVX2.
        unsafe {
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            _mm_storeu_si128(to.cast(), _mm_packus_epi32(low, high));
        }
    }

    #[inline(always)]
    unsafe fn storeu_u8(self, offset: i32, to: *mut u8) {
        // SAFETY: the caller's duty; `self` exists, so the CPU has AVX2.
        unsafe {
            // NaN becomes the minimum integer.
            let words = _mm256_add_epi32(_mm256_cvtps_epi32(self.0), _mm256_set1_epi32(offset));
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            let halves = _mm_packs_epi32(low, high);
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(halves, halves));
        }
    }

    #[inline(always)]
    fn fmadd(self, factor: Self, term: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has FMA.
        Self(unsafe { _mm256_fmadd_ps(self.0, factor.0, term.0) })
    }

    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX2.
        Self(unsafe { _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }

    #[inline(always)]
    fn scalef(self, n: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX2.
        unsafe {
            let n = _mm256_cvtps_epi32(n.0);
            let half = _mm256_srai_epi32::<1>(n);
            let rest = _mm256_sub_epi32(n, half);
            let power = |n| _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_add_epi32(n, _mm256_set1_epi32(127))));
            Self(_mm256_mul_ps(_mm256_mul_ps(self.0, power(half)), power(rest)))
        }
    }

    #[inline(always)]
    fn blend_le(self, bound: Self, yes: Self, no: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX2.
        Self(unsafe { _mm256_blendv_ps(no.0, yes.0, _mm256_cmp_ps::<_CMP_LE_OQ>(self.0, bound.0)) })
    }

    #[inline(always)]
    fn integers_less(self, factor: Self, term: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX2.
        unsafe {
            let [sums, factor, term] = [self, factor, term].map(|vector| _mm256_castps_si256(vector.0));
            Self(_mm256_cvtepi32_ps(_mm256_sub_epi32(sums, _mm256_mullo_epi32(factor, term))))
        }
    }

    #[inline(always)]
    fn unpack_bf16(self) -> (Self, Self) {
        // SAFETY: `self` exists, so the CPU has AVX2.
        unsafe {
            let words = _mm256_castps_si256(self.0);
            let high = _mm256_and_si256(words, _mm256_set1_epi32(0xFFFF_0000_u32 as i32));
            (Self(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))), Self(_mm256_castsi256_ps(high)))
        }
    }

    #[inline(always)]
    fn pack_bf16(low: Self, high: Self) -> Self {
        // SAFETY: `low` exists, so the CPU has AVX2.
        unsafe {
            let high = _mm256_slli_epi32::<16>(round_to_bf16(high));
            Self(_mm256_castsi256_ps(_mm256_or_si256(round_to_bf16(low), high)))
        }
    }

    #[inline(always)]
    fn transpose(vectors: &mut [Self; MAX_LANES]) {
        // SAFETY: vectors exist, so the CPU has AVX2.
        unsafe {
            // Transposes 4 x 4 blocks within each half of a vector: single lanes first, then pairs of lanes.
            let mut pairs = *vectors;
            for i in (0..8).step_by(2) {
                pairs[i].0 = _mm256_unpacklo_ps(vectors[i].0, vectors[i + 1].0);
                pairs[i + 1].0 = _mm256_unpackhi_ps(vectors[i].0, vectors[i + 1].0);
            }
            let mut fours = pairs;
            for i in (0..8).step_by(4) {
                fours[i].0 = _mm256_shuffle_ps::<0x44>(pairs[i].0, pairs[i + 2].0);
                fours[i + 1].0 = _mm256_shuffle_ps::<0xEE>(pairs[i].0, pairs[i + 2].0);
                fours[i + 2].0 = _mm256_shuffle_ps::<0x44>(pairs[i + 1].0, pairs[i + 3].0);
                fours[i + 3].0 = _mm256_shuffle_ps::<0xEE>(pairs[i + 1].0, pairs[i + 3].0);
            }
            // Transposes the halves.
            for i in 0..4 {
                vectors[i].0 = _mm256_permute2f128_ps::<0x20>(fours[i].0, fours[4 + i].0);
                vectors[4 + i].0 = _mm256_permute2f128_ps::<0x31>(fours[i].0, fours[4 + i].0);
            }
        }
    }
}

/// A word is two bytes as 16-bit integers: products of unsigned and signed bytes saturate 16 bits, while products of 16-bit
/// integers are exact in 32 bits.
pub(crate) struct WidenedBytesDot;

impl Dot for WidenedBytesDot {
    type V = V256;
    type Sums = V256;
    const ELEMENTS: usize = 2;
    const IS_WIDENED: bool = true;
    const MR: usize = 6;
    const VECTORS: usize = 2;

    #[inline(always)]
    fn fmadd(sums: V256, a: V256, b: V256) -> V256 {
        // SAFETY: `sums` exists, so the CPU has AVX2.
        unsafe {
            let products = _mm256_madd_epi16(_mm256_castps_si256(a.0), _mm256_castps_si256(b.0));
            V256(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(sums.0), products)))
        }
    }

    #[inline(always)]
    fn to_vector(sums: V256) -> V256 {
        sums
    }

    /// Bytes 0 and 2, and bytes 1 and 3, zero-extended.
    #[inline(always)]
    fn widen_rows(packed: V256) -> (V256, V256) {
        // SAFETY: `packed` exists, so the CPU has AVX2.
        unsafe {
            let packed = _mm256_castps_si256(packed.0);
            let even = _mm256_and_si256(packed, _mm256_set1_epi16(0xFF));
            (V256(_mm256_castsi256_ps(even)), V256(_mm256_castsi256_ps(_mm256_srli_epi16::<8>(packed))))
        }
    }

    /// Bytes 0 and 2, and bytes 1 and 3, sign-extended.
    #[inline(always)]
    fn widen_columns(packed: V256) -> (V256, V256) {
        // SAFETY: `packed` exists, so the CPU has AVX2.
        unsafe {
            let packed = _mm256_castps_si256(packed.0);
            let even = _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(packed));
            (V256(_mm256_castsi256_ps(even)), V256(_mm256_castsi256_ps(_mm256_srai_epi16::<8>(packed))))
        }
    }
}

/// A word is four bytes, multiplied and added by one instruction of AVX-VNNI.
pub(crate) struct VnniDot;

impl Dot for VnniDot {
    type V = V256;
    type Sums = V256;
    const ELEMENTS: usize = 4;
    const MR: usize = 6;
    const VECTORS: usize = 2;

    #[inline(always)]
    fn fmadd(sums: V256, a: V256, b: V256) -> V256 {
        // SAFETY: this dot product is used where the CPU has AVX-VNNI.
        unsafe {
            let [sums, a, b] = [sums, a, b].map(|vector| _mm256_castps_si256(vector.0));
            V256(_mm256_castsi256_ps(_mm256_dpbusd_avx_epi32(sums, a, b)))
        }
    }

    #[inline(always)]
    fn to_vector(sums: V256) -> V256 {
        sums
    }
}
