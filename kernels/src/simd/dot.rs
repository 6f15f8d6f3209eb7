//! The inner step of a matrix product on words of 32 bits: one f32, two bf16, two 16-bit integers or four bytes of each operand.
//!
//! A packed matrix stores full words. Where the instructions of a dot product take half as many elements, its words are
//! *widened*: a packed word becomes two.

use super::Vector;
use crate::element::Element;
use half::bf16;
use std::marker::PhantomData;

/// Dot product of words of two operands, added to a vector of accumulators.
pub trait Dot {
    /// Vectors of the results.
    type V: Vector;
    /// A vector of accumulators.
    type Sums: Copy;
    /// Elements of a word.
    const ELEMENTS: usize;
    /// Packed words are widened.
    const IS_WIDENED: bool = false;
    /// `true` for bytes widened to 16 bits: widening and multiplying them takes several instructions each, one each for bf16.
    const WIDENS_BYTES: bool = Self::IS_WIDENED && Self::ELEMENTS > 1;
    /// Rows of a register block, limited by the number of registers.
    const MR: usize;
    /// Vectors in a row of a register block.
    const VECTORS: usize;
    /// Columns of a register block.
    const NR: usize = Self::VECTORS * Self::V::LANES;

    /// Adds the products of the words to the accumulators; `a` are words of rows, `b` of columns.
    fn fmadd(sums: Self::Sums, a: Self::V, b: Self::V) -> Self::Sums;

    /// The accumulators as f32, or as the bits of integers.
    fn to_vector(sums: Self::Sums) -> Self::V;

    /// The two words of each packed word of a row.
    fn widen_rows(packed: Self::V) -> (Self::V, Self::V) {
        (packed, packed)
    }

    /// The two words of each packed word of a column.
    fn widen_columns(packed: Self::V) -> (Self::V, Self::V) {
        (packed, packed)
    }
}

/// A dot product of floating-point elements.
pub trait FloatDot: Dot {
    /// The type of the elements, as stored in a word or widened to the f32 of a word.
    type Element: Element;

    /// Values rounded to elements, each as an f32.
    fn round(values: Self::V) -> Self::V;
}

/// An instruction set: its vector, and its dot products, which define the size of their register blocks.
pub trait Simd {
    /// Its vector of f32.
    type V: Vector;
    /// Its dot product of f32.
    type F32: FloatDot<V = Self::V, Element = f32>;
    /// Its dot product of bf16.
    type Bf16: FloatDot<V = Self::V, Element = bf16>;
    /// Its dot product of unsigned bytes of rows and signed bytes of columns.
    type Int8: Dot<V = Self::V>;
}

/// A word is one f32.
pub(crate) struct F32Dot<V, const MR: usize, const VECTORS: usize>(PhantomData<V>);

impl<V: Vector, const MR: usize, const VECTORS: usize> Dot for F32Dot<V, MR, VECTORS> {
    type V = V;
    type Sums = V;
    const ELEMENTS: usize = 1;
    const MR: usize = MR;
    const VECTORS: usize = VECTORS;

    #[inline(always)]
    fn fmadd(sums: V, a: V, b: V) -> V {
        a.fmadd(b, sums)
    }

    #[inline(always)]
    fn to_vector(sums: V) -> V {
        sums
    }
}

impl<V: Vector, const MR: usize, const VECTORS: usize> FloatDot for F32Dot<V, MR, VECTORS> {
    type Element = f32;

    #[inline(always)]
    fn round(values: V) -> V {
        values
    }
}

/// A word is one bf16 as f32: for CPUs whose f32 product is faster, or the only one.
pub(crate) struct WidenedBf16Dot<V, const MR: usize, const VECTORS: usize>(PhantomData<V>);

impl<V: Vector, const MR: usize, const VECTORS: usize> Dot for WidenedBf16Dot<V, MR, VECTORS> {
    type V = V;
    type Sums = V;
    const ELEMENTS: usize = 1;
    const IS_WIDENED: bool = true;
    const MR: usize = MR;
    const VECTORS: usize = VECTORS;

    #[inline(always)]
    fn fmadd(sums: V, a: V, b: V) -> V {
        a.fmadd(b, sums)
    }

    #[inline(always)]
    fn to_vector(sums: V) -> V {
        sums
    }

    #[inline(always)]
    fn widen_rows(packed: V) -> (V, V) {
        packed.unpack_bf16()
    }

    #[inline(always)]
    fn widen_columns(packed: V) -> (V, V) {
        packed.unpack_bf16()
    }
}

impl<V: Vector, const MR: usize, const VECTORS: usize> FloatDot for WidenedBf16Dot<V, MR, VECTORS> {
    type Element = bf16;

    #[inline(always)]
    fn round(values: V) -> V {
        V::pack_bf16(values, values).unpack_bf16().0
    }
}
