//! The formats of packed matrices.

use super::dot::{Dot, Simd};
use crate::{Dtype, Element};
use half::bf16;
use std::fmt;

/// A format of packed matrices: the type of its words, the elements that it is multiplied with, and (in [`Dot`]) the
/// instructions and the accumulators of the product. `f32` and [`bf16`] stand for themselves.
pub trait Packing: Copy + fmt::Debug + Send + Sync + 'static {
    /// The type of the packed weights.
    const DTYPE: Dtype;

    /// An element of the rows that a matrix of this format is multiplied with.
    type Input: Element;

    /// The product of words of both factors with an instruction set.
    #[doc(hidden)]
    type Dot<S: Simd>: Dot<V = S::V, Element = Self::Input>;
}

impl Packing for f32 {
    const DTYPE: Dtype = Dtype::Float32;
    type Input = Self;
    type Dot<S: Simd> = S::F32;
}

impl Packing for bf16 {
    const DTYPE: Dtype = Dtype::Bfloat16;
    type Input = Self;
    type Dot<S: Simd> = S::Bf16;
}
