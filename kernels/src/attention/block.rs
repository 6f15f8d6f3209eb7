//! Online softmax of a block of queries, updated with each tile of keys.
//!
//! A block's exponentials are computed in pieces, while tiles multiply the next block's queries, and the next block's maxima while tiles
//! multiply this block's exponentials.

use super::item::KEYS;
use super::products::{BLOCK, Before, Panels, Products, Rows, Sums};
use crate::runtime::scratch::as_f32;
use crate::simd::{MAX_LANES, Vector, exp, tanh};
use crate::tiles::Between;
use std::marker::PhantomData;
use std::ops::Range;

/// Maximum of a query that has seen no key: about the smallest f32 that is still finite times `log2(e)`, as [`Products::exp`] needs it. A
/// masked key has the score -infinity.
pub(super) const NO_MAXIMUM: f32 = f32::MIN * 0.69;

/// Up to [`BLOCK`] queries and their scores with a tile of keys.
pub(super) struct Block<'a> {
    /// First query, counted from the first of the item.
    pub(super) first: usize,
    /// Queries. Rows of the buffers from here on are arbitrary.
    pub(super) count: usize,
    /// Keys, from the first of the tile.
    pub(super) keys: usize,
    /// Initial values of the weighted sums.
    pub(super) start: Start,
    /// `[BLOCK, KEYS]` scores, then their exponentials as words.
    pub(super) scores: &'a mut [u32],
    /// `[BLOCK]`: the factors that rescale the sums so far to new maxima.
    pub(super) factors: &'a mut [f32],
}

/// Initial values of weighted sums.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Start {
    Zero,
    /// The sums so far, with the same maxima.
    Kept,
    /// The sums so far, times the factors.
    Rescaled,
}

impl<'a> Block<'a> {
    /// A block without queries, in memory of `BLOCK * (KEYS + 1)` words.
    #[inline(always)]
    pub(super) fn empty(words: &'a mut [u32]) -> Self {
        let (scores, factors) = words.split_at_mut(BLOCK * KEYS);
        Self { first: 0, count: 0, keys: 0, start: Start::Zero, scores, factors: as_f32(factors) }
    }

    /// The scores of a query; those after the keys are arbitrary.
    #[inline(always)]
    pub(super) fn scores_of(&mut self, query: usize) -> &mut [f32] {
        &mut as_f32(self.scores)[query * KEYS..][..KEYS]
    }

    /// Bounds the scores to `softcap * tanh(score / softcap)`; those after the keys, up to a whole vector, become arbitrary.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn cap<P: Products>(&mut self, softcap: f32) {
        for query in 0..self.count {
            let scores = self.scores_of(query).as_mut_ptr();
            // SAFETY: the instructions are the caller's duty. Vectors are within a line of scores.
            unsafe {
                let (bound, inverse) = (P::V::set1(softcap), P::V::set1(1.0 / softcap));
                for first in (0..self.keys).step_by(P::V::LANES) {
                    let score = P::V::loadu(scores.add(first));
                    tanh(score.mul(inverse)).mul(bound).storeu(scores.add(first));
                }
            }
        }
    }

    /// Computes the scores of queries, `[BLOCK, row words]`, with packed keys.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn score<P: Products>(
        &mut self,
        products: &mut P,
        queries: &[u32],
        keys: &[u32],
        between: &mut impl Between,
    ) {
        let len = queries.len() / BLOCK;
        let panels = Panels { words: keys, stride: len * P::WIDTH, columns: self.keys };
        let rows = Rows { words: queries, stride: len, count: self.count, len };
        // SAFETY: the caller's duty; `scores` has a line for each row of a block.
        unsafe { products.multiply_panels(rows, panels, Sums::new(as_f32(self.scores), KEYS), between) };
    }

    /// Adds packed values of `dim` columns, weighted by the exponentials, to the sums, `[BLOCK, stride]`.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn weigh<P: Products>(
        &self,
        products: &mut P,
        (values, dim): (&[u32], usize),
        (sums, stride): (&mut [f32], usize),
        between: &mut impl Between,
    ) {
        let len = self.keys.div_ceil(P::ELEMENTS).next_multiple_of(P::STEP);
        let rows = Rows { words: self.scores, stride: KEYS, count: self.count, len };
        let panels = Panels { words: values, stride: KEYS / P::ELEMENTS * P::WIDTH, columns: dim };
        let before = match self.start {
            Start::Zero => Before::Zero,
            Start::Kept => Before::Kept,
            Start::Rescaled => Before::Rescaled(self.factors),
        };
        // SAFETY: the caller's duty; `sums` has a line for each row of a block.
        unsafe { products.multiply_panels(rows, panels, Sums { before, ..Sums::new(sums, stride) }, between) };
    }
}

/// Counts the queries of a block that are done.
pub(super) struct Progress {
    next: usize,
    /// Queries of a piece.
    piece: usize,
}

impl Progress {
    /// Nothing done, and as many queries in a piece that `pieces` do `count` queries.
    #[inline(always)]
    pub(super) fn new(count: usize, pieces: usize) -> Self {
        Self { next: 0, piece: count.div_ceil(pieces.max(1)) }
    }

