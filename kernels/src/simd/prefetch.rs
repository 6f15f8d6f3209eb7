//! Prefetching.

/// Hint to [`prefetch`] into L1, for values that are used soon: `_MM_HINT_T0`.
pub(crate) const L1: i32 = 3;

/// Hint to [`prefetch`] into L2, for values that are used later: `_MM_HINT_T1`.
pub(crate) const L2: i32 = 2;

/// Prefetches the cache line of an address into the cache `LEVEL`, [`L1`] or [`L2`]; any address is allowed.
#[inline(always)]
pub(crate) fn prefetch<const LEVEL: i32>(address: *const impl Sized) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every CPU of the target has the instruction, and it does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<LEVEL>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
