//! One item: its queries over all key tiles of their path.
//!
//! A query is a (position, head) pair of the group. Queries are rows, keys and values are packed into panels, so both products use the
//! GEMM's register block: scores `[queries, keys] = Q K^T`, and sums `[queries, head_dim] += P V`. A tile of keys and values is packed
//! once for all queries of the item, which follow in blocks of [`BLOCK`].
//!
//! Key tiles start at multiples of [`KEYS`] of the path. The sums of a query therefore do not depend on the other queries of the item: a
//! masked key has weight exactly 0 and is multiplied with a finite value, or with zero if the tile has values that are not finite.

use super::block::{Block, NO_MAXIMUM, Start};
use super::input::Attention;
use super::item::{Item, KEYS, MAX_QUERIES};
use super::keys::{PREFETCH, Path};
use super::output::Rows;
use super::panels::row_words;
use super::positions_of_block::{Buffers, Place, add_positions, buffer_words};
use super::products::{BLOCK, Products};
use crate::runtime::scratch::as_f32;
use crate::simd::{MAX_LANES, Vector};
use crate::tiles;
use std::ops::Range;

/// Words of scratch that [`run`] needs.
pub(super) fn scratch_words(head_dim: usize) -> usize {
    let capacity = row_capacity(head_dim);
    MAX_QUERIES * (2 * capacity + MAX_LANES + 1)
        + (2 * KEYS + MAX_LANES + BLOCK) * capacity
        + BLOCK * (KEYS + 1)
        + buffer_words(capacity)
}

/// Maximum words of a row over all products, a multiple of the columns of a panel.
fn row_capacity(head_dim: usize) -> usize {
    head_dim.next_multiple_of(2 * tiles::COLUMNS)
}

/// Computes an item and writes its rows.
///
/// # Safety
/// The CPU has the instructions of `P`. The rows of the item's span are in `out`, and no other thread uses the
/// columns of the item's queries.
#[inline(always)]
pub(super) unsafe fn run<P: Products>(
    products: &mut P,
    attention: &Attention<'_>,
    item: Item,
    out: Rows,
    scratch: &mut [u32],
) {
    let mut tile = Tile::new(attention, item, scratch);
    // SAFETY: the caller's duty.
    unsafe {
        tile.load_queries::<P>();
        let keys = tile.visible_to(&tile.queries);
        for start in (keys.start / KEYS * KEYS..keys.end).step_by(KEYS) {
            tile.add_keys::<P>(products, start..(start + KEYS).min(keys.end));
        }
        tile.write::<P>(out);
    }
}

struct Tile<'a> {
    path: Path<'a>,
    /// The item's range of the span's (position, head) pairs.
    queries: Range<usize>,
    /// First row, and path position, of the span.
    row: usize,
    depth: usize,
    /// First query head of the group.
    head: usize,
    /// Columns of the sums.
    capacity: usize,
    /// `[queries, row words]`
    query_words: &'a mut [u32],
    /// `[queries, capacity]`
    sums: &'a mut [f32],
    /// A vector of partial sums of exponentials for each query.
    totals: &'a mut [[f32; MAX_LANES]],
    /// The maximum score of each query.
    maxima: &'a mut [f32],
    /// `[BLOCK]`: the factors that rescale a block's sums.
    factors: &'a mut [f32],
    /// `[KEYS / WIDTH, row words, WIDTH]`
    keys: &'a mut [u32],
    /// `[head_dim / WIDTH, KEYS / ELEMENTS, WIDTH]`
    values: &'a mut [u32],
    /// `[BLOCK, KEYS]` scores of a block, then their exponentials as words.
    scores: &'a mut [u32],
    /// `[lanes of a vector, row words]`: keys before they are transposed.
    rows: &'a mut [u32],
    /// `[BLOCK, capacity]`: a block's sums, where only some queries are to be changed.
    saved: &'a mut [f32],
    /// Buffers of the products with relative position embeddings.
    positions: Buffers<'a>,
}

