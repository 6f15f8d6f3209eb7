//! One item: the queries of a tile over all key tiles of their path.
//!
//! Lanes are queries: each (position, head) of the group has a lane, so that softmax needs no sum across lanes and both
//! products use the GEMM's register block, with a line of queries as packed B: scores `[keys, lanes] = K Q^T` and sums
//! `[head_dim, lanes] += V^T P`.
//!
//! Key tiles start at multiples of [`KEYS`] of the path. A lane's sums therefore do not depend on the other queries of
//! the tile: a masked key has weight exactly 0 and is multiplied with a finite value, or with zero if the tile has
//! values that are not finite.

use super::input::Attention;
use super::item::{Item, KEYS, QUERIES};
use super::keys::{PREFETCH, Path, row_words};
use super::line::{Line, NO_MAXIMUM};
use super::output::Rows;
use super::positions_of_line::{Buffers, Place, add_positions, buffer_words};
use super::products::Products;
use crate::runtime::scratch::as_f32;
use crate::simd::{MAX_LANES, Vector};
use crate::tiles;
use std::ops::Range;

/// Words of scratch that [`run`] needs.
pub(super) fn scratch_words(head_dim: usize) -> usize {
    let dim = row_capacity(head_dim);
    let positions = buffer_words(dim);
    2 * QUERIES * dim
        + 3 * KEYS * dim
        + KEYS * 2 * MAX_LANES
        + 5 * QUERIES
        + 2 * MAX_LANES
        + MAX_LANES * dim
        + positions
}

/// Maximum words of a row over all products; tiles have steps of 32 elements.
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
    let mut tile = Tile::new::<P>(attention, item, scratch);
    // SAFETY: the caller's duty.
    unsafe {
        tile.load_queries::<P>();
        let keys = tile.keys();
        for start in (keys.start / KEYS * KEYS..keys.end).step_by(KEYS) {
            tile.add_keys::<P>(products, start..(start + KEYS).min(keys.end));
        }
        tile.write::<P>(out);
    }
}

struct Tile<'a> {
    path: Path<'a>,
    /// The tile's range of the span's (position, head) pairs.
    lanes: Range<usize>,
    /// First row, and path position, of the span.
    row: usize,
    depth: usize,
    /// First query head of the group.
    head: usize,
    /// Lanes of a line: the width of a register block.
    width: usize,
    /// `[lines, row words, width]`
    queries: &'a mut [u32],
    /// `[KEYS, row words]`
    keys: &'a mut [u32],
    /// `[KEYS words, head_dim]`
    values: &'a mut [u32],
    /// The values reordered for the product, where it needs another order.
    arranged: &'a mut [u32],
    /// `[KEYS, width]` scores of a line, then their exponentials as words.
    scores: &'a mut [u32],
    /// `[lines, head_dim, width]`
    sums: &'a mut [f32],
    /// Per lane: its position, the last visible position, the last position before the visible ones, the maximum score,
    /// and the sum of exponentials.
    positions: &'a mut [f32],
    last_visible: &'a mut [f32],
    before_window: &'a mut [f32],
    maxima: &'a mut [f32],
    totals: &'a mut [f32],
    /// `[width]`: the factor that rescales the sums so far to a new maximum.
    factors: &'a mut [f32],
    /// `[lanes of a vector, row words]`: queries before they are transposed.
    row_words: &'a mut [u32],
    /// Buffers of the products with relative position embeddings.
    positions_buffers: Buffers<'a>,
}

