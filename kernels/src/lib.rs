//! The operations of a transformer on slices, for the CPU, and with the feature `cuda` on device memory (module
//! `cuda`).
//!
//! On the CPU every operation keeps one promise: **a row's result depends on that row's inputs alone**, bit for bit. It does
//! not depend on the other rows of the call, on their number, on the number of threads, or on the split of the work.
//! Reductions run in a fixed order, tails run the same arithmetic as full tiles, and attention tiles its keys at absolute
//! path positions. The promise holds within one instruction set ([`Isa`]); two instruction sets may round differently.
//!
//! Activations are `f32`, or [`bf16`] with f32 accumulation ([`Element`]); int8 products quantize rows of `f32` themselves ([`Int8`]).
//! [`Packing`] lists the formats of packed weights. Every operation checks its lengths and returns a [`KernelError`] for a wrong one.

#![allow(clippy::needless_range_loop, reason = "a loop over registers is unrolled; an index says which one")]

mod attention;
#[cfg(feature = "cuda")]
pub mod cuda;
mod dtype;
mod element;
mod error;
mod gemm;
mod isa;
mod peak;
mod quantization;
pub mod reference;
mod roofline;
mod rowwise;
mod runtime;
mod simd;
mod store;
mod tiles;

pub use attention::{
    Attention, AttentionItems, DistanceRows, Float, Mask, QkvLayout, QuerySpan, QueryTile, RelativeBias,
    RelativePositions, RowView, query_tiles,
};
pub use dtype::Dtype;
pub use element::Element;
pub use error::KernelError;
pub use gemm::{Gemm, PANEL, PackedMatrix, PackedMatrixBuilder, Packing, row_parts};
pub use half::bf16;
pub use isa::{Choice, Isa};
#[doc(hidden)]
pub use peak::{run_peak, run_read};
pub use quantization::QuantizedTable;
#[doc(hidden)]
pub use roofline::{Stores, TileLoop};
pub use rowwise::LayerNorm;
pub use rowwise::PoolKind;
pub use rowwise::ShortConvolution;
#[doc(hidden)]
pub use rowwise::activate_mul_with;
#[doc(hidden)]
pub use rowwise::convert_with;
pub use rowwise::route_rows;
pub use rowwise::{Activation, activate_mul};
pub use rowwise::{HeadSpan, QkNormRope, RopeTable};
pub use rowwise::{add_rows, convert, embed_rows, fill_rows, gather_rows, own_columns, scale_rows, scatter_add_rows};
pub use rowwise::{rms_norm, rms_norm_add};
#[doc(hidden)]
pub use rowwise::{rms_norm_add_with, rms_norm_with};
#[doc(hidden)]
pub use runtime::{ThreadPool, advise_huge_pages, touch};
pub use simd::Int8;
pub use store::Store;
