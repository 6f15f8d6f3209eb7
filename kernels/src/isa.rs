//! The instruction set of the operations, detected once at run time.

use std::fmt;
use std::sync::OnceLock;

/// An instruction set that this CPU has. Only [`best`](Isa::best) and [`available`](Isa::available) make one, so a
/// value is proof that its instructions may be executed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Plain Rust, vectorised by the compiler for the target's baseline.
    Portable,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX-512 with the bf16 dot product.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
}

impl Isa {
    /// The fastest instruction set of this CPU.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().last().copied().unwrap_or(Self(Kind::Portable)))
    }

    /// All instruction sets of this CPU that the operations are written for, the fastest last.
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "only one on other architectures")]
        let mut available = vec![Self(Kind::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("fma");
            let avx512 = avx2 && has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl");
            available.extend(avx2.then_some(Self(Kind::Avx2)));
            available.extend(avx512.then_some(Self(Kind::Avx512)));
            available.extend((avx512 && has!("avx512bf16")).then_some(Self(Kind::Avx512Bf16)));
        }
        available
    }

    pub(crate) fn kind(self) -> Kind {
        self.0
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Bf16 => "avx512bf16",
        })
    }
}

impl fmt::Debug for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
