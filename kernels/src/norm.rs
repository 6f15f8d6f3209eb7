//! RMSNorm from the f32 residual stream to the activations of the next GEMM.

use crate::element::ElementsMut;
use crate::error::{check_len, whole_rows};
use crate::isa::Isa;
use crate::rows::for_row_blocks;
use crate::simd::{self, Operation, Simd, Sink, Vector};
use crate::{Activation, KernelError};

/// `out = x / sqrt(mean(x^2) + eps) * weight`, row by row.
///
/// `weight` is `[width]`; `x` and `out` are `[rows, width]`.
///
/// # Errors
/// If the lengths do not fit together.
pub fn rms_norm<A: Activation>(x: &[f32], weight: &[f32], eps: f32, out: &mut [A]) -> Result<(), KernelError> {
    rms_norm_with(Isa::best(), x, weight, eps, out)
}

/// [`rms_norm`] with a chosen instruction set.
#[doc(hidden)]
pub fn rms_norm_with<A: Activation>(
    isa: Isa,
    x: &[f32],
    weight: &[f32],
    eps: f32,
    out: &mut [A],
) -> Result<(), KernelError> {
    let width = weight.len();
    whole_rows("x", width, x.len())?;
    check_len("out", x.len(), out.len())?;
    for_row_blocks(out, width, |first, out| {
        let x = &x[first * width..][..out.len()];
        match A::elements_mut(out) {
            ElementsMut::F32(out) => simd::run(isa, RmsNorm { x, weight, eps, out }),
            ElementsMut::Bf16(out) => simd::run(isa, RmsNorm { x, weight, eps, out }),
        }
    });
    Ok(())
}

struct RmsNorm<'a, T> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [T],
}

impl<T: Sink> Operation for RmsNorm<'_, T> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            // SAFETY: the instruction set is the caller's duty; vectors are within rows of `width`.
            unsafe {
                let scale = S::V::splat(inverse_rms::<S::V>(x, self.eps));
                for_vectors::<S::V>(width, |i, count| {
                    let x = S::V::load_up_to(x.as_ptr().add(i), count);
                    let weight = S::V::load_up_to(self.weight.as_ptr().add(i), count);
                    T::store_first(x.mul(scale).mul(weight), out.as_mut_ptr().add(i), count);
                });
            }
        }
    }
}

/// `1 / sqrt(mean(x^2) + eps)`
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn inverse_rms<V: Vector>(x: &[f32], eps: f32) -> f32 {
    // SAFETY: the instructions are the caller's duty; vectors are within `x`.
    unsafe {
        // Four chains, because one would wait for its own additions.
        let mut sums = [V::splat(0.0); 4];
        let mut blocks = x.chunks_exact(4 * V::LANES);
        for block in &mut blocks {
            for c in 0..4 {
                let x = V::load(block.as_ptr().add(c * V::LANES));
                sums[c] = x.mul_add(x, sums[c]);
            }
        }
        let rest = blocks.remainder();
        for_vectors::<V>(rest.len(), |i, count| {
            let x = V::load_up_to(rest.as_ptr().add(i), count);
            sums[0] = x.mul_add(x, sums[0]);
        });
        let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3])).sum();
        1.0 / (sum / x.len() as f32 + eps).sqrt()
    }
}

/// Calls `f` with the first index and the number of elements of each vector of a row.
///
/// There is one call of `f`, so that it is inlined: an intrinsic that stays in a closure of its own is compiled
/// without its instruction set, as a call.
#[inline(always)]
pub(crate) fn for_vectors<V: Vector>(width: usize, mut f: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i < width {
        f(i, V::LANES.min(width - i));
        i += V::LANES;
    }
}
