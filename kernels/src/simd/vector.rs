//! The vector of f32 that the algorithms are written with.

use crate::dtype::Dtype;
use crate::element::Element;
use half::bf16;

/// Maximum lanes of any vector.
pub(crate) const MAX_LANES: usize = 16;

/// A vector of f32 lanes. The lanes can also be *words*: 32 bits that hold two bf16, the first in the low half.
///
/// Methods are named after their intrinsics. A value exists only where the CPU has its instructions: constructors are
/// unsafe and require them, so methods that take `self` are safe.
pub trait Vector: Copy {
    /// Lanes.
    const LANES: usize;

    /// All lanes `x`.
    ///
    /// # Safety
    /// The CPU has this vector's instructions.
    unsafe fn set1(x: f32) -> Self;

    /// Reads `LANES` values.
    ///
    /// # Safety
    /// As [`set1`](Self::set1), and they may be read.
    unsafe fn loadu(from: *const f32) -> Self;

    /// Writes `LANES` values.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn storeu(self, to: *mut f32);

    /// Writes `LANES` values, rounded to nearest, ties to even.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn storeu_bf16(self, to: *mut bf16);

    /// Writes `LANES` values as bytes: rounded to the nearest integer, ties to even, then `offset` added, then clamped to 0 to 255; 0
    /// for NaN. |self| < 2^30, and 0 <= `offset` <= 255.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn storeu_u8(self, offset: i32, to: *mut u8);

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;

    /// `self * factor + term`, fused where the CPU has it.
    fn fmadd(self, factor: Self, term: Self) -> Self;

    /// `self > other ? self : other`: `other` if either is NaN.
    fn max(self, other: Self) -> Self;

    /// `self < other ? self : other`: `other` if either is NaN.
    fn min(self, other: Self) -> Self;

    /// Rounds to the nearest integer, ties to even; |self| < 2^22.
    fn round(self) -> Self;

    /// `self * 2^n` for integers `-150 <= n <= 150`, rounded once; NaN where `self` is NaN.
    fn scalef(self, n: Self) -> Self;

    /// Lane by lane `x <= bound ? 0 : self * 2^n`, where only the lanes above the bound need an `n` that [`scalef`](Self::scalef) can take.
    #[inline(always)]
    fn scalef_above(self, n: Self, x: Self, bound: Self) -> Self {
        // SAFETY: `self` exists, so the CPU has the instructions.
        x.blend_le(bound, unsafe { Self::set1(0.0) }, self.scalef(n))
    }

    /// Lane by lane `self <= bound ? yes : no`.
    fn blend_le(self, bound: Self, yes: Self, no: Self) -> Self;

    /// `self - factor * term` of lanes that hold the bits of 32-bit integers, with wrap-around, then converted to f32, rounded to nearest.
    fn integers_less(self, factor: Self, term: Self) -> Self;

    /// The two bf16 of each word, low half first.
    fn unpack_bf16(self) -> (Self, Self);

    /// Words of `low` and `high`, rounded to nearest, ties to even.
    fn pack_bf16(low: Self, high: Self) -> Self;

    /// Lane `c` of vector `r` becomes lane `r` of vector `c`, bit for bit, for the first `LANES` vectors.
    #[inline(always)]
    fn transpose(vectors: &mut [Self; MAX_LANES]) {
        let mut lanes = [[0.0_f32; MAX_LANES]; MAX_LANES];
        for r in 0..Self::LANES {
            for (c, &lane) in vectors[r].to_array()[..Self::LANES].iter().enumerate() {
                lanes[c][r] = lane;
            }
        }
        for c in 0..Self::LANES {
            // SAFETY: a vector exists, so the CPU has its instructions; `lanes` is long enough for every vector.
            vectors[c] = unsafe { Self::loadu(lanes[c].as_ptr()) };
        }
    }

    /// Reads `count <= LANES` values; the other lanes are 0.
    ///
    /// # Safety
    /// As [`set1`](Self::set1), and `count` values may be read.
    #[inline(always)]
    unsafe fn maskz_loadu(from: *const f32, count: usize) -> Self {
        debug_assert!(count <= Self::LANES);
        let mut lanes = [0.0; MAX_LANES];
        // SAFETY: the caller's duty; `lanes` is long enough for every vector.
        unsafe {
            std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
            Self::loadu(lanes.as_ptr())
        }
    }

    /// [`maskz_loadu`](Self::maskz_loadu), as fast as [`loadu`](Self::loadu) when all lanes are read.
    ///
    /// # Safety
    /// As [`maskz_loadu`](Self::maskz_loadu).
    #[inline(always)]
    unsafe fn loadu_up_to(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's duty.
        unsafe { if count == Self::LANES { Self::loadu(from) } else { Self::maskz_loadu(from, count) } }
    }

    /// Writes the first `count <= LANES` lanes.
    ///
    /// # Safety
    /// `count` values may be written.
    #[inline(always)]
    unsafe fn mask_storeu(self, to: *mut f32, count: usize) {
        debug_assert!(count <= Self::LANES);
        // SAFETY: the caller's duty.
        unsafe { std::ptr::copy_nonoverlapping(self.to_array().as_ptr(), to, count) }
    }

    /// Writes the first `count <= LANES` lanes as elements, rounded to nearest, ties to even.
    ///
    /// # Safety
    /// `count` elements may be written.
    #[inline(always)]
    unsafe fn store_elements<E: Element>(self, to: *mut E, count: usize) {
        debug_assert!(count <= Self::LANES);
        let is_whole = count == Self::LANES;
        // SAFETY: the caller's duty; `E` is the type that its `DTYPE` says, and `lanes` is long enough for every vector.
        unsafe {
            match E::DTYPE {
                Dtype::Float32 if is_whole => self.storeu(to.cast()),
                Dtype::Float32 => self.mask_storeu(to.cast(), count),
                Dtype::Bfloat16 if is_whole => self.storeu_bf16(to.cast()),
                Dtype::Bfloat16 => {
                    let mut lanes = [bf16::ZERO; MAX_LANES];
                    self.storeu_bf16(lanes.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(lanes.as_ptr(), to.cast(), count);
                }
                // No element is an int8.
                Dtype::Float16 | Dtype::Int8 => {
                    let lanes = self.to_array();
                    for i in 0..count {
                        to.add(i).write(E::from_f32(lanes[i]));
                    }
                }
            }
        }
    }

    /// The lanes, followed by zeros.
    #[inline(always)]
    fn to_array(self) -> [f32; MAX_LANES] {
        let mut lanes = [0.0; MAX_LANES];
        // SAFETY: `lanes` is long enough for every vector.
        unsafe { self.storeu(lanes.as_mut_ptr()) };
        lanes
    }

    /// The sum of the lanes, halves added to halves.
    #[inline(always)]
    fn reduce_add(self) -> f32 {
        let mut lanes = self.to_array();
        let mut width = MAX_LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
            width /= 2;
        }
        lanes[0]
    }
}

/// Calls `f` with the first index and the number of elements of each vector of a row.
///
/// `f` is called at one place, so that it is inlined: an intrinsic in a closure that is not inlined is compiled without
/// its instruction set, as a call.
#[inline(always)]
pub(crate) fn for_vectors<V: Vector>(width: usize, mut f: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i < width {
        f(i, V::LANES.min(width - i));
        i += V::LANES;
    }
}
