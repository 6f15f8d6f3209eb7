//! The types that the factors of attention are rounded to.

use super::task::Task;
use crate::gemm::Packing;
use crate::isa::Isa;
use crate::simd::{FloatFormat, Format};
use half::bf16;

/// A type of factors, `f32` or [`bf16`]: of matrices, and of both products of attention. As products are, attention is compiled in this
/// crate for each of them.
pub trait Float: FloatFormat + Packing {
    /// Computes items.
    #[doc(hidden)]
    fn attend(isa: Isa, task: Task<'_, Self>);
}

impl Float for f32 {
    fn attend(isa: Isa, task: Task<'_, Self>) {
        Self::run(isa, task);
    }
}

impl Float for bf16 {
    fn attend(isa: Isa, task: Task<'_, Self>) {
        Self::run(isa, task);
    }
}
