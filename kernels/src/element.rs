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

/// The bits of `x` rounded to bf16, in the low half of a word: `bf16::from_f32` without branches, which the compiler turns into vectors.
#[inline(always)]
pub(crate) fn round_to_bf16(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7FFF + (bits >> 16 & 1)) >> 16;
    if x.is_nan() { bits >> 16 | 0x40 } else { rounded }
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
element!(bf16, Bfloat16, |x| bf16::from_bits(round_to_bf16(x) as u16), bf16::to_f32);
element!(f16, Float16, f16::from_f32, f16::to_f32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_to_bf16_is_that_of_half() {
        // All exponents and signs, with the bits around the rounding point.
        let low = [0, 1, 0x3FFF, 0x7FFE, 0x7FFF, 0x8000, 0x8001, 0xBFFF, 0xFFFE, 0xFFFF];
        for high in 0..=u32::from(u16::MAX) {
            for x in low.map(|low| f32::from_bits(high << 16 | low)) {
                let (found, expected) = (<bf16 as Element>::from_f32(x), bf16::from_f32(x));
                assert_eq!(found.to_bits(), expected.to_bits(), "{:#x}", x.to_bits());
            }
        }
    }
}
