//! AVX-512, with and without the bf16 instructions.

use super::dot::FloatDot;
use super::{Dot, MAX_LANES, Vector};
use half::bf16;
use std::arch::x86_64::*;
use std::mem::transmute;

/// Sixteen lanes; `BF16` says whether the CPU has AVX512-BF16.
#[derive(Debug, Clone, Copy)]
pub(crate) struct V512<const BF16: bool>(__m512);

/// Sixteen values rounded to bf16.
#[inline(always)]
fn round_to_bf16<const BF16: bool>(x: V512<BF16>) -> __m256i {
    // SAFETY: `x` exists, so the CPU has AVX-512, and AVX512-BF16 if `BF16`; both types are 256 plain bits.
    unsafe {
        if BF16 {
            return transmute::<__m256bh, __m256i>(_mm512_cvtneps_pbh(x.0));
        }
        let bits = _mm512_castps_si512(x.0);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
        let is_nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x.0, x.0);
        let bits = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x40_0000));
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(bits))
    }
}

/// Indices of 16-bit lanes that interleave the halves of a vector: 0, 16, 1, 17, ..
static INTERLEAVED: [u16; 32] = {
    let mut indices = [0; 32];
    let mut i = 0;
    while i < 32 {
        indices[i] = (i / 2 + i % 2 * 16) as u16;
        i += 1;
    }
    indices
};

macro_rules! lane_wise {
    ($($name:ident = $intrinsic:ident;)*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: `self` exists, so the CPU has AVX-512.
            Self(unsafe { $intrinsic(self.0, other.0) })
        }
    )*};
}

/// A mask of the first `count <= 16` lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    debug_assert!(count <= 16);
    ((1_u32 << count) - 1) as __mmask16
}

impl<const BF16: bool> Vector for V512<BF16> {
    const LANES: usize = 16;

    lane_wise! {
        add = _mm512_add_ps;
        sub = _mm512_sub_ps;
        mul = _mm512_mul_ps;
        div = _mm512_div_ps;
        max = _mm512_max_ps;
        min = _mm512_min_ps;
        // Scales by 2^floor(n), rounds once, and handles overflow and underflow.
        scalef = _mm512_scalef_ps;
    }

    #[inline(always)]
    unsafe fn set1(x: f32) -> Self {
        // SAFETY: the caller's duty.
        Self(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    unsafe fn loadu(from: *const f32) -> Self {
        // SAFETY: the caller's duty.
        Self(unsafe { _mm512_loadu_ps(from) })
    }

    #[inline(always)]
    unsafe fn storeu(self, to: *mut f32) {
        // SAFETY: the caller's duty; `self` exists, so the CPU has AVX-512.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }

    #[inline(always)]
    unsafe fn storeu_bf16(self, to: *mut bf16) {
        // SAFETY: the caller's duty; `self` exists, so the CPU has AVX-512.
        unsafe { _mm256_storeu_si256(to.cast(), round_to_bf16(self)) }
    }

    #[inline(always)]
    unsafe fn storeu_u8(self, offset: i32, to: *mut u8) {
        // SAFETY: the caller's duty; `self` exists, so the CPU has AVX-512.
        unsafe {
            // NaN becomes the minimum integer.
            let words = _mm512_add_epi32(_mm512_cvtps_epi32(self.0), _mm512_set1_epi32(offset));
            let words = _mm512_max_epi32(words, _mm512_setzero_si512());
            _mm_storeu_si128(to.cast(), _mm512_cvtusepi32_epi8(words));
        }
    }

    #[inline(always)]
    unsafe fn maskz_loadu(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's duty; masked lanes are not touched.
        Self(unsafe { _mm512_maskz_loadu_ps(first(count), from) })
    }

    #[inline(always)]
    unsafe fn mask_storeu(self, to: *mut f32, count: usize) {
        // SAFETY: the caller's duty; masked lanes are not touched. `self` exists, so the CPU has AVX-512.
        unsafe { _mm512_mask_storeu_ps(to, first(count), self.0) }
    }

    #[inline(always)]
    fn fmadd(self, factor: Self, term: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX-512.
        Self(unsafe { _mm512_fmadd_ps(self.0, factor.0, term.0) })
    }

    #[inline(always)]
    fn round(self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX-512.
        Self(unsafe { _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0) })
    }

    #[inline(always)]
    fn scalef_above(self, n: Self, x: Self, bound: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX-512. Masked lanes take no time, whatever their results would be.
        Self(unsafe { _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x.0, bound.0), self.0, n.0) })
    }

