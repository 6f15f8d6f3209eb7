//! One item: its queries over all key tiles of their path.
//!
//! A query is a (position, head) pair of the group. Queries are rows, keys and values are packed into panels, so both products use the
//! GEMM's register block: scores `[queries, keys] = Q K^T`, and sums `[queries, head_dim] += P V`. A tile of keys and values is packed
//! once for all queries of the item, which follow in blocks of [`BLOCK`].
//!
//! Key tiles start at multiples of [`KEYS`] of the path. The sums of a query therefore do not depend on the other queries of the item: a
//! masked key has weight exactly 0 and is multiplied with a finite value, or with zero if the tile has values that are not finite.

use super::block::{Block, Exponentials, Maxima, NO_MAXIMUM, Progress, Start};
use super::input::Attention;
use super::item::{Item, KEYS, MAX_QUERIES};
use super::keys::{PREFETCH, Path};
use super::output::Rows;
use super::panels::row_words;
use super::positions_of_block::{Buffers, Place, add_positions, buffer_words};
use super::products::{BLOCK, Products};
use super::queries::{Queries, part_of};
use crate::runtime::scratch::as_f32;
use crate::simd::{L1, MAX_LANES, Vector};
use crate::tiles;
use std::marker::PhantomData;
use std::ops::Range;

/// Words of scratch that [`run`] needs.
pub(super) fn scratch_words(head_dim: usize) -> usize {
    let capacity = row_capacity(head_dim);
    MAX_QUERIES * (2 * capacity + MAX_LANES + 1)
        + (2 * KEYS + MAX_LANES + BLOCK) * capacity
        + 2 * BLOCK * (KEYS + 1)
        + buffer_words(capacity)
}

/// Maximum words of a row over all products, a multiple of the columns of a panel.
fn row_capacity(head_dim: usize) -> usize {
    head_dim.next_multiple_of(2 * tiles::COLUMNS)
}

/// Computes an item and writes its rows; `next` is the item that probably follows.
///
/// # Safety
/// The CPU has the instructions of `P`. The rows of the item's span are in `out`, and no other thread uses the
/// columns of the item's queries.
#[inline(always)]
pub(super) unsafe fn run<P: Products>(
    products: &mut P,
    attention: &Attention<'_>,
    (item, next): (Item, Option<Item>),
    out: Rows,
    scratch: &mut [u32],
) {
    let next = next.map(|item| Queries::new(attention, item));
    let mut tile = Tile::new(attention, item, scratch);
    let mut tiles = tile.queries.tiles().peekable();
    // SAFETY: the caller's duty.
    unsafe {
        tile.load_queries::<P>();
        while let Some(keys) = tiles.next() {
            let ahead = Ahead { tile: tiles.peek().cloned(), next: next.as_ref() };
            tile.add_keys::<P>(products, keys, &ahead);
        }
        tile.write::<P>(out);
    }
}

/// Rows that are read soon, to be prefetched while a tile is multiplied.
struct Ahead<'a> {
    /// The item's next tile.
    tile: Option<Range<usize>>,
    next: Option<&'a Queries<'a>>,
}

impl Ahead<'_> {
    /// Prefetches one of `parts` parts.
    #[inline(always)]
    fn prefetch(&self, path: &Path<'_>, part: usize, parts: usize) {
        match (&self.tile, self.next) {
            (Some(tile), _) => path.prefetch_to_l2(part_of(tile.clone(), part, parts)),
            (None, Some(next)) => next.prefetch(part, parts),
            (None, None) => {}
        }
    }
}

