//! Disentangled attention for a line of queries and a tile of keys.
//!
//! A line and a tile are at fewer than [`ROWS`] distances, and only the rows of these distances are multiplied: work grows neither with
//! the square of the length nor with the number of rows.

use super::item::KEYS;
use super::keys::row_words;
use super::layout::RowView;
use super::line::Line;
use super::products::{Factors, Products};
use super::relative_positions::RelativePositions;
use crate::runtime::scratch::as_f32;
use crate::simd::{MAX_LANES, Vector};
use std::ops::Range;

/// Maximum rows of a line and a tile, in whole register blocks.
const ROWS: usize = (KEYS + 2 * MAX_LANES).next_multiple_of(32);

/// A line of queries and the tile of keys that it is multiplied with.
pub(super) struct Place {
    /// The head.
    pub(super) head: usize,
    /// Positions of the first and the last query.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Positions of the keys, starting at the tile's first position.
    pub(super) keys: Range<usize>,
    /// Factor on the scores, already applied to the queries.
    pub(super) scale: f32,
}

/// Words that the [`Buffers`] need.
pub(super) fn buffer_words(row_capacity: usize) -> usize {
    (ROWS + KEYS) * row_capacity + ROWS * 2 * MAX_LANES
}

/// Memory of the products with relative position embeddings.
#[derive(Default)]
pub(super) struct Buffers<'a> {
    /// `[ROWS, row words]`
    rows: &'a mut [u32],
    /// The keys of a tile in the layout of lines of queries, `[lines, row words, width]`.
    key_lines: &'a mut [u32],
    /// `[ROWS, width]`
    scores: &'a mut [u32],
}

impl<'a> Buffers<'a> {
    pub(super) fn new(scratch: &'a mut [u32], row_capacity: usize) -> Self {
        let (rows, scratch) = scratch.split_at_mut(ROWS * row_capacity);
        let (key_lines, scores) = scratch.split_at_mut(KEYS * row_capacity);
        Self { rows, key_lines, scores }
    }

    /// Transposes the keys of a tile, `[KEYS, row words]`.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn load_keys<P: Products>(&mut self, keys: &[u32], words: usize) {
        for first in (0..KEYS).step_by(P::V::LANES) {
            let line = &mut self.key_lines[first / P::WIDTH * words * P::WIDTH..][..words * P::WIDTH];
            for word in (0..words).step_by(P::V::LANES) {
                let count = (words - word).min(P::V::LANES);
                // SAFETY: the instructions are the caller's duty; each row has `count` words from `word` on, and the line has a
                // vector for each of them.
                unsafe {
                    let mut square = [P::V::set1(0.0); MAX_LANES];
                    for (i, vector) in square[..P::V::LANES].iter_mut().enumerate() {
                        *vector = P::V::loadu_up_to(keys[(first + i) * words + word..].as_ptr().cast(), count);
                    }
                    P::V::transpose(&mut square);
                    for (i, vector) in square.iter().enumerate().take(count) {
                        vector.storeu(line[(word + i) * P::WIDTH + first % P::WIDTH..].as_mut_ptr().cast());
                    }
                }
            }
        }
    }
}

/// Adds the position terms to the scores of a line.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
pub(super) unsafe fn add_positions<P: Products>(
    line: &mut Line<'_>,
    products: &mut P,
    positions: &RelativePositions<'_>,
    place: &Place,
    buffers: &mut Buffers<'_>,
) {
    let distance = |query: usize, key: usize| query as isize - key as isize;
    let low = positions.rows.row(distance(place.first, place.keys.end - 1));
    let high = positions.rows.row(distance(place.last, place.keys.start));
    let (count, lanes, words, width) =
        (high + 1 - low, place.last + 1 - place.first, P::row_words(line.dim), line.width);
    let row = |lane: usize, key: usize| (positions.rows.row(distance(place.first + lane, key)) - low) * width;
    let Buffers { rows, key_lines, scores: found } = buffers;
    if let Some(keys) = &positions.keys {
        // SAFETY: the caller's duty.
        unsafe {
            copy_rows::<P>(keys, place.head * line.dim, line.dim, low..high + 1, 1.0, rows);
            let factors = Factors { keys: rows, queries: line.queries, row_words: words, vectors: line.vectors };
            products.score(factors, count, found);
        }
        let found = &*as_f32(found);
        for (key, scores) in place.keys.clone().zip(as_f32(line.scores).chunks_exact_mut(width)) {
            for (lane, score) in scores[..lanes].iter_mut().enumerate() {
                *score += found[row(lane, key) + lane];
            }
        }
    }
    if let Some(queries) = &positions.queries {
        // SAFETY: the caller's duty.
        unsafe { copy_rows::<P>(queries, place.head * line.dim, line.dim, low..high + 1, place.scale, rows) };
        for first in place.keys.clone().step_by(width) {
            let keys = first..(first + width).min(place.keys.end);
            let key_line = &key_lines[(first - place.keys.start) * words..][..words * width];
            let vectors = keys.len().div_ceil(P::V::LANES);
            let factors = Factors { keys: rows, queries: key_line, row_words: words, vectors };
            // SAFETY: the caller's duty.
            unsafe { products.score(factors, count, found) };
            let found = &*as_f32(found);
            for key in keys {
                let scores = &mut as_f32(line.scores)[(key - place.keys.start) * width..][..lanes];
                for (lane, score) in scores.iter_mut().enumerate() {
                    *score += found[row(lane, key) + key - first];
                }
            }
        }
    }
}

/// Writes rows of a table as words.
///
/// # Safety
/// The CPU has the instructions of `P`.
#[inline(always)]
unsafe fn copy_rows<P: Products>(
    table: &RowView<'_>,
    column: usize,
    dim: usize,
    rows: Range<usize>,
    factor: f32,
    words: &mut [u32],
) {
    for (row, words) in rows.zip(words.chunks_exact_mut(P::row_words(dim))) {
        // SAFETY: the caller's duty.
        unsafe { row_words::<P>(table.values(row, column, dim), factor, words) };
    }
}
