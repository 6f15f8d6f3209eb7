//! Instruction sets: which ones this CPU has, and which one is used.

mod cpu;

use crate::tiles;
use cpu::Cpu;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A set of instructions that this CPU has. Only this module makes one, so a value is proof that its instructions may be
/// executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

/// The instruction sets that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Plain Rust, vectorised by the compiler for the target's baseline.
    Portable,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX2 and FMA with dot products of bytes (AVX-VNNI).
    #[cfg(target_arch = "x86_64")]
    Avx2Vnni,
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with dot products of bytes.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
    /// AVX-512 with dot products of bytes and of bf16.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    /// AVX-512 with dot products of bytes and of bf16, and products on the tiles of AMX.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    Amx,
    /// A software model of AMX's tiles for products; the rest with AVX-512 where the CPU has it, else plain Rust.
    AmxModel { has_avx512: bool },
}

impl Kind {
    /// The name in flags, logs and `/info`.
    const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2Vnni => "avx2-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Bf16 => "avx512-bf16",
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Self::Amx => "amx",
            Self::AmxModel { .. } => "amx-model",
        }
    }
}

/// The instruction set chosen for this process, and the reason.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The instructions.
    pub isa: Isa,
    /// The reason, for the log and `/info`.
    pub reason: String,
    /// A defect of the CPU or the system, if any.
    pub warning: Option<String>,
}

static CHOICE: OnceLock<Choice> = OnceLock::new();

/// Set before the first use.
static FORCED: Mutex<Option<Isa>> = Mutex::new(None);

impl Choice {
    /// The choice for this process, made at the first call from the CPU's identity and never from timing, so that two
    /// processes on one machine give the same bits.
    pub fn current() -> &'static Self {
        CHOICE.get_or_init(|| match *FORCED.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(isa) => Self { isa, reason: "chosen by the user".to_owned(), warning: None },
            None => choose(&Cpu::this()),
        })
    }

    /// Forces the choice by the name of the instructions, one of [`Isa::available`].
    ///
    /// # Errors
    /// If this CPU lacks the instructions, or kernels have already run with others. The message lists the available names.
    pub fn force(name: &str) -> Result<(), String> {
        let isa = Isa::named(name)?;
        *FORCED.lock().unwrap_or_else(PoisonError::into_inner) = Some(isa);
        if Self::current().isa == isa {
            Ok(())
        } else {
            Err(format!("kernels `{name}` cannot be chosen after `{}` have run", Self::current().isa))
        }
    }
}

/// The choice for a CPU with this machine's instructions and the identity `cpu`.
fn choose(cpu: &Cpu) -> Choice {
    let has = Has::detect();
    let choice = |kind, reason: &str| Choice { isa: Isa(kind), reason: format!("{reason} ({cpu})"), warning: None };
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    if has.amx {
        if *AMX_WORKS.get_or_init(amx_works) {
            return choice(Kind::Amx, "the CPU has AMX, which passed its self-check");
        }
        let warning = "AMX failed its self-check and is not used: a product of tiles differs from Intel's manual";
        return Choice { warning: Some(warning.to_owned()), ..choose_vectors(has, cpu) };
    }
    let _ = choice;
    choose_vectors(has, cpu)
}

/// The choice without AMX.
fn choose_vectors(has: Has, cpu: &Cpu) -> Choice {
    let (kind, reason) = match has {
        #[cfg(target_arch = "x86_64")]
        Has { avx512_bf16: true, .. } if cpu.has_fast_bf16_dot() => {
            (Kind::Avx512Bf16, "this CPU's dot product of bf16 is faster than float32")
        }
        #[cfg(target_arch = "x86_64")]
        Has { avx512_bf16: true, .. } => {
            (Kind::Avx512Vnni, "this CPU's dot product of bf16 is slower than float32, or not known to be faster")
        }
        #[cfg(target_arch = "x86_64")]
        Has { avx512_vnni: true, .. } => (Kind::Avx512Vnni, "the CPU has no dot product of bf16"),
        #[cfg(target_arch = "x86_64")]
        Has { avx512: true, .. } => (Kind::Avx512, "the CPU has no dot products of bf16 or bytes"),
        #[cfg(target_arch = "x86_64")]
        Has { avx_vnni: true, .. } => (Kind::Avx2Vnni, "the CPU has no AVX-512"),
        #[cfg(target_arch = "x86_64")]
        Has { avx2: true, .. } => (Kind::Avx2, "the CPU has no AVX-512"),
        _ => (Kind::Portable, "the CPU has no AVX2"),
    };
    Choice { isa: Isa(kind), reason: format!("{reason} ({cpu})"), warning: None }
}

/// The instructions that this CPU has.
#[derive(Debug, Clone, Copy, Default)]
struct Has {
    avx2: bool,
    avx_vnni: bool,
    avx512: bool,
    avx512_vnni: bool,
    avx512_bf16: bool,
    amx: bool,
}

