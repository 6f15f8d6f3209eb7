//! The identity of a CPU.

use std::fmt;

/// Vendor, family and model of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpu {
    vendor: String,
    family: u32,
    model: u32,
}

/// CPUs whose bf16 dot product has twice the throughput of float32 multiplication: vendor and first family. Measured on AMD Zen
/// 4 (464 against 232 GFLOP/s on two cores) and Zen 5. On Intel CPUs it has half the throughput (Emerald Rapids: 172 against
/// 349; a Xeon with 480 MB of L3: 247 against 493).
const FAST_BF16_DOT: &[(&str, u32)] = &[("AuthenticAMD", 25)];

impl Cpu {
    /// A CPU by name, for tests.
    #[cfg(test)]
    pub(crate) fn new(vendor: &str, family: u32, model: u32) -> Self {
        Self { vendor: vendor.to_owned(), family, model }
    }

    /// This CPU, by its CPUID.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn this() -> Self {
        use std::arch::x86_64::__cpuid;
        let leaf = __cpuid(0);
        let vendor = [leaf.ebx, leaf.edx, leaf.ecx].map(u32::to_le_bytes).concat();
        // Intel's manual, volume 2, CPUID: the extended fields apply where the base fields are at their maximum.
        let version = __cpuid(1).eax;
        let (family, model) = (version >> 8 & 0xF, version >> 4 & 0xF);
        let extended_model = if matches!(family, 6 | 15) { version >> 16 & 0xF } else { 0 };
        let extended_family = if family == 15 { version >> 20 & 0xFF } else { 0 };
        Self {
            vendor: String::from_utf8_lossy(&vendor).into_owned(),
            family: family + extended_family,
            model: extended_model << 4 | model,
        }
    }

    /// This CPU.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn this() -> Self {
        Self { vendor: std::env::consts::ARCH.to_owned(), family: 0, model: 0 }
    }

    /// True if its bf16 dot product is known to be faster than float32. Unknown CPUs count as not faster: bfloat16 is then as
    /// fast as float32, never slower.
    pub(crate) fn has_fast_bf16_dot(&self) -> bool {
        FAST_BF16_DOT.iter().any(|(vendor, first)| self.vendor == *vendor && self.family >= *first)
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} family {} model {}", self.vendor, self.family, self.model)
    }
}
