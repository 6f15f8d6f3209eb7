//! Running estimate of the time that a forward pass takes, from its rows and its pairs of a query and a key.

use std::time::Duration;

/// Compute time after which a measurement counts a third (1/e) of what it did.
const MEMORY: f64 = 5e9;

/// Time of a row, in nanoseconds, before anything was measured.
const FIRST_GUESS: f64 = 1e6;

/// A pass that takes longer than so many times its estimate counts as this: it was the machine that stood still.
const MAX_SURPRISE: f64 = 8.0;

/// Least estimate of a pass, in nanoseconds, of which a multiple is a surprise.
const MIN_TIME: f64 = 1e6;

/// Least-squares fit of `time = per_row * rows + per_pair * pairs` over the passes of the last seconds of computing. The
/// errors of long passes weigh most, because bounds are about those.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CostModel {
    rows_rows: f64,
    rows_pairs: f64,
    pairs_pairs: f64,
    rows_time: f64,
    pairs_time: f64,
}

impl Default for CostModel {
    /// The first guess, which any measurement outweighs.
    fn default() -> Self {
        Self { rows_rows: 1e-3, rows_pairs: 0.0, pairs_pairs: 0.0, rows_time: 1e-3 * FIRST_GUESS, pairs_time: 0.0 }
    }
}

impl CostModel {
    /// A pass over `rows` rows, with `pairs` pairs of a query and a key in a layer of full attention, took `time`.
    pub(crate) fn observe(&mut self, rows: usize, pairs: u64, time: Duration) {
        let (rows, pairs, mut time) = (rows as f64, pairs as f64, time.as_nanos() as f64);
        if self.is_measured() {
            let (per_row, per_pair) = self.costs();
            time = time.min(MAX_SURPRISE * (per_row * rows + per_pair * pairs).max(MIN_TIME));
        }
        let kept = (-time / MEMORY).exp();
        let Self { rows_rows, rows_pairs, pairs_pairs, rows_time, pairs_time } = self;
        for (sum, term) in [
            (rows_rows, rows * rows),
            (rows_pairs, rows * pairs),
            (pairs_pairs, pairs * pairs),
            (rows_time, rows * time),
            (pairs_time, pairs * time),
        ] {
            *sum = *sum * kept + term;
        }
    }

    /// True once the first guess does not matter any more.
    fn is_measured(&self) -> bool {
        self.rows_rows >= 1.0
    }

    /// Bound on the time of a batch by this estimate.
    pub(crate) fn bound(&self, limit: Duration) -> TimeBound {
        let (per_row, per_pair) = self.costs();
        TimeBound { limit: limit.as_nanos() as f64, per_row, per_pair }
    }

    /// Nanoseconds of a row and of a pair; neither is negative.
    fn costs(&self) -> (f64, f64) {
        let &Self { rows_rows, rows_pairs, pairs_pairs, rows_time, pairs_time } = self;
        let determinant = rows_rows * pairs_pairs - rows_pairs * rows_pairs;
        let per_pair = (pairs_time * rows_rows - rows_time * rows_pairs) / determinant;
        // Passes of one shape do not tell rows and pairs apart: then all is put down to the rows.
        let is_clear = determinant > 1e-6 * rows_rows * pairs_pairs;
        let per_pair = if is_clear { per_pair.max(0.0) } else { 0.0 };
        let per_row = (rows_time - per_pair * rows_pairs) / rows_rows;
        if per_row < 0.0 { (0.0, pairs_time / pairs_pairs) } else { (per_row, per_pair) }
    }
}

/// Work of a pass, or of a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Work {
    pub(crate) rows: usize,
    /// Pairs of a query and a key, in a layer of full attention.
    pub(crate) pairs: u64,
}

/// Bound on the time of a batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TimeBound {
    /// Nanoseconds, as the others.
    limit: f64,
    per_row: f64,
    per_pair: f64,
}

impl TimeBound {
    /// Rows without pairs that could join a pass together with `shared`, which it has already.
    pub(crate) fn room(&self, taken: Work, shared: Work) -> usize {
        ((self.most(shared) - self.time(taken)) / self.per_row).max(0.0) as usize
    }

    /// True if a pass, of which its last sequence shares `shared` with the others, is within the bound.
    pub(crate) fn allows(&self, pass: Work, shared: Work) -> bool {
        self.time(pass) <= self.most(shared)
    }

    /// The bound, and on top of it the time of what is shared: the next batch would compute that again. Where it alone takes longer
    /// than the bound, it counts in its place: so at most half of the time goes to what was computed before.
    fn most(&self, shared: Work) -> f64 {
        let shared = self.time(shared);
        self.limit.max(shared) + shared
    }

    fn time(&self, Work { rows, pairs }: Work) -> f64 {
        self.per_row * rows as f64 + self.per_pair * pairs as f64
    }
}

#[cfg(test)]
#[path = "tests/cost_model.rs"]
mod tests;
