//! The two products of attention, scores and weighted sums, on vectors and on tiles.

mod definition;
mod on_tiles;
mod on_vectors;

pub(super) use definition::{Factors, Products, WeighedValues, WeightedSums, line_vector};
pub(super) use on_tiles::OnTiles;
pub(super) use on_vectors::OnVectors;