impl Has {
    fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            let avx512_vnni = avx512 && has!("avx512vnni");
            let avx512_bf16 = avx512_vnni && has!("avx512bf16");
            #[cfg(target_os = "linux")]
            let amx = avx512_bf16 && tiles::Hardware::is_permitted();
            #[cfg(not(target_os = "linux"))]
            let amx = false;
            Self { avx2, avx_vnni: avx2 && has!("avxvnni"), avx512, avx512_vnni, avx512_bf16, amx }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }
}

/// AMX passed its self-check.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
static AMX_WORKS: OnceLock<bool> = OnceLock::new();

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn amx_works() -> bool {
    // SAFETY: called where the system has permitted the tiles.
    unsafe { tiles::check::<tiles::Hardware>() }
}

impl Isa {
    /// The instruction set that operations use: [`Choice::current`].
    pub fn best() -> Self {
        Choice::current().isa
    }

    /// All supported instruction sets of this CPU.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "only one on other architectures")]
        let mut available = vec![Kind::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            let has = Has::detect();
            available.extend(has.avx2.then_some(Kind::Avx2));
            available.extend(has.avx_vnni.then_some(Kind::Avx2Vnni));
            available.extend(has.avx512.then_some(Kind::Avx512));
            available.extend(has.avx512_vnni.then_some(Kind::Avx512Vnni));
            available.extend(has.avx512_bf16.then_some(Kind::Avx512Bf16));
            #[cfg(target_os = "linux")]
            available.extend((has.amx && *AMX_WORKS.get_or_init(amx_works)).then_some(Kind::Amx));
        }
        available.into_iter().map(Self).collect()
    }

    /// An instruction set by name, one of [`Isa::available`].
    ///
    /// # Errors
    /// This CPU lacks the instructions. The message lists the available names.
    pub fn named(name: &str) -> Result<Self, String> {
        let available = Self::available();
        available.iter().find(|isa| isa.0.name() == name).copied().ok_or_else(|| {
            let names: Vec<&str> = available.iter().map(|isa| isa.0.name()).collect();
            format!("kernels `{name}` are not available on this CPU (auto, {})", names.join(", "))
        })
    }

    /// The software model of AMX, for tests: slow, with the same bits as AMX in products of bf16 and bytes, and also in
    /// attention where the CPU has AVX-512.
    #[doc(hidden)]
    pub fn amx_model() -> Self {
        Self(Kind::AmxModel { has_avx512: Has::detect().avx512 })
    }

    /// True if bf16 products are faster than f32 products, false if they are equally fast.
    pub fn has_fast_bf16(self) -> bool {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => true,
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Kind::Amx => true,
            Kind::AmxModel { .. } => true,
            _ => false,
        }
    }

    /// True if products of bf16 and of bytes run on tiles.
    pub(crate) fn has_tiles(self) -> bool {
        match self.0 {
            #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
            Kind::Amx => true,
            Kind::AmxModel { .. } => true,
            _ => false,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name())
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Has = Has { avx2: true, avx_vnni: true, avx512: true, avx512_vnni: true, avx512_bf16: true, amx: false };

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_bf16_dot_product_is_used_only_where_it_is_known_to_be_fast() {
        let kind = |has, cpu: Cpu| choose_vectors(has, &cpu).isa.0;
        let (zen4, zen5) = (Cpu::new("AuthenticAMD", 25, 17), Cpu::new("AuthenticAMD", 26, 2));
        let (emerald_rapids, unknown) = (Cpu::new("GenuineIntel", 6, 207), Cpu::new("NewVendor", 1, 1));
        assert_eq!(kind(ALL, zen4), Kind::Avx512Bf16);
        assert_eq!(kind(ALL, zen5), Kind::Avx512Bf16);
        assert_eq!(kind(ALL, emerald_rapids), Kind::Avx512Vnni);
        assert_eq!(kind(ALL, unknown), Kind::Avx512Vnni);
        let ice_lake = || Cpu::new("GenuineIntel", 6, 106);
        assert_eq!(kind(Has { avx512_bf16: false, ..ALL }, ice_lake()), Kind::Avx512Vnni);
        assert_eq!(kind(Has { avx512_bf16: false, avx512_vnni: false, ..ALL }, ice_lake()), Kind::Avx512);
        assert_eq!(kind(Has { avx2: true, avx_vnni: true, ..Has::default() }, ice_lake()), Kind::Avx2Vnni);
        assert_eq!(kind(Has { avx2: true, ..Has::default() }, ice_lake()), Kind::Avx2);
        assert_eq!(kind(Has::default(), ice_lake()), Kind::Portable);
        let reason = choose_vectors(ALL, &Cpu::new("GenuineIntel", 6, 207)).reason;
        assert!(
            reason.contains("slower than float32") && reason.contains("GenuineIntel family 6 model 207"),
            "{reason}"
        );
    }

    #[test]
    fn kernels_that_the_cpu_lacks_are_refused_by_name() {
        let error = Choice::force("sse9").unwrap_err();
        assert!(error.contains("`sse9`") && error.contains("auto, portable"), "{error}");
    }
}