impl<'a> Tile<'a> {
    #[inline(always)]
    fn new(attention: &'a Attention<'a>, item: Item, scratch: &'a mut [u32]) -> Self {
        let span = attention.spans[item.span as usize];
        let dim = attention.layout.head_dim;
        let path_len = attention.mask.path_len(item.span as usize, &span);
        let capacity = row_capacity(dim);
        let (query_words, scratch) = scratch.split_at_mut(MAX_QUERIES * capacity);
        let (sums, scratch) = scratch.split_at_mut(MAX_QUERIES * capacity);
        let (totals, scratch) = scratch.split_at_mut(MAX_QUERIES * MAX_LANES);
        let (maxima, scratch) = scratch.split_at_mut(MAX_QUERIES);
        let (factors, scratch) = scratch.split_at_mut(BLOCK);
        let (keys, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (values, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (scores, scratch) = scratch.split_at_mut(BLOCK * KEYS);
        let (rows, scratch) = scratch.split_at_mut(MAX_LANES * capacity);
        let (saved, scratch) = scratch.split_at_mut(BLOCK * capacity);
        Self {
            path: Path {
                attention,
                pages: &attention.pages[span.path as usize..][..path_len],
                column: item.kv_head as usize * dim,
            },
            queries: item.first as usize..(item.first + item.len) as usize,
            row: span.row as usize,
            depth: span.depth as usize,
            head: item.kv_head as usize * attention.layout.group(),
            capacity,
            query_words,
            sums: as_f32(sums),
            totals: as_f32(totals).as_chunks_mut().0,
            maxima: as_f32(maxima),
            factors: as_f32(factors),
            keys,
            values,
            scores,
            rows,
            saved: as_f32(saved),
            positions: Buffers::new(scratch, capacity),
        }
    }

    #[inline(always)]
    fn dim(&self) -> usize {
        self.path.attention.layout.head_dim
    }

    /// Path position of a (position, head) pair of the span.
    #[inline(always)]
    fn position(&self, query: usize) -> usize {
        self.depth + query / self.path.attention.layout.group()
    }

    /// The keys that a query at `position` sees.
    #[inline(always)]
    fn visible(&self, position: usize) -> Range<usize> {
        let Attention { mask, window, .. } = self.path.attention;
        mask.visible(*window, self.path.pages.len(), position)
    }

    /// The keys that at least one of the queries sees.
    #[inline(always)]
    fn visible_to(&self, queries: &Range<usize>) -> Range<usize> {
        self.visible(self.position(queries.start)).start..self.visible(self.position(queries.end - 1)).end
    }

    /// The first queries of the blocks.
    #[inline(always)]
    fn blocks(&self) -> impl Iterator<Item = usize> + use<> {
        self.queries.clone().step_by(BLOCK)
    }

    /// The queries of the block that begins with query `first`.
    #[inline(always)]
    fn block_queries(&self, first: usize) -> Range<usize> {
        first..(first + BLOCK).min(self.queries.end)
    }

    /// Row and column of each query from `first` on in `q` and in `out`.
    #[inline(always)]
    fn places(&self, first: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let (group, dim, head) = (self.path.attention.layout.group(), self.dim(), self.head);
        let (mut row, mut member) = (self.row + first / group, first % group);
        std::iter::repeat_with(move || {
            let place = (row, (head + member) * dim);
            (row, member) = if member + 1 == group { (row + 1, 0) } else { (row, member + 1) };
            place
        })
    }

    /// The block that begins with query `first`, with the buffers of positions.
    #[inline(always)]
    fn block<P: Products>(&mut self, first: usize) -> (Block<'_>, &mut Buffers<'a>) {
        let (count, dim, capacity) = (self.block_queries(first).len(), self.dim(), self.capacity);
        let (words, first) = (P::row_words(dim), first - self.queries.start);
        let block = Block {
            count,
            dim,
            queries: &self.query_words[first * words..][..BLOCK * words],
            keys: &*self.keys,
            values: &*self.values,
            scores: &mut *self.scores,
            sums: &mut self.sums[first * capacity..][..BLOCK * capacity],
            sum_stride: capacity,
            maxima: &mut self.maxima[first..][..BLOCK],
            totals: &mut self.totals[first..][..BLOCK],
            factors: &mut *self.factors,
        };
        (block, &mut self.positions)
    }

    /// Copies the queries and resets their state.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn load_queries<P: Products>(&mut self) {
        let Attention { q, scale, .. } = *self.path.attention;
        let (dim, words) = (self.dim(), P::row_words(self.dim()));
        let (places, ahead) = (self.places(self.queries.start), self.places(self.queries.start + PREFETCH));
        let query_words = self.query_words.chunks_exact_mut(words).take(self.queries.len());
        for ((query_words, (row, column)), (row_ahead, column_ahead)) in query_words.zip(places).zip(ahead) {
            q.prefetch(row_ahead, column_ahead, dim);
            // SAFETY: the caller's duty.
            unsafe { row_words::<P>(q.values(row, column, dim), scale, query_words) };
        }
        let count = self.queries.len().next_multiple_of(BLOCK);
        self.maxima[..count].fill(NO_MAXIMUM);
        self.totals[..count].fill([0.0; MAX_LANES]);
    }

    /// Adds a tile of keys and values to the sums of all blocks that see some of it.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn add_keys<P: Products>(&mut self, products: &mut P, tile: Range<usize>) {
        // SAFETY: the caller's duty.
        unsafe {
            self.path.pack_keys::<P>(tile.clone(), self.rows, self.keys);
            let is_finite = self.path.pack_values::<P>(tile.clone(), tile.clone(), self.values);
            for first in self.blocks() {
                let queries = self.block_queries(first);
                let visible = self.visible_to(&queries);
                let keys = tile.start..tile.end.min(visible.end);
                if keys.start >= keys.end || keys.end <= visible.start {
                    continue;
                }
                self.score::<P>(products, &queries, keys.clone());
                let is_rescaled = self.block::<P>(first).0.softmax::<P>(keys.len());
                let start = match visible.start / KEYS * KEYS == tile.start {
                    true => Start::Zero,
                    false if is_rescaled => Start::Rescaled,
                    false => Start::Kept,
                };
                if is_finite {
                    self.block::<P>(first).0.weigh(products, keys.len(), start);
                } else {
                    self.weigh_visible::<P>(products, &queries, &tile, (keys.len(), start));
                    self.path.pack_values::<P>(tile.clone(), tile.clone(), self.values);
                }
            }
        }
    }

