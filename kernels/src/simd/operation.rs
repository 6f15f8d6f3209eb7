//! Computations that are compiled for each instruction set.

use super::dot::Simd;
use crate::tiles::Tiles;

/// A computation on slices that does not know the instruction set it runs on.
pub trait Operation {
    /// Runs with the vectors of `S`. Implementations are `#[inline(always)]`, and so is what they call.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`.
    unsafe fn run<S: Simd>(self);
}

/// A computation on the tiles of AMX, with vectors beside them.
pub trait TileOperation {
    /// Runs. Implementations are `#[inline(always)]`, and so is what they call.
    ///
    /// # Safety
    /// The CPU has the instruction set `S`, and the process may use the tiles `T`.
    unsafe fn run<S: Simd, T: Tiles>(self);
}
