//! The gated activation of the MLP.

use crate::error::{check_len, whole_rows};
use crate::isa::Isa;
use crate::rows::for_row_blocks;
use crate::simd::{self, Operation, Simd, Vector, exp, for_vectors};
use crate::{Element, KernelError};

/// `out = silu(gate) * up`, where a row of `gate_up` is `[gate | up]`.
///
/// `gate_up` is `[rows, 2 * intermediate]`, `out` is `[rows, intermediate]`.
///
/// # Errors
/// If the lengths do not fit together.
pub fn silu_mul<E: Element>(gate_up: &[f32], intermediate: usize, out: &mut [E]) -> Result<(), KernelError> {
    silu_mul_with(Isa::best(), gate_up, intermediate, out)
}

/// [`silu_mul`] with a chosen instruction set.
#[doc(hidden)]
pub fn silu_mul_with<E: Element>(
    isa: Isa,
    gate_up: &[f32],
    intermediate: usize,
    out: &mut [E],
) -> Result<(), KernelError> {
    let rows = whole_rows("gate_up", intermediate.saturating_mul(2), gate_up.len())?;
    check_len("out", rows * intermediate, out.len())?;
    for_row_blocks(out, intermediate, |first, out| {
        let gate_up = &gate_up[first * 2 * intermediate..][..2 * out.len()];
        simd::run(isa, SiluMul { gate_up, intermediate, out });
    });
    Ok(())
}

struct SiluMul<'a, E> {
    gate_up: &'a [f32],
    intermediate: usize,
    out: &'a mut [E],
}

impl<E: Element> Operation for SiluMul<'_, E> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let width = self.intermediate;
        for (row, out) in self.gate_up.chunks_exact(2 * width).zip(self.out.chunks_exact_mut(width)) {
            for_vectors::<S::V>(width, |i, count| {
                // SAFETY: the instruction set is the caller's duty; vectors are within halves of `width`.
                unsafe {
                    let gate = S::V::loadu_up_to(row.as_ptr().add(i), count);
                    let up = S::V::loadu_up_to(row.as_ptr().add(width + i), count);
                    let (zero, one) = (S::V::set1(0.0), S::V::set1(1.0));
                    let silu = gate.div(one.add(exp(zero.sub(gate))));
                    silu.mul(up).store_elements(out.as_mut_ptr().add(i), count);
                }
            });
        }
    }
}
