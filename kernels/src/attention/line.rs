//! The softmax of one line of queries over a tile of keys, kept up from tile to tile.

use super::products::{MAX_ROWS, Scores, WeightedSums, by_rows, line_vector};
use crate::scratch::as_f32;
use crate::simd::{FloatDot, RowTiles, RowWords, Vector, exp};
use std::ops::Range;

/// The queries of a register block's width and their state, and the tile of keys and values.
pub(super) struct Line<'a> {
    pub(super) dim: usize,
    /// Lanes from one line of numbers to the next.
    pub(super) width: usize,
    /// Vectors that have queries; what is in the lanes beyond them is neither read nor written.
    pub(super) vectors: usize,
    /// `[head_dim words, width]`
    pub(super) queries: &'a [u32],
    /// `[keys, head_dim words]`
    pub(super) keys: &'a [u32],
    /// `[words of keys, head_dim]`
    pub(super) values: &'a [u32],
    /// `[keys, width]` scores, then their exponentials as words.
    pub(super) scores: &'a mut [u32],
    /// `[head_dim, width]`
    pub(super) sums: &'a mut [f32],
    /// Per lane: its position, the last position that it sees and the last one before those, its maximum, the sum of its
    /// exponentials.
    pub(super) positions: &'a mut [f32],
    pub(super) last_visible: &'a [f32],
    pub(super) before_window: &'a [f32],
    pub(super) maxima: &'a mut [f32],
    pub(super) totals: &'a mut [f32],
    /// Per lane: the factor of the sums so far after a new maximum.
    pub(super) factors: &'a mut [f32],
}

