//! The inner step of a matrix product on words: one f32, or two bf16, of each factor.

use super::Vector;
use crate::Element;
use half::bf16;
use std::marker::PhantomData;

/// Multiplies words of two factors and adds the products to a vector of accumulators.
pub trait Dot {
    /// Vectors of the results.
    type V: Vector;
    /// A vector of accumulators.
    type Sums: Copy;
    /// A vector of words of a factor.
    type Words: Copy;
    /// The elements that a word consists of.
    type Element: Element;
    /// Elements of a word.
    const ELEMENTS: usize = size_of::<u32>() / size_of::<Self::Element>();
    /// Rows of a register block: as many as there are registers for.
    const ROWS: usize;
    /// Vectors in a row of a register block.
    const VECTORS: usize;
    /// Columns of a register block.
    const WIDTH: usize = Self::VECTORS * Self::V::LANES;

    /// Accumulators of 0.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    unsafe fn zero() -> Self::Sums;

    /// Reads a word for each lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and `LANES` words may be read.
    unsafe fn loadu(from: *const u32) -> Self::Words;

    /// Reads one word for all lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and the word may be read.
    unsafe fn set1(from: *const u32) -> Self::Words;

    /// Adds the products of the words to the accumulators.
    fn fmadd(sums: Self::Sums, a: Self::Words, b: Self::Words) -> Self::Sums;

    /// The accumulators as f32.
    fn to_f32(sums: Self::Sums) -> Self::V;
}

/// An instruction set: its vector, and its dot products with the rows and vectors of their register blocks.
pub trait Simd {
    /// Its vector of f32.
    type V: Vector;
    /// Its dot product of f32.
    type F32: Dot<V = Self::V, Element = f32>;
    /// Its dot product of pairs of bf16.
    type Bf16: Dot<V = Self::V, Element = bf16>;
}

/// A word is one f32.
pub(crate) struct F32Dot<V, const ROWS: usize, const VECTORS: usize>(PhantomData<V>);

impl<V: Vector, const ROWS: usize, const VECTORS: usize> Dot for F32Dot<V, ROWS, VECTORS> {
    type V = V;
    type Sums = V;
    type Words = V;
    type Element = f32;
    const ROWS: usize = ROWS;
    const VECTORS: usize = VECTORS;

    #[inline(always)]
    unsafe fn zero() -> V {
        // SAFETY: the caller's duty.
        unsafe { V::set1(0.0) }
    }

    #[inline(always)]
    unsafe fn loadu(from: *const u32) -> V {
        // SAFETY: the caller's duty.
        unsafe { V::loadu(from.cast()) }
    }

    #[inline(always)]
    unsafe fn set1(from: *const u32) -> V {
        // SAFETY: the caller's duty.
        unsafe { V::set1(*from.cast()) }
    }

    #[inline(always)]
    fn fmadd(sums: V, a: V, b: V) -> V {
        a.fmadd(b, sums)
    }

    #[inline(always)]
    fn to_f32(sums: V) -> V {
        sums
    }
}

/// A word is two bf16; each is widened to f32 and multiplied there.
pub(crate) struct EmulatedBf16Dot<V, const ROWS: usize, const VECTORS: usize>(PhantomData<V>);

impl<V: Vector, const ROWS: usize, const VECTORS: usize> Dot for EmulatedBf16Dot<V, ROWS, VECTORS> {
    type V = V;
    type Sums = V;
    type Words = (V, V);
    type Element = bf16;
    const ROWS: usize = ROWS;
    const VECTORS: usize = VECTORS;

    #[inline(always)]
    unsafe fn zero() -> V {
        // SAFETY: the caller's duty.
        unsafe { V::set1(0.0) }
    }

    #[inline(always)]
    unsafe fn loadu(from: *const u32) -> (V, V) {
        // SAFETY: the caller's duty.
        unsafe { V::loadu(from.cast()) }.unpack_bf16()
    }

    #[inline(always)]
    unsafe fn set1(from: *const u32) -> (V, V) {
        // SAFETY: the caller's duty.
        unsafe { (V::set1(f32::from_bits(*from << 16)), V::set1(f32::from_bits(*from & 0xFFFF_0000))) }
    }

    #[inline(always)]
    fn fmadd(sums: V, a: (V, V), b: (V, V)) -> V {
        a.1.fmadd(b.1, a.0.fmadd(b.0, sums))
    }

    #[inline(always)]
    fn to_f32(sums: V) -> V {
        sums
    }
}