struct Tile<'a> {
    queries: Queries<'a>,
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
    /// `[KEYS / WIDTH, row words, WIDTH]`
    keys: &'a mut [u32],
    /// `[head_dim / WIDTH, KEYS / ELEMENTS, WIDTH]`
    values: &'a mut [u32],
    /// The block whose scores are computed, and the one before, whose weighted sums are.
    blocks: [Block<'a>; 2],
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
        let capacity = row_capacity(attention.layout.head_dim);
        let (query_words, scratch) = scratch.split_at_mut(MAX_QUERIES * capacity);
        let (sums, scratch) = scratch.split_at_mut(MAX_QUERIES * capacity);
        let (totals, scratch) = scratch.split_at_mut(MAX_QUERIES * MAX_LANES);
        let (maxima, scratch) = scratch.split_at_mut(MAX_QUERIES);
        let (keys, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (values, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (block, scratch) = scratch.split_at_mut(BLOCK * (KEYS + 1));
        let (before, scratch) = scratch.split_at_mut(BLOCK * (KEYS + 1));
        let (rows, scratch) = scratch.split_at_mut(MAX_LANES * capacity);
        let (saved, scratch) = scratch.split_at_mut(BLOCK * capacity);
        Self {
            queries: Queries::new(attention, item),
            capacity,
            query_words,
            sums: as_f32(sums),
            totals: as_f32(totals).as_chunks_mut().0,
            maxima: as_f32(maxima),
            keys,
            values,
            blocks: [Block::empty(block), Block::empty(before)],
            rows,
            saved: as_f32(saved),
            positions: Buffers::new(scratch, capacity),
        }
    }

    /// Copies the queries and resets their state.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn load_queries<P: Products>(&mut self) {
        let Attention { q, scale, .. } = *self.queries.path.attention;
        let (dim, words) = (self.queries.dim(), P::row_words(self.queries.dim()));
        let places = self.queries.places(self.queries.range.start);
        let ahead = self.queries.places(self.queries.range.start + PREFETCH);
        let query_words = self.query_words.chunks_exact_mut(words).take(self.queries.range.len());
        for ((query_words, (row, column)), (row_ahead, column_ahead)) in query_words.zip(places).zip(ahead) {
            q.prefetch::<L1>(row_ahead, column_ahead, dim);
            // SAFETY: the caller's duty.
            unsafe { row_words::<P>(q.values(row, column, dim), scale, query_words) };
        }
        let count = self.queries.range.len().next_multiple_of(BLOCK);
        self.maxima[..count].fill(NO_MAXIMUM);
        self.totals[..count].fill([0.0; MAX_LANES]);
    }

    /// Adds a tile of keys and values to the sums of all blocks that see some of it.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn add_keys<P: Products>(&mut self, products: &mut P, tile: Range<usize>, ahead: &Ahead<'_>) {
        let blocks = self.queries.range.len().div_ceil(BLOCK);
        // SAFETY: the caller's duty.
        unsafe {
            self.queries.path.pack_keys::<P>(tile.clone(), self.rows, self.keys);
            let is_finite = self.queries.path.pack_values::<P>(tile.clone(), tile.clone(), self.values);
            for (part, first) in self.queries.range.clone().step_by(BLOCK).enumerate() {
                ahead.prefetch(&self.queries.path, part, blocks);
                let queries = first..(first + BLOCK).min(self.queries.range.end);
                let visible = self.queries.visible_to(&queries);
                let keys = tile.start..tile.end.min(visible.end);
                if keys.start >= keys.end || keys.end <= visible.start {
                    continue;
                }
                let start = if visible.start / KEYS * KEYS == tile.start { Start::Zero } else { Start::Kept };
                self.begin_block(queries.clone(), keys.len(), start);
                self.multiply_keys(products);
                self.complete_scores(products, &queries, keys);
                self.multiply_values(products, &tile, is_finite);
            }
            // The last block's exponentials and weighted sums.
            self.begin_block(self.queries.range.start..self.queries.range.start, 0, Start::Zero);
            self.multiply_keys(products);
            self.multiply_values(products, &tile, is_finite);
        }
    }

    /// Makes the block the one before, and begins the next.
    #[inline(always)]
    fn begin_block(&mut self, queries: Range<usize>, keys: usize, start: Start) {
        self.blocks.swap(0, 1);
        let block = &mut self.blocks[0];
        (block.first, block.count) = (queries.start - self.queries.range.start, queries.len());
        (block.keys, block.start) = (keys, start);
    }

    /// Computes the products of the block's queries and the keys, and meanwhile the exponentials of the block before.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn multiply_keys<P: Products>(&mut self, products: &mut P) {
        let words = P::row_words(self.queries.dim());
        let [block, before] = &mut self.blocks;
        let pieces = P::pieces(words, block.keys);
        let mut exponentials = Exponentials {
            progress: Progress::new(before.count, pieces),
            maxima: &self.maxima[before.first..],
            totals: &mut self.totals[before.first..],
            block: before,
            products: PhantomData::<P>,
        };
        // SAFETY: the caller's duty.
        unsafe {
            if block.count > 0 {
                let queries = &self.query_words[block.first * words..][..BLOCK * words];
                block.score(products, queries, self.keys, &mut exponentials);
            }
            exponentials.some(BLOCK);
        }
    }

    /// Completes the block's scores: position terms, bound, bias and mask.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn complete_scores<P: Products>(&mut self, products: &mut P, queries: &Range<usize>, keys: Range<usize>) {
        let Attention { softcap, bias, positions, scale, .. } = *self.queries.path.attention;
        let (head, first) = (self.queries.head, self.queries.position(queries.start));
        let last = self.queries.position(queries.end - 1);
        let words = P::row_words(self.queries.dim());
        let block = &mut self.blocks[0];
        if let Some(positions) = &positions {
            let place = Place {
                head,
                first,
                last,
                keys: keys.clone(),
                dim: self.queries.path.attention.layout.head_dim,
                scale,
            };
            let queries = &self.query_words[block.first * words..][..BLOCK * words];
            // SAFETY: the caller's duty.
            unsafe { add_positions(block, products, (queries, self.keys), positions, &place, &mut self.positions) };
        }
        if let Some(softcap) = softcap {
            // SAFETY: the caller's duty.
            unsafe { block.cap::<P>(softcap) };
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
        let seen_by_all = self.queries.visible(self.queries.position(queries.end - 1)).start
            ..self.queries.visible(self.queries.position(queries.start)).end;
        if seen_by_all.start <= keys.start && seen_by_all.end >= keys.start + whole {
            return;
        }
        for (i, query) in queries.clone().enumerate() {
            let visible = self.queries.visible(self.queries.position(query));
            let scores = &mut self.blocks[0].scores_of(i)[..whole];
            scores[..visible.start.saturating_sub(keys.start).min(whole)].fill(f32::NEG_INFINITY);
            scores[visible.end.min(keys.end).saturating_sub(keys.start)..].fill(f32::NEG_INFINITY);
        }
    }

    /// Adds weighted values to the sums of the block before, and meanwhile raises the maxima of the block.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn multiply_values<P: Products>(&mut self, products: &mut P, tile: &Range<usize>, is_finite: bool) {
        if !is_finite {
            // SAFETY: the caller's duty.
            unsafe { self.weigh_visible(products, tile) };
        }
        let (dim, stride) = (self.queries.dim(), self.capacity);
        let [block, before] = &mut self.blocks;
        let progress = Progress::new(block.count, 1);
        let mut maxima =
            Maxima { maxima: &mut self.maxima[block.first..], block, progress, products: PhantomData::<P> };
        // SAFETY: the caller's duty.
        unsafe {
            if is_finite && before.count > 0 {
                let sums = &mut self.sums[before.first * stride..][..BLOCK * stride];
                before.weigh(products, (self.values, dim), (sums, stride), &mut maxima);
            }
            maxima.some(BLOCK);
        }
    }

    /// Adds weighted values of a tile that has some which are not finite: for each position only the values that it sees.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn weigh_visible<P: Products>(&mut self, products: &mut P, tile: &Range<usize>) {
        let stride = self.capacity;
        let Block { first, count, .. } = self.blocks[1];
        let mut query = 0;
        while query < count {
            let position = self.queries.position(self.queries.range.start + first + query);
            let is_later = |&other: &usize| self.queries.position(self.queries.range.start + first + other) != position;
            let end = (query..count).find(is_later).unwrap_or(count);
            let (visible, dim) = (self.queries.visible(position), self.queries.dim());
            let sums = &mut self.sums[first * stride..][..BLOCK * stride];
            self.saved.copy_from_slice(sums);
            // SAFETY: the caller's duty.
            unsafe {
                self.queries.path.pack_values::<P>(tile.clone(), visible, self.values);
                self.blocks[1].weigh(products, (self.values, dim), (sums, stride), &mut ());
            }
            sums[..query * stride].copy_from_slice(&self.saved[..query * stride]);
            sums[end * stride..].copy_from_slice(&self.saved[end * stride..]);
            query = end;
        }
        // SAFETY: the caller's duty.
        unsafe { self.queries.path.pack_values::<P>(tile.clone(), tile.clone(), self.values) };
    }

    /// Divides by the totals and writes the rows.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn write<P: Products>(&mut self, out: Rows) {
        let (dim, row_width) = (self.queries.dim(), self.queries.path.attention.layout.q_width());
        let mut places = self.queries.places(self.queries.range.start);
        let mut ahead = self.queries.places(self.queries.range.start + PREFETCH);
        let mut sums = self.sums.chunks_exact(self.capacity);
        for first in (0..self.queries.range.len()).step_by(P::V::LANES) {
            let count = (self.queries.range.len() - first).min(P::V::LANES);
            // SAFETY: the instructions and the rows are the caller's duty; each vector is within a row.
            unsafe {
                let zero = P::V::set1(0.0);
                let inverses = P::V::set1(1.0).div(total_of_each::<P::V>(&self.totals[first..])).to_array();
                for ((&inverse, sums), (row, column)) in
                    inverses[..count].iter().zip(sums.by_ref()).zip(places.by_ref())
                {
                    if let Some((row, column)) = ahead.next() {
                        out.prefetch(row * row_width + column, dim);
                    }
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
        let mut sum = square[0];
        for &other in &square[1..V::LANES] {
            sum = sum.add(other);
        }
        sum
    }
}
