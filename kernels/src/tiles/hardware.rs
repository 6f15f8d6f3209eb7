//! AMX tiles by the CPU's instructions.

use super::tile::{ROW_BYTES, ROWS, Tiles};
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

/// The tiles of this thread, used by no other code of the process.
pub(crate) struct Hardware(());

/// Operand of `ldtilecfg`: palette 1, and the size of each tile.
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
    /// Requests the tiles from the system and returns whether this process may use them: the CPU has AMX for bf16 and int8,
    /// and the system saves the tiles of a thread and has granted them to this process.
    pub(crate) fn is_permitted() -> bool {
        /// `AMX-BF16`, `AMX-TILE` and `AMX-INT8` in EDX of leaf 7.
        const FEATURES: u32 = 1 << 22 | 1 << 24 | 1 << 25;
        /// `OSXSAVE` in ECX of leaf 1.
        const OSXSAVE: u32 = 1 << 27;
        /// The tiles' configuration and data in XCR0.
        const TILE_STATE: u64 = 3 << 17;
        /// `ARCH_REQ_XCOMP_PERM`, and the number of the tile data feature.
        const REQUEST: [libc::c_long; 2] = [0x1023, 18];

        if __cpuid(0).eax < 7 || __cpuid(1).ecx & OSXSAVE == 0 || __cpuid_count(7, 0).edx & FEATURES != FEATURES {
            return false;
        }
        // SAFETY: the system has enabled XGETBV (OSXSAVE); register 0 exists.
        let enabled = unsafe { xcr0() };
        // SAFETY: the call only changes which registers the system saves for this process.
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
    unsafe fn tileloaddt1<const T: usize>(&mut self, from: *const u8, stride: usize) {
        // SAFETY: as above.
        unsafe {
            asm!("tileloaddt1 tmm{}, [{} + {}*1]", const T, in(reg) from, in(reg) stride,
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
    /// Releases the tiles, so that the system need not save them for the thread.
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value exists, so the process may use the instruction.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

    /// Contains every instruction of this file. Its code is read by a test, never called.
    ///
    /// # Safety
    /// As [`Tiles::new`]; tiles may be read and written there.
    #[inline(never)]
    unsafe extern "C" fn all_instructions(from: *const u8, to: *mut u8, stride: usize) {
        // SAFETY: the caller's duty.
        unsafe {
            let mut tiles = Hardware::new();
            tiles.tilezero::<2>();
            tiles.tileloadd::<4>(from, stride);
            tiles.tileloadd::<7>(from, stride);
            tiles.tileloaddt1::<6>(from, stride);
            tiles.tdpbf16ps::<2, 4, 7>();
            tiles.tdpbusd::<3, 5, 6>();
            tiles.tilestored::<2>(to, stride);
        }
    }

    /// The mnemonic and the tile operands of an instruction, in the order of Intel's syntax.
    fn tiles(instruction: &Instruction) -> (Mnemonic, Vec<Register>) {
        let registers = (0..instruction.op_count()).filter(|&i| instruction.op_kind(i) == OpKind::Register);
        (instruction.mnemonic(), registers.map(|i| instruction.op_register(i)).collect())
    }

    /// Disassembles the compiled instructions by Intel's manual and compares them with the intended ones; needs no AMX.
    #[test]
    fn the_assembled_bytes_are_the_instructions_that_are_meant() {
        use Register::*;
        let code = all_instructions as *const u8;
        // SAFETY: the function's code is readable, and so are the functions after it, which are longer than a possible overrun.
        let bytes = unsafe { std::slice::from_raw_parts(code, 256) };
        let decoder = Decoder::with_ip(64, bytes, code as u64, DecoderOptions::NONE);
        let of_tiles = |mnemonic: Mnemonic| {
            format!("{mnemonic:?}").to_lowercase().contains("tile") || format!("{mnemonic:?}").starts_with("Tdp")
        };
        let instructions: Vec<Instruction> = decoder
            .into_iter()
            .take_while(|instruction| instruction.mnemonic() != Mnemonic::Ret)
            .filter(|instruction| of_tiles(instruction.mnemonic()))
            .collect();
        let found: Vec<_> = instructions.iter().map(tiles).collect();
        let expected = [
            (Mnemonic::Ldtilecfg, vec![]),
            (Mnemonic::Tilezero, vec![TMM2]),
            (Mnemonic::Tileloadd, vec![TMM4]),
            (Mnemonic::Tileloadd, vec![TMM7]),
            (Mnemonic::Tileloaddt1, vec![TMM6]),
            (Mnemonic::Tdpbf16ps, vec![TMM2, TMM4, TMM7]),
            (Mnemonic::Tdpbusd, vec![TMM3, TMM5, TMM6]),
            (Mnemonic::Tilestored, vec![TMM2]),
            (Mnemonic::Tilerelease, vec![]),
        ];
        assert_eq!(found, expected);
        // Rows lie one stride apart, without a factor or an offset.
        const MOVES: [Mnemonic; 3] = [Mnemonic::Tileloadd, Mnemonic::Tileloaddt1, Mnemonic::Tilestored];
        for moved in instructions.iter().filter(|it| MOVES.contains(&it.mnemonic())) {
            let at = (moved.memory_base(), moved.memory_index_scale(), moved.memory_displacement64());
            let base = if moved.mnemonic() == Mnemonic::Tilestored { RSI } else { RDI };
            assert_eq!((at, moved.memory_index()), ((base, 1, 0), RDX));
        }
    }
}
