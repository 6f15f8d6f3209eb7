//! Online softmax of a block of queries, updated with each tile of keys.

use super::item::KEYS;
use super::products::{Before, Panels, Products, Rows, Sums};
use crate::runtime::scratch::as_f32;
use crate::simd::{MAX_LANES, Vector, exp};
use std::ops::Range;

/// Maximum of a query that has seen no key. A masked key has the score -infinity.
pub(super) const NO_MAXIMUM: f32 = f32::MIN;

/// Up to [`BLOCK`](super::products::BLOCK) queries and their state, and a tile of keys and values.
pub(super) struct Block<'a> {
    /// Queries.
    pub(super) count: usize,
    pub(super) dim: usize,
    /// `[BLOCK, row words]`; rows from `count` on are arbitrary, here and below.
    pub(super) queries: &'a [u32],
    /// Keys in panels, `[KEYS / WIDTH, row words, WIDTH]`.
    pub(super) keys: &'a [u32],
    /// Values in panels, `[dim / WIDTH, KEYS / ELEMENTS, WIDTH]`.
    pub(super) values: &'a [u32],
    /// `[BLOCK, KEYS]` scores, then their exponentials as words.
    pub(super) scores: &'a mut [u32],
    /// `[BLOCK, sum_stride]`
    pub(super) sums: &'a mut [f32],
    pub(super) sum_stride: usize,
    /// Maximum score of each query.
    pub(super) maxima: &'a mut [f32],
    /// Sums of exponentials of each query, a vector of partial sums.
    pub(super) totals: &'a mut [[f32; MAX_LANES]],
    /// Factor of each query that rescales the sums so far to a new maximum.
    pub(super) factors: &'a mut [f32],
}

/// Initial values of weighted sums.
#[derive(Clone, Copy)]
pub(super) enum Start {
    Zero,
    /// The sums so far, with the same maxima.
    Kept,
    /// The sums so far, times the factors.
    Rescaled,
}

impl Block<'_> {
    /// Computes the scores of the first `keys` keys.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn score<P: Products>(&mut self, products: &mut P, keys: usize) {
        let len = P::row_words(self.dim);
        let rows = Rows { words: self.queries, stride: len, count: self.count, len };
        let panels = Panels { words: self.keys, stride: len * P::WIDTH, columns: keys };
        // SAFETY: the caller's duty; `scores` has a line for each row of a block.
        unsafe { products.multiply_panels(rows, panels, Sums::new(as_f32(self.scores), KEYS)) };
    }

    /// The scores of a query.
    #[inline(always)]
    pub(super) fn scores_of(&mut self, query: usize) -> &mut [f32] {
        &mut as_f32(self.scores)[query * KEYS..][..KEYS]
    }

    /// Turns the scores of the first `keys` keys into exponentials, as words of `P`, and updates maxima, totals and factors. Scores after
    /// them, up to a whole vector, must be -infinity. Returns whether sums so far need to be rescaled.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn softmax<P: Products>(&mut self, keys: usize) -> bool {
        let vectors = keys.div_ceil(P::V::LANES);
        let words = vectors * P::V::LANES / P::ELEMENTS;
        let mut is_rescaled = false;
        for first in (0..self.count).step_by(P::V::LANES) {
            let queries = first..(first + P::V::LANES).min(self.count);
            // SAFETY: the caller's duty.
            unsafe {
                is_rescaled |= self.raise_maxima::<P>(queries.clone(), vectors);
                for query in queries {
                    self.exponentials::<P>(query, vectors);
                    if !words.is_multiple_of(P::STEP) {
                        self.scores[query * KEYS..][words..words.next_multiple_of(P::STEP)].fill(0);
                    }
                }
            }
        }
        is_rescaled
    }

    /// Updates the maxima and factors of up to a vector of queries. Returns whether a factor is not 1.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn raise_maxima<P: Products>(&mut self, queries: Range<usize>, vectors: usize) -> bool {
        let first = queries.start;
        // SAFETY: the instructions are the caller's duty. Vectors are within a line of scores; maxima and factors have a whole number
        // of vectors.
        unsafe {
            let mut square = [P::V::set1(NO_MAXIMUM); MAX_LANES];
            for (query, max) in queries.zip(&mut square) {
                let scores = self.scores_of(query).as_ptr();
                for c in 0..vectors {
                    // A NaN score leaves the maximum unchanged, and makes the total NaN.
                    *max = P::V::loadu(scores.add(c * P::V::LANES)).max(*max);
                }
            }
            P::V::transpose(&mut square);
            let before = P::V::loadu(self.maxima[first..][..P::V::LANES].as_ptr());
            let max = square[..P::V::LANES].iter().fold(before, |max, &other| other.max(max));
            max.storeu(self.maxima[first..][..P::V::LANES].as_mut_ptr());
            exp(before.sub(max)).storeu(self.factors[first..][..P::V::LANES].as_mut_ptr());
            self.factors[first..][..P::V::LANES].iter().any(|&factor| factor != 1.0)
        }
    }

    /// Turns the scores of a query into exponentials, and adds them to its total.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn exponentials<P: Products>(&mut self, query: usize, vectors: usize) {
        let scores = self.scores_of(query).as_mut_ptr();
        // SAFETY: the instructions are the caller's duty. Vectors are within a line of scores; words are written after the scores at
        // their place were read.
        unsafe {
            let (max, factor) = (P::V::set1(self.maxima[query]), P::V::set1(self.factors[query]));
            let total = self.totals[query].as_mut_ptr();
            let mut sum = P::V::loadu(total).mul(factor);
            for first in (0..vectors * P::V::LANES).step_by(P::V::LANES) {
                let weights = P::exp(P::V::loadu(scores.add(first)).sub(max));
                sum = sum.add(weights);
                if P::ELEMENTS == 2 {
                    weights.storeu_bf16(scores.cast::<half::bf16>().add(first));
                } else {
                    P::round(weights).storeu(scores.add(first));
                }
            }
            sum.storeu(total);
        }
    }

    /// Adds the weighted values of the first `keys` keys to the sums, which begin with `before`.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn weigh<P: Products>(&mut self, products: &mut P, keys: usize, before: Start) {
        let len = keys.div_ceil(P::ELEMENTS).next_multiple_of(P::STEP);
        let rows = Rows { words: self.scores, stride: KEYS, count: self.count, len };
        let before = match before {
            Start::Zero => Before::Zero,
            Start::Kept => Before::Kept,
            Start::Rescaled => Before::Rescaled(self.factors),
        };
        let panels = Panels { words: self.values, stride: KEYS / P::ELEMENTS * P::WIDTH, columns: self.dim };
        let sums = Sums { before, ..Sums::new(self.sums, self.sum_stride) };
        // SAFETY: the caller's duty; `sums` has a line for each row of a block.
        unsafe { products.multiply_panels(rows, panels, sums) };
    }
}
