//! Computations compiled once per instruction set.

use super::dot::Simd;
use crate::tiles::Tiles;

/// A computation on slices, generic over the instruction set.
pub trait Operation {
    /// Runs with the vectors of `S`. Implementations and their callees are `#[inline(always)]`.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`.
    unsafe fn run<S: Simd>(self);
}

/// A computation on AMX tiles, with vectors for the rest.
pub trait TileOperation {
    /// Runs on the tiles `T`. Implementations and their callees are `#[inline(always)]`.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`, and the process may use the tiles `T`.
    unsafe fn run<S: Simd, T: Tiles>(self);
}