impl<'a> Tile<'a> {
    #[inline(always)]
    fn new<P: Products>(attention: &'a Attention<'a>, item: Item, scratch: &'a mut [u32]) -> Self {
        let span = attention.spans[item.span as usize];
        let dim = attention.layout.head_dim;
        let group = attention.layout.group();
        let start = item.tile as usize * QUERIES;
        let path_len = attention.mask.path_len(item.span as usize, &span);
        let capacity = row_capacity(dim);
        let (queries, scratch) = scratch.split_at_mut(QUERIES * capacity);
        let (sums, scratch) = scratch.split_at_mut(QUERIES * capacity);
        let (keys, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (values, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (arranged, scratch) = scratch.split_at_mut(KEYS * capacity);
        let (scores, scratch) = scratch.split_at_mut(KEYS * 2 * MAX_LANES);
        let (positions, scratch) = scratch.split_at_mut(QUERIES);
        let (last_visible, scratch) = scratch.split_at_mut(QUERIES);
        let (before_window, scratch) = scratch.split_at_mut(QUERIES);
        let (maxima, scratch) = scratch.split_at_mut(QUERIES);
        let (totals, scratch) = scratch.split_at_mut(QUERIES);
        let (factors, scratch) = scratch.split_at_mut(2 * MAX_LANES);
        let (row_words, scratch) = scratch.split_at_mut(MAX_LANES * capacity);
        Self {
            path: Path {
                attention,
                pages: &attention.pages[span.path as usize..][..path_len],
                column: item.kv_head as usize * dim,
            },
            lanes: start..(start + QUERIES).min(span.len as usize * group),
            row: span.row as usize,
            depth: span.depth as usize,
            head: item.kv_head as usize * group,
            width: P::WIDTH,
            queries,
            keys,
            values,
            arranged,
            scores,
            sums: as_f32(sums),
            positions: as_f32(positions),
            last_visible: as_f32(last_visible),
            before_window: as_f32(before_window),
            maxima: as_f32(maxima),
            totals: as_f32(totals),
            factors: as_f32(factors),
            row_words,
            positions_buffers: Buffers::new(scratch, capacity),
        }
    }

    #[inline(always)]
    fn dim(&self) -> usize {
        self.path.attention.layout.head_dim
    }

    /// Path position of a (position, head) pair of the span.
    #[inline(always)]
    fn position(&self, lane: usize) -> usize {
        self.depth + lane / self.path.attention.layout.group()
    }

    /// The keys that a query at `position` sees.
    #[inline(always)]
    fn visible(&self, position: usize) -> Range<usize> {
        let Attention { mask, window, .. } = self.path.attention;
        mask.visible(*window, self.path.pages.len(), position)
    }

    /// The keys that at least one of the queries sees.
    #[inline(always)]
    fn keys(&self) -> Range<usize> {
        let [first, last] = [self.lanes.start, self.lanes.end - 1].map(|lane| self.visible(self.position(lane)));
        first.start..last.end
    }

    #[inline(always)]
    fn lines(&self) -> usize {
        self.lanes.len().div_ceil(self.width)
    }

    /// The tile's queries in a line; the last line may be shorter.
    #[inline(always)]
    fn line_lanes(&self, line: usize) -> Range<usize> {
        let start = self.lanes.start + line * self.width;
        start..(start + self.width).min(self.lanes.end)
    }

    /// Row and column of a lane's query in `q` and in `out`.
    #[inline(always)]
    fn query(&self, lane: usize) -> (usize, usize) {
        let group = self.path.attention.layout.group();
        (self.row + lane / group, (self.head + lane % group) * self.dim())
    }

    #[inline(always)]
    fn line<P: Products>(&mut self, line: usize) -> Line<'_> {
        let (dim, width) = (self.dim(), self.width);
        let words = P::row_words(dim);
        let lanes = line * width..(line + 1) * width;
        Line {
            dim,
            width,
            vectors: self.line_lanes(line).len().div_ceil(P::V::LANES),
            queries: &self.queries[line * words * width..][..words * width],
            keys: &*self.keys,
            values: if P::IS_ARRANGED { &*self.arranged } else { &*self.values },
            scores: &mut *self.scores,
            sums: &mut self.sums[line * dim * width..][..dim * width],
            positions: &mut self.positions[lanes.clone()],
            last_visible: &self.last_visible[lanes.clone()],
            before_window: &self.before_window[lanes.clone()],
            maxima: &mut self.maxima[lanes.clone()],
            totals: &mut self.totals[lanes],
            factors: &mut *self.factors,
        }
    }

    /// Transposes the queries into lines and resets the sums. Lanes of the last vector beyond the last query repeat it.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn load_queries<P: Products>(&mut self) {
        let Attention { q, scale, .. } = *self.path.attention;
        let words = P::row_words(self.dim());
        for first in (0..self.lanes.len()).step_by(P::V::LANES) {
            for i in first..first + P::V::LANES {
                let lane = (self.lanes.start + i).min(self.lanes.end - 1);
                let (ahead, column) = self.query(lane + PREFETCH);
                q.prefetch(ahead, column, self.dim());
                let (row, column) = self.query(lane);
                let position = self.position(lane);
                let query = &mut self.row_words[(i - first) * words..][..words];
                // SAFETY: the caller's duty.
                unsafe { row_words::<P>(q.values(row, column, self.path.attention.layout.head_dim), scale, query) };
                let visible = self.visible(position);
                self.positions[i] = position as f32;
                self.last_visible[i] = visible.end as f32 - 1.0;
                self.before_window[i] = visible.start as f32 - 1.0;
                self.maxima[i] = NO_MAXIMUM;
                self.totals[i] = 0.0;
            }
            let line = &mut self.queries[first / self.width * words * self.width..][..words * self.width];
            for word in (0..words).step_by(P::V::LANES) {
                let count = (words - word).min(P::V::LANES);
                // SAFETY: the instructions are the caller's duty; each row has `count` words from `word` on, and the
                // line has a vector for each of them.
                unsafe {
                    let mut square = [P::V::set1(0.0); MAX_LANES];
                    for (row, vector) in self.row_words.chunks_exact(words).zip(&mut square[..P::V::LANES]) {
                        *vector = P::V::loadu_up_to(row[word..].as_ptr().cast(), count);
                    }
                    P::V::transpose(&mut square);
                    for (i, vector) in square.iter().enumerate().take(count) {
                        vector.storeu(line[(word + i) * self.width + first % self.width..].as_mut_ptr().cast());
                    }
                }
            }
        }
        let sums = self.lines() * self.width * self.dim();
        self.sums[..sums].fill(0.0);
    }

