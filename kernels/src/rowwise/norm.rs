//! RMSNorm of the f32 residual stream, as the input of the next GEMM.

use crate::element::Element;
use crate::error::{KernelError, check_len, whole_rows};
use crate::isa::Isa;
use crate::rowwise::rows::for_row_blocks;
use crate::simd::{self, Operation, Simd, Vector, for_vectors};

/// `out = x / sqrt(mean(x^2) + eps) * weight`, row by row.
///
/// `weight` is `[width]`; `x` and `out` are `[rows, width]`.
///
/// # Errors
/// If the lengths do not fit together.
pub fn rms_norm<E: Element>(x: &[f32], weight: &[f32], eps: f32, out: &mut [E]) -> Result<(), KernelError> {
    rms_norm_with(Isa::best(), x, weight, eps, out)
}

/// [`rms_norm`] with a chosen instruction set.
#[doc(hidden)]
pub fn rms_norm_with<E: Element>(
    isa: Isa,
    x: &[f32],
    weight: &[f32],
    eps: f32,
    out: &mut [E],
) -> Result<(), KernelError> {
    let width = weight.len();
    whole_rows("x", width, x.len())?;
    check_len("out", x.len(), out.len())?;
    for_row_blocks(out, width, |first, out| {
        let x = &x[first * width..][..out.len()];
        simd::run(isa, RmsNorm { x, weight, eps, out });
    });
    Ok(())
}

struct RmsNorm<'a, E> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [E],
}

impl<E: Element> Operation for RmsNorm<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            // SAFETY: the instruction set is the caller's duty; vectors are within rows of `width`.
            unsafe {
                let scale = S::V::set1(inverse_rms::<S::V>(x, self.eps));
                for_vectors::<S::V>(width, |i, count| {
                    let x = S::V::loadu_up_to(x.as_ptr().add(i), count);
                    let weight = S::V::loadu_up_to(self.weight.as_ptr().add(i), count);
                    x.mul(scale).mul(weight).store_elements(out.as_mut_ptr().add(i), count);
                });
            }
        }
    }
}

/// `out += x / sqrt(mean(x^2) + eps) * weight`, row by row: normalises a block's output and adds it to the residual stream.
///
/// `weight` is `[width]`; `x` and `out` are `[rows, width]`.
///
/// # Errors
/// If the lengths do not fit together.
pub fn rms_norm_add(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> Result<(), KernelError> {
    rms_norm_add_with(Isa::best(), x, weight, eps, out)
}

/// [`rms_norm_add`] with a chosen instruction set.
#[doc(hidden)]
pub fn rms_norm_add_with(isa: Isa, x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) -> Result<(), KernelError> {
    let width = weight.len();
    whole_rows("x", width, x.len())?;
    check_len("out", x.len(), out.len())?;
    for_row_blocks(out, width, |first, out| {
        let x = &x[first * width..][..out.len()];
        simd::run(isa, RmsNormAdd { x, weight, eps, out });
    });
    Ok(())
}

struct RmsNormAdd<'a> {
    x: &'a [f32],
    weight: &'a [f32],
    eps: f32,
    out: &'a mut [f32],
}

impl Operation for RmsNormAdd<'_> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.weight.len();
        for (x, out) in self.x.chunks_exact(width).zip(self.out.chunks_exact_mut(width)) {
            // SAFETY: the instruction set is the caller's duty; vectors are within rows of `width`.
            unsafe {
                let scale = S::V::set1(inverse_rms::<S::V>(x, self.eps));
                for_vectors::<S::V>(width, |i, count| {
                    let x = S::V::loadu_up_to(x.as_ptr().add(i), count);
                    let weight = S::V::loadu_up_to(self.weight.as_ptr().add(i), count);
                    let sum = S::V::loadu_up_to(out.as_ptr().add(i), count);
                    x.mul(scale).mul(weight).add(sum).store_elements(out.as_mut_ptr().add(i), count);
                });
            }
        }
    }
}

/// `1 / sqrt(mean(x^2) + eps)`; NaN where the squares overflow, because a factor of 0 would turn large values into zeros that
/// look like an answer.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn inverse_rms<V: Vector>(x: &[f32], eps: f32) -> f32 {
    // SAFETY: the instructions are the caller's duty; vectors are within `x`.
    unsafe {
        // Four independent sums, because each addition waits for the previous one of its sum.
        let mut sums = [V::set1(0.0); 4];
        let mut blocks = x.chunks_exact(4 * V::LANES);
        for block in &mut blocks {
            for c in 0..4 {
                let x = V::loadu(block.as_ptr().add(c * V::LANES));
                sums[c] = x.fmadd(x, sums[c]);
            }
        }
        let rest = blocks.remainder();
        for_vectors::<V>(rest.len(), |i, count| {
            let x = V::loadu_up_to(rest.as_ptr().add(i), count);
            sums[0] = x.fmadd(x, sums[0]);
        });
        let sum = sums[0].add(sums[1]).add(sums[2].add(sums[3])).reduce_add();
        if sum.is_finite() { 1.0 / (sum / x.len() as f32 + eps).sqrt() } else { f32::NAN }
    }
}