    #[inline(always)]
    fn blend_le(self, bound: Self, yes: Self, no: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX-512.
        Self(unsafe { _mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LE_OQ>(self.0, bound.0), no.0, yes.0) })
    }

    #[inline(always)]
    fn integers_less(self, factor: Self, term: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has AVX-512.
        unsafe {
            let [sums, factor, term] = [self, factor, term].map(|vector| _mm512_castps_si512(vector.0));
            Self(_mm512_cvtepi32_ps(_mm512_sub_epi32(sums, _mm512_mullo_epi32(factor, term))))
        }
    }

    #[inline(always)]
    fn unpack_bf16(self) -> (Self, Self) {
        // SAFETY: `self` exists, so the CPU has AVX-512.
        unsafe {
            let words = _mm512_castps_si512(self.0);
            let high = _mm512_and_si512(words, _mm512_set1_epi32(0xFFFF_0000_u32 as i32));
            (Self(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))), Self(_mm512_castsi512_ps(high)))
        }
    }

    #[inline(always)]
    fn pack_bf16(low: Self, high: Self) -> Self {
        // SAFETY: `low` exists, so the CPU has AVX-512, and AVX512-BF16 if `BF16`; both types are 512 plain bits.
        unsafe {
            if BF16 {
                let interleaved = _mm512_loadu_si512(INTERLEAVED.as_ptr().cast());
                let halves = transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high.0, low.0));
                return Self(_mm512_castsi512_ps(_mm512_permutexvar_epi16(interleaved, halves)));
            }
            let low = _mm512_cvtepu16_epi32(round_to_bf16(low));
            let high = _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(round_to_bf16(high)));
            Self(_mm512_castsi512_ps(_mm512_or_si512(low, high)))
        }
    }

    #[inline(always)]
    fn transpose(vectors: &mut [Self; MAX_LANES]) {
        // SAFETY: vectors exist, so the CPU has AVX-512.
        unsafe {
            // Transposes 4 x 4 blocks within each quarter of a vector: single lanes first, then pairs of lanes.
            let mut pairs = *vectors;
            for i in (0..16).step_by(2) {
                pairs[i].0 = _mm512_unpacklo_ps(vectors[i].0, vectors[i + 1].0);
                pairs[i + 1].0 = _mm512_unpackhi_ps(vectors[i].0, vectors[i + 1].0);
            }
            let mut fours = [_mm512_setzero_pd(); MAX_LANES];
            for i in (0..16).step_by(4) {
                let [a, b] = [_mm512_castps_pd(pairs[i].0), _mm512_castps_pd(pairs[i + 1].0)];
                let [c, d] = [_mm512_castps_pd(pairs[i + 2].0), _mm512_castps_pd(pairs[i + 3].0)];
                fours[i] = _mm512_unpacklo_pd(a, c);
                fours[i + 1] = _mm512_unpackhi_pd(a, c);
                fours[i + 2] = _mm512_unpacklo_pd(b, d);
                fours[i + 3] = _mm512_unpackhi_pd(b, d);
            }
            // Transposes the quarters.
            for i in 0..4 {
                let [a, b] = [_mm512_castpd_ps(fours[i]), _mm512_castpd_ps(fours[4 + i])];
                let [c, d] = [_mm512_castpd_ps(fours[8 + i]), _mm512_castpd_ps(fours[12 + i])];
                let (low, high) = (_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b));
                let (low2, high2) = (_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xEE>(c, d));
                vectors[i].0 = _mm512_shuffle_f32x4::<0x88>(low, low2);
                vectors[4 + i].0 = _mm512_shuffle_f32x4::<0xDD>(low, low2);
                vectors[8 + i].0 = _mm512_shuffle_f32x4::<0x88>(high, high2);
                vectors[12 + i].0 = _mm512_shuffle_f32x4::<0xDD>(high, high2);
            }
        }
    }
}

