//! What the CPU can do at most: products whose factors never leave the registers.

use crate::Precision;
use crate::isa::Isa;
use crate::simd::{self, Dot, MAX_LANES, Operation, Simd, Vector};
use crate::team;
use std::hint::black_box;

/// Sums that are in flight: enough to hide the latency of two units.
const CHAINS: usize = 12;

struct Peak {
    precision: Precision,
    iterations: usize,
}

impl Operation for Peak {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller's duty.
        unsafe {
            match self.precision {
                Precision::F32 => chains::<S::F32>(self.iterations),
                Precision::Bf16 => chains::<S::Bf16>(self.iterations),
            }
        }
    }
}

/// # Safety
/// The CPU has the instructions of `D`.
#[inline(always)]
unsafe fn chains<D: Dot>(iterations: usize) {
    let words = black_box([0_u32; MAX_LANES]);
    // SAFETY: `words` has enough words; the instructions are the caller's duty.
    unsafe {
        let (a, b) = (D::load(words.as_ptr()), D::splat(words.as_ptr()));
        let mut sums = [D::V::splat(0.0); CHAINS];
        for _ in 0..iterations {
            for sum in &mut sums {
                *sum = D::step(*sum, a, b);
            }
        }
        black_box(sums.map(Vector::sum));
    }
}

/// Multiplies on every thread and returns the number of floating-point operations in all,
/// for a clock around the call.
#[doc(hidden)]
pub fn run_peak(isa: Isa, precision: Precision, iterations: usize) -> usize {
    team::for_each(team::num_threads(), |_| simd::run(isa, Peak { precision, iterations }));
    let elements = if precision == Precision::Bf16 { 2 } else { 1 };
    2 * elements * lanes(isa) * CHAINS * iterations * team::num_threads()
}

fn lanes(isa: Isa) -> usize {
    if isa.to_string().starts_with("avx512") { 16 } else { 8 }
}
