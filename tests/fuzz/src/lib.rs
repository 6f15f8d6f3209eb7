//! Fuzz targets: invariants for arbitrary bytes. `tests/corpus.rs` runs them on `corpus/` and mutations of it; the
//! binary of this crate runs them under libFuzzer (`make fuzz`).
#![forbid(unsafe_code)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a panic is how a target reports a find")]

pub mod checkpoint;
pub mod encoder;
mod fake;
mod radix;
pub mod recipe;
pub mod requests;

/// Target: panics if an invariant is violated for these bytes.
pub type Target = fn(&[u8]);

/// All targets by name; the corpus of each is in `corpus/NAME`.
pub const TARGETS: [(&str, Target); 8] = [
    ("config", checkpoint::config),
    ("encoder", encoder::run),
    ("gguf", checkpoint::gguf),
    ("pytorch", checkpoint::pytorch),
    ("radix", radix::run),
    ("recipe", recipe::run),
    ("requests", requests::run),
    ("safetensors", checkpoint::safetensors),
];

/// Target by name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().find(|(known, _)| *known == name).map(|(_, target)| *target)
}
