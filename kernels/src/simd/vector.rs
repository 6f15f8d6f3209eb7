//! The vector of f32 that the algorithms are written with.

use half::bf16;

/// No vector has more lanes.
pub(crate) const MAX_LANES: usize = 16;

/// A vector of f32 lanes. The lanes can also be *words*: 32 bits that hold two bf16, the first in the low half.
///
/// A value exists only where the CPU has its instructions: what makes one from nothing is unsafe and asks for that,
/// so that what takes `self` is safe.
pub(crate) trait Vector: Copy {
    /// Lanes.
    const LANES: usize;
    /// Rows of a register block for `F32Dot`, with [`BLOCK_VECTORS`](Self::BLOCK_VECTORS) vectors each: as many as
    /// there are registers for.
    const F32_ROWS: usize;
    /// Rows of a register block for `EmulatedBf16Dot`.
    const BF16_ROWS: usize;
    /// Vectors in a row of a register block.
    const BLOCK_VECTORS: usize;

    /// All lanes `x`.
    ///
    /// # Safety
    /// The CPU has this vector's instructions.
    unsafe fn splat(x: f32) -> Self;

    /// Reads `LANES` values.
    ///
    /// # Safety
    /// As [`splat`](Self::splat), and they may be read.
    unsafe fn load(from: *const f32) -> Self;

    /// Writes `LANES` values.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn store(self, to: *mut f32);

    /// Writes `LANES` values, rounded to nearest, ties to even.
    ///
    /// # Safety
    /// They may be written.
    unsafe fn store_bf16(self, to: *mut bf16);

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;

    /// `self * factor + term`, fused where the CPU has it.
    fn mul_add(self, factor: Self, term: Self) -> Self;

    /// `self > other ? self : other`: `other` if either is NaN.
    fn max(self, other: Self) -> Self;

    /// `self < other ? self : other`: `other` if either is NaN.
    fn min(self, other: Self) -> Self;

    /// To the nearest integer, ties to even; |self| < 2^22.
    fn round(self) -> Self;

    /// `self * 2^n` for integers `-150 <= n <= 150`, rounded once; NaN where `self` is NaN.
    fn scale_by_power_of_two(self, n: Self) -> Self;

    /// Lane by lane `self <= bound ? yes : no`.
    fn select_le(self, bound: Self, yes: Self, no: Self) -> Self;

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
            vectors[c] = unsafe { Self::load(lanes[c].as_ptr()) };
        }
    }

    /// Reads `count <= LANES` values; the other lanes are 0.
    ///
    /// # Safety
    /// As [`splat`](Self::splat), and `count` values may be read.
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        debug_assert!(count <= Self::LANES);
        let mut lanes = [0.0; MAX_LANES];
        // SAFETY: the caller's duty; `lanes` is long enough for every vector.
        unsafe {
            std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
            Self::load(lanes.as_ptr())
        }
    }

    /// [`load_first`](Self::load_first), without its price where all lanes are read.
    ///
    /// # Safety
    /// As [`load_first`](Self::load_first).
    #[inline(always)]
    unsafe fn load_up_to(from: *const f32, count: usize) -> Self {
        // SAFETY: the caller's duty.
        unsafe { if count == Self::LANES { Self::load(from) } else { Self::load_first(from, count) } }
    }

    /// Writes the first `count <= LANES` lanes.
    ///
    /// # Safety
    /// `count` values may be written.
    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        debug_assert!(count <= Self::LANES);
        // SAFETY: the caller's duty.
        unsafe { std::ptr::copy_nonoverlapping(self.to_array().as_ptr(), to, count) }
    }

    /// The lanes, followed by zeros.
    #[inline(always)]
    fn to_array(self) -> [f32; MAX_LANES] {
        let mut lanes = [0.0; MAX_LANES];
        // SAFETY: `lanes` is long enough for every vector.
        unsafe { self.store(lanes.as_mut_ptr()) };
        lanes
    }

    /// The sum of the lanes, halves added to halves.
    #[inline(always)]
    fn sum(self) -> f32 {
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

/// An element that vectors can be stored as.
pub(crate) trait Sink: Copy + Default + Send + Sync {
    /// Writes the first `count <= LANES` lanes.
    ///
    /// # Safety
    /// `count` values may be written.
    unsafe fn store_first<V: Vector>(vector: V, to: *mut Self, count: usize);
}

impl Sink for f32 {
    #[inline(always)]
    unsafe fn store_first<V: Vector>(vector: V, to: *mut Self, count: usize) {
        // SAFETY: the caller's duty.
        unsafe { if count == V::LANES { vector.store(to) } else { vector.store_first(to, count) } }
    }
}

impl Sink for bf16 {
    #[inline(always)]
    unsafe fn store_first<V: Vector>(vector: V, to: *mut Self, count: usize) {
        debug_assert!(count <= V::LANES);
        if count == V::LANES {
            // SAFETY: the caller's duty.
            return unsafe { vector.store_bf16(to) };
        }
        let mut lanes = [bf16::ZERO; MAX_LANES];
        // SAFETY: `lanes` is long enough for every vector; `count` values may be written.
        unsafe {
            vector.store_bf16(lanes.as_mut_ptr());
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
        }
    }
}
