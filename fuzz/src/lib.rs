//! Fuzz targets: what must hold for any bytes. `tests/corpus.rs` runs them over `corpus/` and over mutations of it, and
//! the binary of this crate under libFuzzer (`make fuzz`).
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a panic is how a target reports a find")]

pub mod checkpoint;
mod fake;
mod radix;
pub mod recipe;
pub mod requests;

/// Panics where something does not hold for these bytes.
pub type Target = fn(&[u8]);

/// All targets by name; their corpora are in `corpus/NAME`.
pub const TARGETS: [(&str, Target); 6] = [
    ("config", checkpoint::config),
    ("gguf", checkpoint::gguf),
    ("radix", radix::run),
    ("recipe", recipe::run),
    ("requests", requests::run),
    ("safetensors", checkpoint::safetensors),
];

/// The target of that name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
