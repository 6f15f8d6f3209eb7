//! One algorithm, several instruction sets.
//!
//! An algorithm is an [`Operation`]: a struct of arguments whose `run` is generic over [`Simd`] and is inlined whole
//! into one function per instruction set, compiled for it ([`run`]). The instruction sets differ only in their
//! [`Vector`] and their [`Dot`]s.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod dispatch;
mod dot;
mod format;
mod math;
mod operation;
mod portable;
mod prefetch;
mod product;
mod vector;

pub(crate) use dispatch::run;
pub(crate) use dot::{Dot, FloatDot, Simd};
pub use format::Int8;
pub(crate) use format::{FloatFormat, Format};
pub(crate) use math::{erfc_of_positive, exp, exp2_for_bf16, normal_cdf_for_bf16, tanh};
pub(crate) use operation::{Operation, TileOperation};
pub(crate) use prefetch::{L1, L2, prefetch};
pub(crate) use product::{ColumnWords, MAX_MR, RowTiles, RowWords, for_rows, product, product_widening};
pub(crate) use vector::{MAX_LANES, Vector, for_vectors};
