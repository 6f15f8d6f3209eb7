//! The CPU's peak: products whose factors never leave the registers.

use crate::isa::Isa;
use crate::simd::{self, Dot, MAX_LANES, Operation, Packing, Simd, Vector};
use crate::thread_pool;
use std::hint::black_box;
use std::marker::PhantomData;

/// Sums that are in flight: enough to hide the latency of two units.
const CHAINS: usize = 12;

struct Peak<P> {
    iterations: usize,
    packing: PhantomData<P>,
}

impl<P: Packing> Operation for Peak<P> {
    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the caller's duty.
        unsafe { chains::<P::Dot<S>>(self.iterations) }
    }
}

/// # Safety
/// The CPU has the instructions of `D`.
#[inline(always)]
unsafe fn chains<D: Dot>(iterations: usize) {
    let words = black_box([0_u32; MAX_LANES]);
    // SAFETY: `words` has enough words; the instructions are the caller's duty.
    unsafe {
        let (a, b) = (D::loadu(words.as_ptr()), D::set1(words.as_ptr()));
        let mut sums = [D::zero(); CHAINS];
        for _ in 0..iterations {
            for sum in &mut sums {
                *sum = D::fmadd(*sum, a, b);
            }
        }
        for sum in sums {
            black_box(D::to_f32(sum).to_array());
        }
    }
}

/// Multiplies on every thread and returns the number of floating-point operations in all,
/// for a clock around the call.
#[doc(hidden)]
pub fn run_peak<P: Packing>(isa: Isa, iterations: usize) -> usize {
    thread_pool::for_each(thread_pool::num_threads(), |_| {
        simd::run(isa, Peak::<P> { iterations, packing: PhantomData })
    });
    let elements = size_of::<u32>() / size_of::<P::Input>();
    2 * elements * lanes(isa) * CHAINS * iterations * thread_pool::num_threads()
}

fn lanes(isa: Isa) -> usize {
    if isa.to_string().starts_with("avx512") { 16 } else { 8 }
}
