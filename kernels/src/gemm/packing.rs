//! The formats of packed matrices, each with its product.

use super::block::Block;
use crate::isa::Isa;
use crate::simd::{Format, Int8};
use half::bf16;

/// A format of packed matrices: `f32`, [`bf16`] or [`Int8`].
///
/// Generic functions are compiled in each crate that calls them. [`Gemm`](super::Gemm) is generic over the format, but its work on a block
/// is compiled here, once for each format and instruction set.
pub trait Packing: Format {
    /// Multiplies a block.
    #[doc(hidden)]
    fn multiply(isa: Isa, block: Block<'_, Self>);
}

macro_rules! packing {
    ($($format:ty),*) => {$(
        impl Packing for $format {
            fn multiply(isa: Isa, block: Block<'_, Self>) {
                Self::run(isa, block);
            }
        }
    )*};
}

packing!(f32, bf16, Int8);