    /// The next piece of `count` queries, of `at_least` queries.
    #[inline(always)]
    fn take(&mut self, count: usize, at_least: usize) -> Range<usize> {
        let start = self.next.min(count);
        self.next = count.min(start + self.piece.max(at_least));
        start..self.next
    }
}

/// Maxima of a block's queries, raised to the scores with the tile.
pub(super) struct Maxima<'a, 'b, P> {
    pub(super) block: &'a mut Block<'b>,
    /// Maximum score of each query of the block.
    pub(super) maxima: &'a mut [f32],
    pub(super) progress: Progress,
    pub(super) products: PhantomData<P>,
}

impl<P: Products> Between for Maxima<'_, '_, P> {
    #[inline(always)]
    unsafe fn piece(&mut self) {
        // SAFETY: the caller's duty.
        unsafe { self.some(1) };
    }
}

impl<P: Products> Maxima<'_, '_, P> {
    /// Updates maxima and factors of the next `at_least` queries. Scores after the keys, up to a whole vector, must be -infinity.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn some(&mut self, at_least: usize) {
        let queries = self.progress.take(self.block.count, at_least.max(P::V::LANES).next_multiple_of(P::V::LANES));
        for first in queries.clone().step_by(P::V::LANES) {
            // SAFETY: the caller's duty.
            unsafe { self.raise(first..queries.end.min(first + P::V::LANES)) };
        }
    }

    /// Updates the maxima and factors of up to a vector of queries, and whether sums so far need to be rescaled.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn raise(&mut self, queries: Range<usize>) {
        let (first, vectors) = (queries.start, self.block.keys.div_ceil(P::V::LANES));
        // SAFETY: the instructions are the caller's duty. Vectors are within a line of scores; maxima and factors have a whole number
        // of vectors.
        unsafe {
            let mut square = [P::V::set1(NO_MAXIMUM); MAX_LANES];
            for (query, max) in queries.zip(&mut square) {
                let scores = self.block.scores_of(query).as_ptr();
                for c in 0..vectors {
                    // A NaN score leaves the maximum unchanged, and makes the total NaN.
                    *max = P::V::loadu(scores.add(c * P::V::LANES)).max(*max);
                }
            }
            P::V::transpose(&mut square);
            let before = P::V::loadu(self.maxima[first..][..P::V::LANES].as_ptr());
            let mut max = before;
            for &other in &square[..P::V::LANES] {
                max = other.max(max);
            }
            max.storeu(self.maxima[first..][..P::V::LANES].as_mut_ptr());
            let factors = &mut self.block.factors[first..][..P::V::LANES];
            exp(before.sub(max)).storeu(factors.as_mut_ptr());
            if self.block.start == Start::Kept && factors.iter().any(|&factor| factor != 1.0) {
                self.block.start = Start::Rescaled;
            }
        }
    }
}

/// Exponentials of a block's scores, which replace them as words of a product.
pub(super) struct Exponentials<'a, 'b, P> {
    pub(super) block: &'a mut Block<'b>,
    /// Maximum score of each query of the block.
    pub(super) maxima: &'a [f32],
    /// Sums of exponentials of each query, a vector of partial sums.
    pub(super) totals: &'a mut [[f32; MAX_LANES]],
    pub(super) progress: Progress,
    pub(super) products: PhantomData<P>,
}

impl<P: Products> Between for Exponentials<'_, '_, P> {
    #[inline(always)]
    unsafe fn piece(&mut self) {
        // SAFETY: the caller's duty.
        unsafe { self.some(1) };
    }
}

impl<P: Products> Exponentials<'_, '_, P> {
    /// Computes the exponentials of the next `at_least` queries, and adds them to the totals.
    ///
    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    pub(super) unsafe fn some(&mut self, at_least: usize) {
        let vectors = self.block.keys.div_ceil(P::V::LANES);
        let words = vectors * P::V::LANES / P::ELEMENTS;
        for query in self.progress.take(self.block.count, at_least) {
            // SAFETY: the caller's duty.
            unsafe { self.of_query(query, vectors) };
            if !words.is_multiple_of(P::STEP) {
                self.block.scores[query * KEYS..][words..words.next_multiple_of(P::STEP)].fill(0);
            }
        }
    }

    /// # Safety
    /// The CPU has the instructions of `P`.
    #[inline(always)]
    unsafe fn of_query(&mut self, query: usize, vectors: usize) {
        let scores = self.block.scores_of(query).as_mut_ptr();
        // SAFETY: the instructions are the caller's duty. Vectors are within a line of scores; words are written after the scores at
        // their place were read.
        unsafe {
            let (max, factor) = (P::V::set1(self.maxima[query]), P::V::set1(self.block.factors[query]));
            let total = self.totals[query].as_mut_ptr();
            let mut sum = P::V::loadu(total).mul(factor);
            for first in (0..vectors * P::V::LANES).step_by(P::V::LANES) {
                let weights = P::exp(P::V::loadu(scores.add(first)), max);
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
}
