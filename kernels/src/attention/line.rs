//! Online softmax of one line of queries, updated with each tile of keys.

use super::products::{Factors, Products, WeighedValues, WeightedSums, line_vector};
use crate::runtime::scratch::as_f32;
use crate::simd::{Vector, exp};
use std::ops::Range;

/// Maximum of a query that has seen no key. A masked key has the score -infinity.
pub(super) const NO_MAXIMUM: f32 = f32::MIN;

/// The queries of a register block's width and their state, and the tile of keys and values.
pub(super) struct Line<'a> {
    pub(super) dim: usize,
    /// Stride of the lines in lanes.
    pub(super) width: usize,
    /// Vectors that have queries; lanes beyond them are neither read nor written.
    pub(super) vectors: usize,
    /// `[row words, width]`
    pub(super) queries: &'a [u32],
    /// `[keys, row words]`
    pub(super) keys: &'a [u32],
    /// As the product reads them.
    pub(super) values: &'a [u32],
    /// `[keys, width]` scores, then their exponentials as words.
    pub(super) scores: &'a mut [u32],
    /// `[head_dim, width]`
    pub(super) sums: &'a mut [f32],
    /// Per lane: its position, the last visible position, the last position before the visible ones, the maximum score,
    /// and the sum of exponentials.
    pub(super) positions: &'a mut [f32],
    pub(super) last_visible: &'a [f32],
    pub(super) before_window: &'a [f32],
    pub(super) maxima: &'a mut [f32],
    pub(super) totals: &'a mut [f32],
    /// Per lane: the factor that rescales the sums so far to a new maximum.
    pub(super) factors: &'a mut [f32],
}

impl Line<'_> {
    /// Computes the scores of the first `count` keys.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn score<P: Products>(&mut self, products: &mut P, count: usize) {
        let factors = Factors {
            keys: self.keys,
            queries: self.queries,
            row_words: P::row_words(self.dim),
            vectors: self.vectors,
        };
        // SAFETY: the caller's duty.
        unsafe { products.score(factors, count, self.scores) }
    }

    /// Adds the bias of each query-key pair.
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

    /// Sets the scores of masked keys to -infinity.
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

    /// Turns scores into exponentials, as words of `P`, and updates maxima, totals and rescaling factors.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn softmax<P: Products>(&mut self, count: usize) {
        if !count.is_multiple_of(2) {
            self.scores[count * self.width..][..self.width].fill(f32::NEG_INFINITY.to_bits());
        }
        for first in (0..self.vectors).step_by(2) {
            // SAFETY: the caller's duty.
            unsafe {
                if first + 1 < self.vectors {
                    self.softmax_of::<P, 2>(first, count.div_ceil(2));
                } else {
                    self.softmax_of::<P, 1>(first, count.div_ceil(2));
                }
            }
        }
    }

    /// [`softmax`](Self::softmax) of `C` vectors from `first` on and of `pairs` of keys. Even and odd keys have separate maxima and
    /// sums, so that an addition need not wait for the previous one.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn softmax_of<P: Products, const C: usize>(&mut self, first: usize, pairs: usize) {
        let lanes = first * P::V::LANES..(first + C) * P::V::LANES;
        let scores = as_f32(&mut self.scores[..2 * pairs * self.width]).as_mut_ptr();
        let maxima = self.maxima[lanes.clone()].as_mut_ptr();
        let totals = self.totals[lanes.clone()].as_mut_ptr();
        let factors = self.factors[lanes].as_mut_ptr();
        // SAFETY: the instructions are the caller's duty. Vectors are within a line; a word is written after the scores at its
        // place were read.
        unsafe {
            let mut max = [[P::V::set1(NO_MAXIMUM); C]; 2];
            for c in 0..C {
                max[0][c] = P::V::loadu(maxima.add(c * P::V::LANES));
            }
            for key in 0..2 * pairs {
                for c in 0..C {
                    // A NaN score leaves the maximum unchanged, and makes the total NaN below.
                    let max = &mut max[key % 2][c];
                    *max = P::V::loadu(line_vector::<P>(scores, key, first + c)).max(*max);
                }
            }
            let [mut max, odd] = max;
            let mut sums = [[P::V::set1(0.0); C]; 2];
            for c in 0..C {
                let before = P::V::loadu(maxima.add(c * P::V::LANES));
                max[c] = max[c].max(odd[c]);
                max[c].storeu(maxima.add(c * P::V::LANES));
                let factor = exp(before.sub(max[c]));
                factor.storeu(factors.add(c * P::V::LANES));
                sums[0][c] = P::V::loadu(totals.add(c * P::V::LANES)).mul(factor);
            }
            for pair in 0..pairs {
                for c in 0..C {
                    let low = P::exp(P::V::loadu(line_vector::<P>(scores, 2 * pair, first + c)).sub(max[c]));
                    let high = P::exp(P::V::loadu(line_vector::<P>(scores, 2 * pair + 1, first + c)).sub(max[c]));
                    sums[0][c] = sums[0][c].add(low);
                    sums[1][c] = sums[1][c].add(high);
                    if P::ELEMENTS == 2 {
                        P::V::pack_bf16(low, high).storeu(line_vector::<P>(scores, pair, first + c));
                    } else {
                        P::round(low).storeu(line_vector::<P>(scores, 2 * pair, first + c));
                        P::round(high).storeu(line_vector::<P>(scores, 2 * pair + 1, first + c));
                    }
                }
            }
            for c in 0..C {
                sums[0][c].add(sums[1][c]).storeu(totals.add(c * P::V::LANES));
            }
        }
    }

    /// Adds the weighted values to the sums of all lanes, or only of the lanes at one position.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn weigh<P: Products>(&mut self, products: &mut P, count: usize, only: Option<usize>) {
        let sums = WeightedSums {
            to: self.sums.as_mut_ptr(),
            factors: self.factors.as_mut_ptr(),
            positions: self.positions.as_mut_ptr(),
            only,
        };
        let factors = WeighedValues { values: self.values, weights: self.scores, dim: self.dim, vectors: self.vectors };
        // SAFETY: the instructions are the caller's duty; the sums have `dim` lines, factors and positions have one.
        unsafe { products.weigh(factors, count, sums) }
    }
}
