//! The instruction sets, and the dispatch of an operation to one of them.

use super::dot::{F32Dot, Simd, WidenedBf16Dot};
use super::operation::{Operation, TileOperation};
use super::portable;
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::isa::{Isa, Kind};
use crate::tiles;

struct Portable;

impl Simd for Portable {
    type V = portable::V8;
    type F32 = F32Dot<portable::V8, 6, 1>;
    type Bf16 = WidenedBf16Dot<portable::V8, 6, 1>;
    type Int8 = portable::BytesDot;
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type V = avx2::V256;
    type F32 = F32Dot<avx2::V256, 6, 2>;
    type Bf16 = WidenedBf16Dot<avx2::V256, 6, 2>;
    type Int8 = avx2::WidenedBytesDot;
}

#[cfg(target_arch = "x86_64")]
struct Avx2Vnni;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2Vnni {
    type Int8 = avx2::VnniDot;
    type V = <Avx2 as Simd>::V;
    type F32 = <Avx2 as Simd>::F32;
    type Bf16 = <Avx2 as Simd>::Bf16;
}

#[cfg(target_arch = "x86_64")]
struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type V = avx512::V512<false>;
    type F32 = F32Dot<avx512::V512<false>, 14, 2>;
    type Bf16 = WidenedBf16Dot<avx512::V512<false>, 14, 2>;
    type Int8 = avx512::WidenedBytesDot<false>;
}

#[cfg(target_arch = "x86_64")]
struct Avx512Vnni;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512Vnni {
    type Int8 = avx512::VnniDot;
    type V = <Avx512 as Simd>::V;
    type F32 = <Avx512 as Simd>::F32;
    type Bf16 = <Avx512 as Simd>::Bf16;
}

#[cfg(target_arch = "x86_64")]
struct Avx512Bf16;

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512Bf16 {
    type V = avx512::V512<true>;
    type F32 = F32Dot<avx512::V512<true>, 14, 2>;
    type Bf16 = avx512::NativeBf16Dot;
    type Int8 = avx512::WidenedBytesDot<true>;
}

/// Runs an operation on f32 or bf16 with an instruction set. Sets that differ only in other products run the same code.
pub(crate) fn run(isa: Isa, operation: impl Operation) {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` exists only for what the CPU has.
        Kind::Avx2 | Kind::Avx2Vnni => unsafe { run_avx2(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx512 | Kind::Avx512Vnni | Kind::AmxModel { has_avx512: true } => unsafe { run_avx512(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx512Bf16 => unsafe { run_avx512bf16(operation) },
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as above; AMX is used only together with AVX512-BF16, whose conversions these operations use. Products of bf16
        // run on tiles.
        Kind::Amx => unsafe { run_avx512bf16(operation) },
        // SAFETY: every CPU has the target's baseline.
        Kind::Portable | Kind::AmxModel { .. } => unsafe { operation.run::<Portable>() },
    }
}

/// Runs an operation on bytes with an instruction set. With AMX, only operations that do not use tiles come here.
pub(super) fn run_int8(isa: Isa, operation: impl Operation) {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` exists only for what the CPU has.
        Kind::Avx2 => unsafe { run_avx2(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx2Vnni => unsafe { run_avx2vnni(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Kind::Avx512 | Kind::AmxModel { has_avx512: true } => unsafe { run_avx512(operation) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above; AVX512-BF16 is used only together with AVX512-VNNI.
        Kind::Avx512Vnni | Kind::Avx512Bf16 => unsafe { run_avx512vnni(operation) },
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: as above; AMX is used only together with AVX512-VNNI.
        Kind::Amx => unsafe { run_avx512vnni(operation) },
        // SAFETY: every CPU has the target's baseline.
        Kind::Portable | Kind::AmxModel { .. } => unsafe { operation.run::<Portable>() },
    }
}

/// Runs an operation on tiles if the instruction set has them, else returns it.
pub(super) fn run_tiles<O: TileOperation>(isa: Isa, operation: O) -> Result<(), O> {
    match isa.kind() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` exists only for what the CPU has; the model needs nothing.
        Kind::AmxModel { has_avx512: true } => unsafe { run_amx_model(operation) },
        // SAFETY: every CPU has the target's baseline.
        Kind::AmxModel { .. } => unsafe { operation.run::<Portable, tiles::Model>() },
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        // SAFETY: an `Isa` exists only for what the CPU has and the process may use.
        Kind::Amx => unsafe { run_amx(operation) },
        _ => return Err(operation),
    }
    Ok(())
}

/// One function per instruction set, compiled with its features, into which operations are inlined.
macro_rules! compiled_for {
    ($($name:ident: $operation:ident on <$($set:ty),+>, $features:literal;)+) => {$(
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma", enable = $features)]
        unsafe fn $name(operation: impl $operation) {
            // SAFETY: this function is compiled with the features of the set; AMX tiles are the caller's duty.
            unsafe { operation.run::<$($set),+>() }
        }
    )+};
}

compiled_for! {
    run_avx2: Operation on <Avx2>, "avx2";
    run_avx2vnni: Operation on <Avx2Vnni>, "avxvnni";
    run_avx512: Operation on <Avx512>, "avx512f,avx512bw,avx512dq,avx512vl";
    run_avx512vnni: Operation on <Avx512Vnni>, "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni";
    run_avx512bf16: Operation on <Avx512Bf16>, "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16";
    run_amx_model: TileOperation on <Avx512, tiles::Model>, "avx512f,avx512bw,avx512dq,avx512vl";
}

#[cfg(target_os = "linux")]
compiled_for! {
    run_amx: TileOperation on <Avx512Bf16, tiles::Hardware>, "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16";
}
