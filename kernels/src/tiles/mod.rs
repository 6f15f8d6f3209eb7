//! Matrix tiles of Intel AMX: eight registers of 16 rows of 64 bytes, and products of two of them.
//!
//! [`Tiles`] has the few instructions that a product needs. [`Hardware`] executes them; [`Model`] implements them in plain
//! Rust as specified by Intel's manual (Software Developer's Manual, volume 2, `TDPBF16PS`, `TDPBUSD`, `TILELOADD`,
//! `TILESTORED`, `TILEZERO`), bit for bit. Tests run the algorithms on both, and [`check`] compares them when a process starts.

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod hardware;
mod model;
mod product;
mod self_check;
mod tile;

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub(crate) use hardware::Hardware;
pub(crate) use model::Model;
pub(crate) use product::{Between, Kept, LINE, TileRows, load_sums, multiply, store, zero_sums};
pub(crate) use self_check::check;
pub(crate) use tile::{COLUMNS, ROW_BYTES, ROWS, Tiles};