    /// Adds a tile of keys and values to the sums of all lines that see some of it.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn add_keys<P: Products>(&mut self, products: &mut P, tile: Range<usize>) {
        // SAFETY: the caller's duty.
        unsafe {
            self.path.copy_keys::<P>(tile.clone(), self.keys);
            if self.path.attention.positions.is_some_and(|positions| positions.queries.is_some()) {
                self.positions_buffers.load_keys::<P>(self.keys, P::row_words(self.dim()));
            }
            let is_clean = self.copy_values::<P>(tile.clone(), tile.clone());
            for line in 0..self.lines() {
                let lanes = self.line_lanes(line);
                let (first, last) = (self.position(lanes.start), self.position(lanes.end - 1));
                let (seen_first, seen_last) = (self.visible(first), self.visible(last));
                let keys = tile.start..tile.end.min(seen_last.end);
                if keys.start >= keys.end || keys.end <= seen_first.start {
                    continue;
                }
                let is_masked = keys.end > seen_first.end || keys.start < seen_last.start;
                let Attention { bias, positions, scale, .. } = *self.path.attention;
                let head = self.head;
                let mut buffers = std::mem::take(&mut self.positions_buffers);
                let mut state = self.line::<P>(line);
                state.score(products, keys.len());
                if let Some(positions) = &positions {
                    let place = Place { head, first, last, keys: keys.clone(), scale };
                    add_positions::<P>(&mut state, products, positions, &place, &mut buffers);
                }
                if let Some(bias) = bias {
                    state.add_bias::<P::V>(&keys, |key| bias.line(head, first, key));
                }
                if is_masked {
                    state.mask::<P::V>(&keys);
                }
                state.softmax::<P>(keys.len());
                if is_clean {
                    state.weigh(products, keys.len(), None);
                }
                self.positions_buffers = buffers;
                if is_clean {
                    continue;
                }
                for position in first..=last {
                    self.copy_values::<P>(tile.clone(), self.visible(position));
                    self.line::<P>(line).weigh(products, keys.len(), Some(position));
                }
            }
        }
    }

    /// Collects the values of a range of positions; positions outside `visible` are zero. Returns whether all are finite.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn copy_values<P: Products>(&mut self, positions: Range<usize>, visible: Range<usize>) -> bool {
        let dim = self.dim();
        let words = positions.len().div_ceil(P::ELEMENTS);
        // SAFETY: the caller's duty.
        unsafe {
            let is_clean = self.path.copy_values::<P>(positions, visible, self.values);
            P::arrange(&self.values[..words * dim], dim, self.arranged);
            is_clean
        }
    }

    /// Divides by the totals and writes the rows.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn write<P: Products>(&mut self, out: Rows) {
        let dim = self.dim();
        let row_width = self.path.attention.layout.q_width();
        for line in 0..self.lines() {
            let lanes = self.line_lanes(line);
            let sums = &self.sums[line * dim * self.width..][..dim * self.width];
            let totals = &self.totals[line * self.width..][..self.width];
            for first in (0..lanes.len()).step_by(P::V::LANES) {
                for d in (0..dim).step_by(P::V::LANES) {
                    let count = (dim - d).min(P::V::LANES);
                    // SAFETY: the instructions and the rows are the caller's duty; each vector is within a line.
                    unsafe {
                        let (total, zero) = (P::V::loadu(totals[first..].as_ptr()), P::V::set1(0.0));
                        let mut square = [zero; MAX_LANES];
                        for (i, vector) in square.iter_mut().enumerate().take(count) {
                            let sum = P::V::loadu(sums[(d + i) * self.width + first..].as_ptr());
                            // Adding zero turns -0 into +0: the sign of a zero may depend on masked keys.
                            *vector = sum.div(total).add(zero);
                        }
                        P::V::transpose(&mut square);
                        for (lane, &means) in (lanes.start + first..lanes.end).zip(&square[..P::V::LANES]) {
                            let (row, column) = self.query(lane);
                            out.store(row * row_width + column + d, means, count);
                        }
                    }
                }
            }
        }
    }
}