/// A word is two bf16, multiplied and added by one instruction.
pub(crate) struct NativeBf16Dot;

impl Dot for NativeBf16Dot {
    type V = V512<true>;
    type Sums = V512<true>;
    const ELEMENTS: usize = 2;
    const MR: usize = 14;
    const VECTORS: usize = 2;

    #[inline(always)]
    fn fmadd(sums: V512<true>, a: V512<true>, b: V512<true>) -> V512<true> {
        // SAFETY: `sums` exists, so the CPU has AVX512-BF16; both types are 512 plain bits.
        unsafe {
            let (a, b) = (transmute::<__m512, __m512bh>(a.0), transmute::<__m512, __m512bh>(b.0));
            V512(_mm512_dpbf16_ps(sums.0, a, b))
        }
    }

    #[inline(always)]
    fn to_vector(sums: V512<true>) -> V512<true> {
        sums
    }
}

impl FloatDot for NativeBf16Dot {
    type Element = bf16;

    #[inline(always)]
    fn round(values: V512<true>) -> V512<true> {
        V512::pack_bf16(values, values).unpack_bf16().0
    }
}

/// A word is two bytes as 16-bit integers, as in AVX2.
pub(crate) struct WidenedBytesDot<const BF16: bool>;

impl<const BF16: bool> Dot for WidenedBytesDot<BF16> {
    type V = V512<BF16>;
    type Sums = V512<BF16>;
    const ELEMENTS: usize = 2;
    const IS_WIDENED: bool = true;
    const MR: usize = 12;
    const VECTORS: usize = 2;

    #[inline(always)]
    fn fmadd(sums: V512<BF16>, a: V512<BF16>, b: V512<BF16>) -> V512<BF16> {
        // SAFETY: `sums` exists, so the CPU has AVX-512 BW.
        unsafe {
            let products = _mm512_madd_epi16(_mm512_castps_si512(a.0), _mm512_castps_si512(b.0));
            V512(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(sums.0), products)))
        }
    }

    #[inline(always)]
    fn to_vector(sums: V512<BF16>) -> V512<BF16> {
        sums
    }

    /// Bytes 0 and 2, and bytes 1 and 3, zero-extended.
    #[inline(always)]
    fn widen_rows(packed: V512<BF16>) -> (V512<BF16>, V512<BF16>) {
        // SAFETY: `packed` exists, so the CPU has AVX-512 BW.
        unsafe {
            let packed = _mm512_castps_si512(packed.0);
            let even = _mm512_and_si512(packed, _mm512_set1_epi16(0xFF));
            (V512(_mm512_castsi512_ps(even)), V512(_mm512_castsi512_ps(_mm512_srli_epi16::<8>(packed))))
        }
    }

    /// Bytes 0 and 2, and bytes 1 and 3, sign-extended.
    #[inline(always)]
    fn widen_columns(packed: V512<BF16>) -> (V512<BF16>, V512<BF16>) {
        // SAFETY: `packed` exists, so the CPU has AVX-512 BW.
        unsafe {
            let packed = _mm512_castps_si512(packed.0);
            let even = _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(packed));
            (V512(_mm512_castsi512_ps(even)), V512(_mm512_castsi512_ps(_mm512_srai_epi16::<8>(packed))))
        }
    }
}

/// A word is four bytes, multiplied and added by one instruction of AVX512-VNNI.
pub(crate) struct VnniDot;

impl Dot for VnniDot {
    type V = V512<false>;
    type Sums = V512<false>;
    const ELEMENTS: usize = 4;
    const MR: usize = 14;
    const VECTORS: usize = 2;

    #[inline(always)]
    fn fmadd(sums: V512<false>, a: V512<false>, b: V512<false>) -> V512<false> {
        // SAFETY: this dot product is used where the CPU has AVX512-VNNI.
        unsafe {
            let [sums, a, b] = [sums, a, b].map(|vector| _mm512_castps_si512(vector.0));
            V512(_mm512_castsi512_ps(_mm512_dpbusd_epi32(sums, a, b)))
        }
    }

    #[inline(always)]
    fn to_vector(sums: V512<false>) -> V512<false> {
        sums
    }
}
