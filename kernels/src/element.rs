//! The element types of tensors.

use crate::dtype::Dtype;
use half::{bf16, f16};
use std::fmt;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for half::bf16 {}
    impl Sealed for half::f16 {}
}

/// An element of a tensor in a file, on a CPU or on a GPU: `f32`, [`bf16`] or [`f16`].
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + fmt::Debug + 'static {
    /// The type as a [`Dtype`].
    const DTYPE: Dtype;

    /// Rounds to the nearest value of this type, ties to even.
    fn from_f32(x: f32) -> Self;

    /// The exact value.
    fn to_f32(self) -> f32;

    /// The element in the low bits of a word.
    fn from_word(word: u32) -> Self;

    /// The bits of the element, in the low bits of a word.
    fn to_word(self) -> u32;

    /// Converts to another type, rounded to nearest; bit for bit within the same type.
    #[inline(always)]
    fn convert<T: Element>(self) -> T {
        if Self::DTYPE == T::DTYPE { T::from_word(self.to_word()) } else { T::from_f32(self.to_f32()) }
    }
}

macro_rules! element {
    ($type:ident, $dtype:ident, $from_f32:expr, $to_f32:expr) => {
        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;

            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                $from_f32(x)
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }

            #[inline(always)]
            fn from_word(word: u32) -> Self {
                Self::from_bits(word as _)
            }

            #[inline(always)]
            fn to_word(self) -> u32 {
                self.to_bits().into()
            }
        }
    };
}

element!(f32, Float32, std::convert::identity, std::convert::identity);
element!(bf16, Bfloat16, bf16::from_f32, bf16::to_f32);
element!(f16, Float16, f16::from_f32, f16::to_f32);