impl Line<'_> {
    /// Computes the scores of the first `count` keys.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    pub(super) unsafe fn score<D: FloatDot>(&mut self, count: usize) {
        let words = self.dim.div_ceil(D::ELEMENTS);
        let queries = &self.queries[..words * self.width];
        let keys = &self.keys[..count * words];
        let scores = &mut self.scores[..count * self.width];
        let tiles = RowTiles::new(count, D::ROWS.min(MAX_ROWS));
        for tile in 0..tiles.count() {
            let rows = tiles.rows(tile);
            let a = RowWords { start: keys[rows.start * words..].as_ptr(), step: 1, row: words };
            let to = scores[rows.start * self.width..].as_mut_ptr().cast();
            // SAFETY: `a` has the words of its rows, `queries` a line for each word, `scores` one for each row.
            unsafe {
                by_rows::<D>((rows.len(), self.vectors), words, a, queries.as_ptr(), Scores(to));
            }
        }
    }

    /// Adds the biases of the lanes at each key.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn add_bias<'b, V: Vector>(&mut self, keys: &Range<usize>, bias: impl Fn(usize) -> &'b [f32]) {
        let scores = as_f32(&mut self.scores[..keys.len() * self.width]);
        for (key, scores) in keys.clone().zip(scores.chunks_exact_mut(self.width)) {
            let bias = &bias(key)[..scores.len()];
            for c in (0..self.vectors).map(|c| c * V::LANES) {
                // SAFETY: the instructions are the caller's duty; each vector is within a line.
                unsafe {
                    let score = V::loadu(scores[c..].as_ptr());
                    score.add(V::loadu(bias[c..].as_ptr())).storeu(scores[c..].as_mut_ptr());
                }
            }
        }
    }

    /// Gives the keys that a query does not see the score -infinity.
    ///
    /// # Safety
    /// The CPU has the instructions of `V`.
    #[inline(always)]
    pub(super) unsafe fn mask<V: Vector>(&mut self, keys: &Range<usize>) {
        let (last, before) = (self.last_visible, self.before_window);
        let scores = as_f32(&mut self.scores[..keys.len() * self.width]);
        // SAFETY: the instructions are the caller's duty; each vector is within a line.
        unsafe {
            let nothing = V::set1(f32::NEG_INFINITY);
            for c in (0..self.vectors).map(|c| c * V::LANES) {
                let (last, before) = (V::loadu(last[c..].as_ptr()), V::loadu(before[c..].as_ptr()));
                for (key, scores) in keys.clone().zip(scores.chunks_exact_mut(self.width)) {
                    let key = V::set1(key as f32);
                    let score = V::loadu(scores[c..].as_ptr());
                    let score = key.blend_le(last, score, nothing);
                    key.blend_le(before, nothing, score).storeu(scores[c..].as_mut_ptr());
                }
            }
        }
    }

    /// Turns scores into exponentials, as words of `D`, and brings maxima, totals and factors up to date.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    pub(super) unsafe fn softmax<D: FloatDot>(&mut self, count: usize) {
        let scores = as_f32(&mut self.scores[..(count.next_multiple_of(2)) * self.width]);
        let scores = scores.as_mut_ptr();
        for c in 0..self.vectors {
            let lanes = c * D::V::LANES;
            let maximum = self.maxima[lanes..lanes + D::V::LANES].as_mut_ptr();
            let total = self.totals[lanes..lanes + D::V::LANES].as_mut_ptr();
            let factor = self.factors[lanes..lanes + D::V::LANES].as_mut_ptr();
            // SAFETY: the instructions are the caller's duty. Reads and writes are within `count` lines of scores,
            // or one more if `count` is odd; word `i` is written after the scores that are at its place were read.
            unsafe {
                let before = D::V::loadu(maximum);
                let mut max = before;
                for key in 0..count {
                    // A score of NaN leaves the maximum, and makes the total NaN below.
                    max = D::V::loadu(line_vector::<D>(scores, key, c)).max(max);
                }
                max.storeu(maximum);
                let scale = exp(before.sub(max));
                scale.storeu(factor);
                let mut sum = D::V::loadu(total).mul(scale);
                for word in 0..count.div_ceil(D::ELEMENTS) {
                    let key = word * D::ELEMENTS;
                    let low = exp(D::V::loadu(line_vector::<D>(scores, key, c)).sub(max));
                    sum = sum.add(low);
                    let mut weights = D::round(low);
                    if D::ELEMENTS == 2 {
                        let mut high = D::V::set1(0.0);
                        if key + 1 < count {
                            high = exp(D::V::loadu(line_vector::<D>(scores, key + 1, c)).sub(max));
                            sum = sum.add(high);
                        }
                        weights = D::V::pack_bf16(low, high);
                    }
                    weights.storeu(line_vector::<D>(scores, word, c));
                }
                sum.storeu(total);
            }
        }
    }

    /// Adds the weighted values to the sums, or to those of the lanes at one position.
    ///
    /// # Safety
    /// The CPU has the instructions of `D`.
    #[inline(always)]
    pub(super) unsafe fn weigh<D: FloatDot>(&mut self, count: usize, only: Option<usize>) {
        let dim = self.dim;
        let steps = count.div_ceil(D::ELEMENTS);
        let values = &self.values[..steps * dim];
        let weights = &self.scores[..steps * self.width];
        let sums = &mut *self.sums;
        let positions = self.positions.as_mut_ptr();
        let factors = self.factors.as_mut_ptr();
        let tiles = RowTiles::new(dim, D::ROWS.min(MAX_ROWS));
        for tile in 0..tiles.count() {
            let rows = tiles.rows(tile);
            let a = RowWords { start: values[rows.start..].as_ptr(), step: dim, row: 1 };
            let to = sums[rows.start * self.width..].as_mut_ptr();
            // SAFETY: `a` has `steps` lines of `dim` words, `weights` as many of a line's width, `sums` a line for each
            // row; positions and factors have a line.
            unsafe {
                let sink = WeightedSums { to, factors, positions, only };
                by_rows::<D>((rows.len(), self.vectors), steps, a, weights.as_ptr(), sink);
            }
        }
    }
}
