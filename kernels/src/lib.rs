//! The operations of a causal transformer on slices, for the CPU, and with the feature `cuda` on device memory (module
//! `cuda`).
//!
//! On the CPU every operation keeps one promise: **a row's result depends on that row's inputs alone**, bit for bit. It does
//! not depend on the other rows of the call, on how many there are, on the number of threads, or on how the work
//! is split. Reductions run in a fixed order, tails run the same arithmetic as full tiles, and attention tiles its
//! keys at absolute path positions. The promise holds within one instruction set ([`Isa`]); two instruction sets
//! may round differently.
//!
//! Activations come in two precisions ([`Activation`]): `f32`, and `bf16` with f32 accumulation. Every operation
//! checks the lengths it is given and answers a wrong one with a [`KernelError`].

#![allow(clippy::needless_range_loop, reason = "a loop over registers is unrolled; an index says which one")]

mod activation;
mod attention;
#[cfg(feature = "cuda")]
pub mod cuda;
mod element;
mod error;
mod gemm;
mod isa;
mod norm;
mod pages;
mod peak;
pub mod reference;
mod rope;
mod rows;
mod scratch;
mod simd;
mod team;

pub use activation::silu_mul;
#[doc(hidden)]
pub use activation::silu_mul_with;
pub use attention::{Attention, QkvLayout, QuerySpan, QueryTile, RowView, query_tiles};
pub use element::{Activation, Precision};
pub use error::KernelError;
pub use gemm::{Gemm, PackedMatrix, PackedMatrixBuilder, Store};
pub use half::bf16;
#[doc(hidden)]
pub use isa::Isa;
pub use norm::rms_norm;
#[doc(hidden)]
pub use norm::rms_norm_with;
#[doc(hidden)]
pub use peak::run_peak;
pub use rope::{HeadSpan, QkNormRope, RopeTable};
pub use rows::gather_rows;
#[doc(hidden)]
pub use team::Team;
