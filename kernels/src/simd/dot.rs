//! The inner step of a matrix product on words: one f32, or two bf16, of each factor.

use super::{Sink, Vector};
use half::bf16;
use std::marker::PhantomData;

/// How words of two factors are multiplied and added to a vector of sums.
pub(crate) trait Dot {
    /// The sums.
    type V: Vector;
    /// Some words of a factor.
    type Words: Copy;
    /// What words are made of.
    type Element: Sink;
    /// How many of them.
    const ELEMENTS: usize = size_of::<u32>() / size_of::<Self::Element>();
    /// Rows of a register block.
    const ROWS: usize;

    /// Reads a word for each lane.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and `LANES` words may be read.
    unsafe fn load(from: *const u32) -> Self::Words;

    /// Reads one word for all lanes.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, and the word may be read.
    unsafe fn splat(from: *const u32) -> Self::Words;

    /// Adds the products of the words to the sums.
    fn step(sums: Self::V, a: Self::Words, b: Self::Words) -> Self::V;
}

/// A word is one f32.
pub(crate) struct F32Dot<V>(PhantomData<V>);

impl<V: Vector> Dot for F32Dot<V> {
    type V = V;
    type Words = V;
    type Element = f32;
    const ROWS: usize = V::F32_ROWS;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> V {
        // SAFETY: the caller's duty.
        unsafe { V::load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn splat(from: *const u32) -> V {
        // SAFETY: the caller's duty.
        unsafe { V::splat(*from.cast()) }
    }

    #[inline(always)]
    fn step(sums: V, a: V, b: V) -> V {
        a.mul_add(b, sums)
    }
}

/// A word is two bf16; each is widened to f32 and multiplied there.
pub(crate) struct EmulatedBf16Dot<V>(PhantomData<V>);

impl<V: Vector> Dot for EmulatedBf16Dot<V> {
    type V = V;
    type Words = (V, V);
    type Element = bf16;
    const ROWS: usize = V::BF16_ROWS;

    #[inline(always)]
    unsafe fn load(from: *const u32) -> (V, V) {
        // SAFETY: the caller's duty.
        unsafe { V::load(from.cast()) }.unpack_bf16()
    }

    #[inline(always)]
    unsafe fn splat(from: *const u32) -> (V, V) {
        // SAFETY: the caller's duty.
        unsafe { (V::splat(f32::from_bits(*from << 16)), V::splat(f32::from_bits(*from & 0xFFFF_0000))) }
    }

    #[inline(always)]
    fn step(sums: V, a: (V, V), b: (V, V)) -> V {
        a.1.mul_add(b.1, a.0.mul_add(b.0, sums))
    }
}
