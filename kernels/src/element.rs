//! The element types of activations.

use half::bf16;
use std::fmt;

/// The precision of packed weights and of the activations they are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Single precision throughout: the exact path.
    F32,
    /// bfloat16 factors, single-precision sums.
    Bf16,
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
        })
    }
}

/// A slice of activations whose type is known at run time only.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// bfloat16.
    Bf16(&'a [bf16]),
}

/// A mutable slice of activations whose type is known at run time only.
#[derive(Debug)]
pub enum ElementsMut<'a> {
    /// Single precision.
    F32(&'a mut [f32]),
    /// bfloat16.
    Bf16(&'a mut [bf16]),
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
}

/// An element of a GEMM input: `f32` or [`bf16`].
pub trait Activation: sealed::Sealed + Copy + Default + Send + Sync + fmt::Debug + 'static {
    /// Which of the two this is.
    const PRECISION: Precision;

    /// Rounds to the nearest value of this type, ties to even.
    fn from_f32(x: f32) -> Self;

    /// The exact value.
    fn to_f32(self) -> f32;

    /// The slice with its type as a value.
    #[doc(hidden)]
    fn elements(slice: &[Self]) -> Elements<'_>;

    /// The slice with its type as a value.
    #[doc(hidden)]
    fn elements_mut(slice: &mut [Self]) -> ElementsMut<'_>;
}

impl Activation for f32 {
    const PRECISION: Precision = Precision::F32;

    fn from_f32(x: f32) -> Self {
        x
    }

    fn to_f32(self) -> f32 {
        self
    }

    fn elements(slice: &[Self]) -> Elements<'_> {
        Elements::F32(slice)
    }

    fn elements_mut(slice: &mut [Self]) -> ElementsMut<'_> {
        ElementsMut::F32(slice)
    }
}

impl Activation for bf16 {
    const PRECISION: Precision = Precision::Bf16;

    fn from_f32(x: f32) -> Self {
        bf16::from_f32(x)
    }

    fn to_f32(self) -> f32 {
        bf16::to_f32(self)
    }

    fn elements(slice: &[Self]) -> Elements<'_> {
        Elements::Bf16(slice)
    }

    fn elements_mut(slice: &mut [Self]) -> ElementsMut<'_> {
        ElementsMut::Bf16(slice)
    }
}
