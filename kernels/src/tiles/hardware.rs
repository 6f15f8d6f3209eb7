//! The tiles by the instructions of AMX.

use super::tile::{ROW_BYTES, ROWS, Tiles};
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// The tiles of this thread. Nothing else in the process uses them.
pub(crate) struct Hardware(());

/// What `ldtilecfg` reads: palette 1, and the size of each tile.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All eight tiles at their full size.
static CONFIG: Config = {
    let mut config = Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    let mut tile = 0;
    while tile < 8 {
        config.row_bytes[tile] = ROW_BYTES as u16;
        config.rows[tile] = ROWS as u8;
        tile += 1;
    }
    config
};

impl Hardware {
    /// Whether this process may use the tiles: the CPU has AMX for bf16 and int8, the system keeps the tiles of a thread, and
    /// it has granted them to this process, which this asks for.
    pub(crate) fn is_permitted() -> bool {
        /// `AMX-BF16`, `AMX-TILE` and `AMX-INT8` in EDX of leaf 7.
        const FEATURES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
        /// `OSXSAVE` in ECX of leaf 1.
        const OSXSAVE: u32 = 1 << 27;
        /// The tiles' configuration and data in XCR0.
        const TILE_STATE: u64 = 3 << 17;
        /// `ARCH_REQ_XCOMP_PERM`, and the number of the tiles' data.
        const REQUEST: [libc::c_long; 2] = [0x1023, 18];

        if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 || __cpuid_count(7, 0).edx & FEATURES != FEATURES {
            return false;
        }
        // SAFETY: the system has enabled XGETBV (OSXSAVE); register 0 exists.
        let enabled = unsafe { xcr0() };
        // SAFETY: the call changes nothing but which registers the system keeps for this process.
        enabled & TILE_STATE == TILE_STATE
            && unsafe { libc::syscall(libc::SYS_arch_prctl, REQUEST[0], REQUEST[1]) } == 0
    }
}

#[target_feature(enable = "xsave")]
fn xcr0() -> u64 {
    // SAFETY: register 0 exists wherever the instruction does.
    unsafe { _xgetbv(0) }
}

impl Tiles for Hardware {
    #[inline(always)]
    unsafe fn new() -> Self {
        // SAFETY: the process may use the instruction, by the caller's duty; the configuration is a valid one.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIG, options(nostack, preserves_flags, readonly)) };
        Self(())
    }

    #[inline(always)]
    fn tilezero<const T: usize>(&mut self) {
        // SAFETY: a value exists, so the tiles are configured.
        unsafe { asm!("tilezero tmm{}", const T, options(nostack, preserves_flags, nomem)) };
    }

    #[inline(always)]
    unsafe fn tileloadd<const T: usize>(&mut self, from: *const u8, stride: usize) {
        // SAFETY: a value exists, so the tiles are configured; the rows may be read, by the caller's duty.
        unsafe {
            asm!("tileloadd tmm{}, [{} + {}*1]", const T, in(reg) from, in(reg) stride,
                options(nostack, preserves_flags, readonly));
        }
    }

    #[inline(always)]
    unsafe fn tilestored<const T: usize>(&mut self, to: *mut u8, stride: usize) {
        // SAFETY: a value exists, so the tiles are configured; the rows may be written, by the caller's duty.
        unsafe {
            asm!("tilestored [{} + {}*1], tmm{}", in(reg) to, in(reg) stride, const T, options(nostack, preserves_flags));
        }
    }

    #[inline(always)]
    fn tdpbf16ps<const SUMS: usize, const A: usize, const B: usize>(&mut self) {
        // SAFETY: a value exists, so the tiles are configured, with sizes that fit.
        unsafe {
            asm!("tdpbf16ps tmm{}, tmm{}, tmm{}", const SUMS, const A, const B, options(nostack, preserves_flags, nomem));
        }
    }

    #[inline(always)]
    fn tdpbusd<const SUMS: usize, const A: usize, const B: usize>(&mut self) {
        // SAFETY: as above.
        unsafe {
            asm!("tdpbusd tmm{}, tmm{}, tmm{}", const SUMS, const A, const B, options(nostack, preserves_flags, nomem));
        }
    }
}

impl Drop for Hardware {
    /// Gives the tiles back, so that the system has nothing to keep for the thread.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value exists, so the process may use the instruction.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}
