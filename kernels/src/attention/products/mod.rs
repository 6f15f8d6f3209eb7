//! The product of attention's rows with panels, on vectors and on tiles.

mod definition;
mod on_tiles;
mod on_vectors;

pub(super) use definition::{Before, Panel, Panels, Products, Rows, Sums};
pub(super) use on_tiles::OnTiles;
pub(super) use on_vectors::OnVectors;

/// Maximum rows of a product: queries that are scored together.
pub(super) const BLOCK: usize = 32;
