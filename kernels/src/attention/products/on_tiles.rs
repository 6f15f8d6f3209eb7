//! The products on tiles of AMX.
//!
//! A line of queries, and a line of weights, is two column tiles without a copy. Rows of keys are row tiles without a copy;
//! values are transposed into row tiles. Every sum is over whole steps of 32 elements, padded with zeros.

use super::{Factors, Products, WeighedValues, WeightedSums};
use crate::attention::item::KEYS;
use crate::runtime::scratch::Line;
use crate::simd::{MAX_LANES, Vector};
use crate::tiles::{COLUMNS, Kept, LINE, ROW_BYTES, ROWS, TileRows, Tiles, multiply, store};
use half::bf16;
use std::marker::PhantomData;

/// Words of a tile.
const TILE: usize = ROWS * COLUMNS;

/// Words of the values of a tile's columns, over all keys of a tile of keys.
const COLUMN_TILE: usize = ROWS * KEY_WORDS;

/// Words of the keys of a tile of keys.
const KEY_WORDS: usize = KEYS / 2;

/// The products on the tiles `T`, with vectors `V` for the rest.
pub(crate) struct OnTiles<T, V> {
    tiles: T,
    /// `[2 * ROWS, LINE]`: sums stored from tiles.
    sums: [Line; 2 * TILE * 2 / Line::WORDS],
    vectors: PhantomData<V>,
}

impl<T: Tiles, V: Vector> OnTiles<T, V> {
    /// # Safety
    /// As [`Tiles::new`].
    #[inline(always)]
    pub(crate) unsafe fn new() -> Self {
        // SAFETY: the caller's duty.
        let tiles = unsafe { T::new() };
        Self { tiles, sums: [Line::ZERO; 2 * TILE * 2 / Line::WORDS], vectors: PhantomData }
    }

    /// Multiplies up to two row tiles with the column tiles at `b` that have queries (one or two), and writes the sums.
    ///
    /// # Safety
    /// The rows and the lines of all steps may be read; `to` has lines for the rows of the tiles.
    #[inline(always)]
    unsafe fn multiply(&mut self, is_pair: (bool, bool), a: TileRows, b: &[u32], steps: usize, to: *mut u32) {
        let b = b[..steps * COLUMNS * LINE].as_ptr();
        macro_rules! multiply {
            ($rows:literal, $columns:literal) => {{
                multiply::<T, $rows, $columns, false>(&mut self.tiles, a, b, steps, Kept::ALL, || ());
                store::<T, $rows, $columns>(&mut self.tiles, to.cast(), LINE * size_of::<u32>());
            }};
        }
        // SAFETY: the caller's duty.
        unsafe {
            match is_pair {
                (true, true) => multiply!(2, 2),
                (true, false) => multiply!(2, 1),
                (false, true) => multiply!(1, 2),
                (false, false) => multiply!(1, 1),
            }
        }
    }
}

/// Whether a line's vectors reach into the second tile of columns.
#[inline(always)]
fn has_second_tile<V: Vector>(vectors: usize) -> bool {
    vectors * V::LANES > COLUMNS
}

impl<T: Tiles, V: Vector> Products for OnTiles<T, V> {
    type V = V;
    type Element = bf16;
    const ELEMENTS: usize = 2;
    const VECTORS: usize = LINE / V::LANES;
    const STEP: usize = COLUMNS;
    const IS_ARRANGED: bool = true;

    #[inline(always)]
    fn round(values: V) -> V {
        V::pack_bf16(values, values).unpack_bf16().0
    }

    /// `[tiles of columns, steps, ROWS, COLUMNS]`: column `d` of words `w` is row `d % ROWS` of a tile.
    #[inline(always)]
    unsafe fn arrange(values: &[u32], dim: usize, arranged: &mut [u32]) {
        let words = values.len() / dim;
        for (first, tiles) in (0..dim).step_by(ROWS).zip(arranged.chunks_exact_mut(COLUMN_TILE)) {
            for word in (0..words.next_multiple_of(COLUMNS)).step_by(V::LANES) {
                let tile = &mut tiles[word / COLUMNS * TILE..][..TILE];
                for d in (first..first + ROWS).step_by(V::LANES) {
                    let count = dim.saturating_sub(d).min(V::LANES);
                    // SAFETY: the instructions are the caller's duty; each vector is within a line of values, or within a row
                    // of the tile.
                    unsafe {
                        let mut square = [V::set1(0.0); MAX_LANES];
                        for (i, vector) in square[..words.saturating_sub(word).min(V::LANES)].iter_mut().enumerate() {
                            *vector = V::loadu_up_to(values[(word + i) * dim + d.min(dim)..].as_ptr().cast(), count);
                        }
                        V::transpose(&mut square);
                        for (i, vector) in square[..V::LANES].iter().enumerate() {
                            vector.storeu(tile[(d - first + i) * COLUMNS + word % COLUMNS..].as_mut_ptr().cast());
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn score(&mut self, factors: Factors<'_>, count: usize, scores: &mut [u32]) {
        let Factors { keys, queries, row_words, vectors } = factors;
        for first in (0..count).step_by(2 * ROWS) {
            let is_pair = (count - first > ROWS, has_second_tile::<V>(vectors));
            let rows = if is_pair.0 { 2 * ROWS } else { ROWS };
            let keys = &keys[first * row_words..][..rows * row_words];
            let row = row_words * size_of::<u32>();
            let a = TileRows { start: keys.as_ptr().cast(), row, step: ROW_BYTES, tile: ROWS * row };
            let to = scores[first * LINE..][..rows * LINE].as_mut_ptr();
            // SAFETY: `keys` has the rows, each with all steps; `to` has as many lines.
            unsafe { self.multiply(is_pair, a, queries, row_words / COLUMNS, to) };
        }
    }

    #[inline(always)]
    unsafe fn weigh(&mut self, factors: WeighedValues<'_>, count: usize, sums: WeightedSums) {
        let WeighedValues { values, weights, dim, vectors } = factors;
        let words = count.div_ceil(Self::ELEMENTS);
        let steps = words.div_ceil(COLUMNS);
        weights[words * LINE..steps * COLUMNS * LINE].fill(0);
        for first in (0..dim).step_by(2 * ROWS) {
            let is_pair = (dim - first > ROWS, has_second_tile::<V>(vectors));
            let tiles = if is_pair.0 { 2 } else { 1 };
            let values = &values[first * KEY_WORDS..][..tiles * COLUMN_TILE];
            let tile = TILE * size_of::<u32>();
            let a = TileRows {
                start: values.as_ptr().cast(),
                row: ROW_BYTES,
                step: tile,
                tile: KEY_WORDS / COLUMNS * tile,
            };
            let block = Line::words_mut(&mut self.sums).as_mut_ptr();
            // SAFETY: `values` has the tiles, each with all steps; `block` has a line for each row. The instructions and
            // the sums are the caller's duty.
            unsafe {
                self.multiply(is_pair, a, weights, steps, block);
                for row in 0..(dim - first).min(2 * ROWS) {
                    for c in 0..vectors {
                        let sum = V::loadu(block.add(row * LINE + c * V::LANES).cast());
                        sums.add::<Self>(first + row, c, sum);
                    }
                }
            }
        }
    }
}
