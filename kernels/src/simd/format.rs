//! The formats of packed matrices.

use super::dispatch::{run, run_int8, run_tiles};
use super::dot::{Dot, FloatDot, Simd};
use super::operation::{Operation, TileOperation};
use crate::dtype::Dtype;
use crate::element::Element;
use crate::isa::Isa;
use half::bf16;
use std::fmt;

/// A format of packed matrices: the type of the weights, the elements that they are multiplied with, and (in [`Dot`]) the
/// instructions and the accumulators of the product. Implemented by `f32`, [`bf16`] and [`Int8`].
pub trait Format: Copy + fmt::Debug + Send + Sync + 'static {
    /// The type of the packed weights.
    const DTYPE: Dtype;

    /// An element of the rows that a matrix of this format is multiplied with.
    type Input: Element;

    /// Weights in a word of the packed matrix.
    #[doc(hidden)]
    const ELEMENTS: usize = size_of::<u32>() / Self::DTYPE_SIZE;

    /// Bytes of a packed weight, and of the row element that it is multiplied with (after quantization, if the format
    /// is quantized).
    #[doc(hidden)]
    const DTYPE_SIZE: usize = size_of::<Self::Input>();

    /// Weights and rows are quantized; sums are then integers.
    #[doc(hidden)]
    const IS_QUANTIZED: bool = false;

    /// The dot product of words with an instruction set.
    #[doc(hidden)]
    type Dot<S: Simd>: Dot<V = S::V>;

    /// Runs an operation on words of this format: on tiles if the instruction set has them, else on vectors.
    #[doc(hidden)]
    fn run(isa: Isa, operation: impl Operation + TileOperation);
}

/// A format of floating-point elements, in which the rows have the type of the weights.
pub trait FloatFormat: Element + Format<Input = Self> {
    /// [`Format::Dot`], known to be a floating-point dot product.
    #[doc(hidden)]
    type FloatDot<S: Simd>: FloatDot<V = S::V, Element = Self>;
}

impl Format for f32 {
    const DTYPE: Dtype = Dtype::Float32;
    type Input = Self;
    type Dot<S: Simd> = S::F32;

    // AMX has no f32 products.
    fn run(isa: Isa, operation: impl Operation + TileOperation) {
        run(isa, operation);
    }
}

impl FloatFormat for f32 {
    type FloatDot<S: Simd> = S::F32;
}

impl Format for bf16 {
    const DTYPE: Dtype = Dtype::Bfloat16;
    type Input = Self;
    type Dot<S: Simd> = S::Bf16;

    fn run(isa: Isa, operation: impl Operation + TileOperation) {
        if let Err(operation) = run_tiles(isa, operation) {
            run(isa, operation);
        }
    }
}

impl FloatFormat for bf16 {
    type FloatDot<S: Simd> = S::Bf16;
}

/// Signed bytes with a scale for each row of the matrix. Input rows of f32 are quantized to unsigned bytes, each row with its
/// own scale and zero point; sums are exact integers.
#[derive(Debug, Clone, Copy)]
pub struct Int8;

impl Format for Int8 {
    const DTYPE: Dtype = Dtype::Int8;
    type Input = f32;
    const DTYPE_SIZE: usize = size_of::<i8>();
    const IS_QUANTIZED: bool = true;
    type Dot<S: Simd> = S::Int8;

    fn run(isa: Isa, operation: impl Operation + TileOperation) {
        if let Err(operation) = run_tiles(isa, operation) {
            run_int8(isa, operation);
        }
    }
}
