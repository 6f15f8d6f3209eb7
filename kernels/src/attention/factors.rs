//! The types that the operands of attention are rounded to.

use super::task::Task;
use crate::gemm::Packing;
use crate::isa::Isa;
use crate::simd::{FloatFormat, Format};
use half::bf16;

/// Type of the operands of a matrix product and of both products of attention, `f32` or [`bf16`]. Like the matrix products, attention
/// is compiled in this crate, once for each type.
pub trait Float: FloatFormat + Packing {
    /// Computes attention items.
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
