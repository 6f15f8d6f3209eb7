//! Disentangled attention for a block of queries and a tile of keys.
//!
//! A block and a tile are at fewer than [`ROWS`] distances, and only the rows of these distances are multiplied: work grows neither with
//! the square of the length nor with the number of rows.

use super::block::Block;
use super::item::KEYS;
use super::panels::{pack_columns, row_words};
use super::products::{BLOCK, Panels, Products, Rows, Sums};
use super::relative_positions::RelativePositions;
use crate::runtime::scratch::as_f32;
use crate::simd::MAX_LANES;
use std::ops::Range;

/// Maximum rows of a block and a tile, in whole panels and blocks.
const ROWS: usize = (KEYS + BLOCK).next_multiple_of(32);

/// A block of queries and the tile of keys that it is multiplied with.
pub(super) struct Place {
    /// The head.
    pub(super) head: usize,
    /// Positions of the first and the last query.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Positions of the keys, starting at the tile's first position.
    pub(super) keys: Range<usize>,
    /// Values of a query.
    pub(super) dim: usize,
    /// Factor on the scores, already applied to the queries.
    pub(super) scale: f32,
}

/// Words that the [`Buffers`] need.
pub(super) fn buffer_words(row_capacity: usize) -> usize {
    (ROWS + MAX_LANES) * row_capacity + ROWS * KEYS
}

/// Memory of the products with relative position embeddings.
pub(super) struct Buffers<'a> {
    /// Rows of a table, `[ROWS, row words]` or in panels.
    table: &'a mut [u32],
    /// `[lanes of a vector, row words]`: rows of a table before they are transposed.
    rows: &'a mut [u32],
    /// `[BLOCK, ROWS]` or `[ROWS, KEYS]`
    scores: &'a mut [u32],
}

impl<'a> Buffers<'a> {
    pub(super) fn new(scratch: &'a mut [u32], row_capacity: usize) -> Self {
        let (table, scratch) = scratch.split_at_mut(ROWS * row_capacity);
        let (rows, scores) = scratch.split_at_mut(MAX_LANES * row_capacity);
        Self { table, rows, scores }
    }
}

/// Adds the position terms to the scores of a block; `queries` and `keys` are the operands of its scores.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(super) unsafe fn add_positions<P: Products>(
    block: &mut Block<'_>,
    products: &mut P,
    (queries, keys): (&[u32], &[u32]),
    positions: &RelativePositions<'_>,
    place: &Place,
    buffers: &mut Buffers<'_>,
) {
    let row = |query: usize, key: usize| positions.rows.row(query as isize - key as isize);
    let low = row(place.first, place.keys.end - 1);
    let used = low..row(place.last, place.keys.start) + 1;
    let dim = place.dim;
    let (len, column) = (P::row_words(dim), place.head * dim);
    let Buffers { table, rows, scores: found } = buffers;
    if let Some(position_keys) = &positions.keys {
        let queries = Rows { words: queries, stride: len, count: block.count, len };
        // SAFETY: the caller's duty; `found` has `ROWS` scores for each row of a block.
        unsafe {
            pack_columns::<P>(used.len(), dim, |i| position_keys.values(low + i, column, dim), rows, table);
            let panels = Panels { words: table, stride: len * P::WIDTH, columns: used.len() };
            products.multiply_panels(queries, panels, Sums::new(as_f32(found), ROWS), &mut ());
        }
        let found = &*as_f32(found);
        for (query, position) in (place.first..=place.last).enumerate() {
            for (key, score) in place.keys.clone().zip(block.scores_of(query)) {
                *score += found[query * ROWS + row(position, key) - low];
            }
        }
    }
    if let Some(position_queries) = &positions.queries {
        for (i, words) in (0..used.len()).zip(table.chunks_exact_mut(len)) {
            // SAFETY: the caller's duty.
            unsafe { row_words::<P>(position_queries.values(low + i, column, dim), place.scale, words) };
        }
        let panels = Panels { words: keys, stride: len * P::WIDTH, columns: place.keys.len() };
        for first in (0..used.len()).step_by(BLOCK) {
            let count = (used.len() - first).min(BLOCK);
            let rows = Rows { words: &table[first * len..], stride: len, count, len };
            // SAFETY: the caller's duty; `found` has `KEYS` scores for each row.
            unsafe {
                products.multiply_panels(rows, panels, Sums::new(&mut as_f32(found)[first * KEYS..], KEYS), &mut ())
            };
        }
        let found = &*as_f32(found);
        for (query, position) in (place.first..=place.last).enumerate() {
            for (k, (key, score)) in place.keys.clone().zip(block.scores_of(query)).enumerate() {
                *score += found[(row(position, key) - low) * KEYS + k];
            }
        }
    }
}