    /// Computes the scores of a block with some keys: products, position terms, bias and mask.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn score<P: Products>(&mut self, products: &mut P, queries: &Range<usize>, keys: Range<usize>) {
        let Attention { bias, positions, scale, .. } = *self.path.attention;
        let (head, first) = (self.head, self.position(queries.start));
        let last = self.position(queries.end - 1);
        let (mut block, buffers) = self.block::<P>(queries.start);
        // SAFETY: the caller's duty.
        unsafe {
            block.score(products, keys.len());
            if let Some(positions) = &positions {
                let place = Place { head, first, last, keys: keys.clone(), scale };
                add_positions::<P>(&mut block, products, positions, &place, buffers);
            }
        }
        if let Some(bias) = bias {
            for (query, position) in (first..=last).enumerate() {
                bias.add(head, position, keys.start, &mut block.scores_of(query)[..keys.len()]);
            }
        }
        self.mask::<P>(queries, &keys);
    }

    /// Sets the scores of masked keys, and those after the last key up to a whole vector, to -infinity.
    #[inline(always)]
    fn mask<P: Products>(&mut self, queries: &Range<usize>, keys: &Range<usize>) {
        let whole = keys.len().next_multiple_of(P::V::LANES);
        let seen_by_all =
            self.visible(self.position(queries.end - 1)).start..self.visible(self.position(queries.start)).end;
        if seen_by_all.start <= keys.start && seen_by_all.end >= keys.start + whole {
            return;
        }
        for (i, query) in queries.clone().enumerate() {
            let visible = self.visible(self.position(query));
            let scores = &mut as_f32(self.scores)[i * KEYS..][..whole];
            scores[..visible.start.saturating_sub(keys.start).min(whole)].fill(f32::NEG_INFINITY);
            scores[visible.end.min(keys.end).saturating_sub(keys.start)..].fill(f32::NEG_INFINITY);
        }
    }

    /// Adds weighted values of a tile that has some which are not finite: for each position only the values that it sees.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn weigh_visible<P: Products>(
        &mut self,
        products: &mut P,
        queries: &Range<usize>,
        tile: &Range<usize>,
        (keys, start): (usize, Start),
    ) {
        let (first, len) = (queries.start - self.queries.start, queries.len() * self.capacity);
        let rows = first * self.capacity..first * self.capacity + len;
        let mut query = queries.start;
        while query < queries.end {
            let position = self.position(query);
            let end = (query..queries.end).find(|&other| self.position(other) != position).unwrap_or(queries.end);
            self.saved[..len].copy_from_slice(&self.sums[rows.clone()]);
            // SAFETY: the caller's duty.
            unsafe {
                self.path.pack_values::<P>(tile.clone(), self.visible(position), self.values);
                self.block::<P>(queries.start).0.weigh(products, keys, start);
            }
            let changed = (query - queries.start) * self.capacity..(end - queries.start) * self.capacity;
            let sums = &mut self.sums[rows.clone()];
            sums[..changed.start].copy_from_slice(&self.saved[..changed.start]);
            sums[changed.end..].copy_from_slice(&self.saved[changed.end..len]);
            query = end;
        }
    }

    /// Divides by the totals and writes the rows.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn write<P: Products>(&mut self, out: Rows) {
        let (dim, row_width) = (self.dim(), self.path.attention.layout.q_width());
        let mut places = self.places(self.queries.start);
        let mut sums = self.sums.chunks_exact(self.capacity);
        for first in (0..self.queries.len()).step_by(P::V::LANES) {
            let count = (self.queries.len() - first).min(P::V::LANES);
            // SAFETY: the instructions and the rows are the caller's duty; each vector is within a row.
            unsafe {
                let zero = P::V::set1(0.0);
                let inverses = P::V::set1(1.0).div(total_of_each::<P::V>(&self.totals[first..])).to_array();
                for ((&inverse, sums), (row, column)) in
                    inverses[..count].iter().zip(sums.by_ref()).zip(places.by_ref())
                {
                    for d in (0..dim).step_by(P::V::LANES) {
                        // Adding zero turns -0 into +0: the sign of a zero may depend on masked keys.
                        let means = P::V::loadu(sums[d..].as_ptr()).mul(P::V::set1(inverse)).add(zero);
                        out.store(row * row_width + column + d, means, (dim - d).min(P::V::LANES));
                    }
                }
            }
        }
    }
}

/// The sum of each of a vector of partial sums.
///
/// # Safety
/// The CPU has the instructions of `V`.
#[inline(always)]
unsafe fn total_of_each<V: Vector>(totals: &[[f32; MAX_LANES]]) -> V {
    // SAFETY: the instructions are the caller's duty.
    unsafe {
        let mut square = [V::set1(0.0); MAX_LANES];
        for (vector, partial) in square[..V::LANES].iter_mut().zip(totals) {
            *vector = V::loadu(partial.as_ptr());
        }
        V::transpose(&mut square);
        square[1..V::LANES].iter().fold(square[0], |sum, &other| sum.add(other))
    }
}
