//! The output of attention, of any element type.

use crate::dtype::Dtype;
use crate::element::Element;
use crate::simd::{L1, Vector, prefetch};
use half::{bf16, f16};

/// Output of a call; each thread writes the rows and columns of its items. The element type is a run-time value, so that the
/// computation is compiled once for all output types; a tile writes little compared to what it computes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    first: *mut u8,
    dtype: Dtype,
}

// SAFETY: no two threads may use the same place; `store`'s callers ensure it.
unsafe impl Send for Rows {}
// SAFETY: as above.
unsafe impl Sync for Rows {}

impl Rows {
    pub(super) fn new<E: Element>(out: &mut [E]) -> Self {
        Self { first: out.as_mut_ptr().cast(), dtype: E::DTYPE }
    }

    /// Prefetches `len` elements from `index` on; they may be outside the output.
    #[inline(always)]
    pub(super) fn prefetch(self, index: usize, len: usize) {
        let size = self.dtype.size();
        for byte in (0..len * size).step_by(64) {
            prefetch::<L1>(self.first.wrapping_add(index * size + byte));
        }
    }

    /// Writes the first `count` lanes of a vector to the elements from `index` on.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`, the elements are in the output, and no other thread uses them.
    #[inline(always)]
    pub(super) unsafe fn store<V: Vector>(self, index: usize, vector: V, count: usize) {
        // SAFETY: the caller's duty; an output of this type has elements of it.
        unsafe {
            match self.dtype {
                Dtype::Bfloat16 => vector.store_elements(self.first.cast::<bf16>().add(index), count),
                Dtype::Float16 => vector.store_elements(self.first.cast::<f16>().add(index), count),
                // No `Element` is of another type.
                Dtype::Float32 | Dtype::Int8 => vector.store_elements(self.first.cast::<f32>().add(index), count),
            }
        }
    }
}
