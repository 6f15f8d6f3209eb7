//! One algorithm, several instruction sets.
//!
//! An algorithm is an [`Operation`]: a struct of arguments whose `run` is generic over [`Simd`] and is inlined whole
//! into one function per instruction set, compiled for it ([`run`]). The instruction sets differ in their
//! [`Vector`] and in their bf16 [`Dot`], and in nothing else.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dot;
mod math;
mod packing;
mod portable;
mod product;
mod vector;

pub(crate) use dot::{Dot, Simd};
pub(crate) use math::{erfc_of_positive, exp};
pub use packing::Packing;
pub(crate) use product::{ColumnWords, MAX_ROWS, RowTiles, RowWords, for_rows, product};
pub(crate) use vector::{MAX_LANES, Vector, for_vectors};

use crate::isa::{Isa, Kind};
use dot::{EmulatedBf16Dot, F32Dot};

/// A computation on slices that does not know the instruction set it runs on.
pub(crate) trait Operation {
    /// Runs with the vectors of `S`. Implementations are `#[inline(always)]`, and so is what they call.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`.
    unsafe fn run<S: Simd>(self);
}

/// Asks for the cache line of an address that is used soon; any address will do.
#[inline(always)]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the target has the instruction, and it does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

struct Portable;

impl Simd for Portable {
    type V = portable::V8;
    type F32 = F32Dot<portable::V8, 6, 1>;
    type Bf16 = EmulatedBf16Dot<portable::V8, 4, 1>;
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type V = avx2::V256;
    type F32 = F32Dot<avx2::V256, 6, 2>;
    type Bf16 = EmulatedBf16Dot<avx2::V256, 4, 2>;
}

#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type V = avx512::V512<false>;
    type F32 = F32Dot<avx512::V512<false>, 14, 2>;
    type Bf16 = EmulatedBf16Dot<avx512::V512<false>, 12, 2>;
}

#[cfg(target_arch = "x86_64")]
struct Avx512Bf16;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512Bf16 {
    type V = avx512::V512<true>;
    type F32 = F32Dot<avx512::V512<true>, 14, 2>;
    type Bf16 = avx512::NativeBf16Dot;
}

/// Runs an operation with an instruction set.
pub(crate) fn run(isa: Isa, operation: impl Operation) {
    match isa.kind() {
        // SAFETY: every CPU has the target's baseline.
        Kind::Portable => unsafe { operation.run::<Portable>() },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` exists only for what the CPU has.
        Kind::Avx2 => unsafe { run_avx2(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx512 => unsafe { run_avx512(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx512Bf16 => unsafe { run_avx512bf16(operation) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn run_avx2(operation: impl Operation) {
    // SAFETY: this function's features are those of `Avx2`.
    unsafe { operation.run::<Avx2>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run_avx512(operation: impl Operation) {
    // SAFETY: this function's features are those of `Avx512`.
    unsafe { operation.run::<Avx512>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn run_avx512bf16(operation: impl Operation) {
    // SAFETY: this function's features are those of `Avx512Bf16`.
    unsafe { operation.run::<Avx512Bf16>() }
}
