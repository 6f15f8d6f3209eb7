//! Running estimate of the time that a part of a model takes in a forward pass, from its rows and its pairs of a query and a key.

use super::work::Work;
use std::time::Duration;

/// Compute time after which a measurement counts a third (1/e) of what it did.
const MEMORY: f64 = 5e9;

/// Time of a row, in nanoseconds, before anything was measured.
const FIRST_GUESS: f64 = 1e6;

/// A pass that takes longer than so many times its estimate is a surprise and counts as this: it was the machine that stood still.
/// Where the next one is a surprise too, the machine has become slower.
const MAX_SURPRISE: f64 = 8.0;

/// Least estimate of a pass, in nanoseconds, of which a multiple is a surprise.
const MIN_TIME: f64 = 1e6;

/// Time of a row and of a pair of a query and a key, in nanoseconds; neither is negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) per_row: f64,
    pub(crate) per_pair: f64,
}

impl Cost {
    pub(crate) fn time(self, Work { rows, pairs }: Work) -> f64 {
        self.per_row * rows as f64 + self.per_pair * pairs as f64
    }
}

/// Least-squares fit of `time = per_row * rows + per_pair * pairs` over the passes of the last seconds of computing. The
/// errors of long passes weigh most, because bounds are about those.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostModel {
    rows_rows: f64,
    rows_pairs: f64,
    pairs_pairs: f64,
    rows_time: f64,
    pairs_time: f64,
    surprises: Surprises,
}

/// Surprises in a row.
#[derive(Debug, Clone, Copy)]
struct Surprises {
    /// As many as the machine's standing still once can cause: one in each replica.
    of_a_pause: usize,
    count: usize,
    /// Least ratio of their times to the estimates.
    least: f64,
}

impl Surprises {
    fn none(of_a_pause: usize) -> Self {
        Self { of_a_pause, count: 0, least: f64::INFINITY }
    }
}

impl CostModel {
    /// The first guess, which any measurement outweighs. Passes run on so many replicas of a backend.
    pub(crate) fn new(replicas: usize) -> Self {
        let rows_rows = 1e-3;
        Self {
            rows_rows,
            rows_pairs: 0.0,
            pairs_pairs: 0.0,
            rows_time: rows_rows * FIRST_GUESS,
            pairs_time: 0.0,
            surprises: Surprises::none(replicas),
        }
    }

    /// A pass took `time` for its work.
    pub(crate) fn observe(&mut self, work: Work, time: Duration) {
        let Some(time) = self.counted_time(work, time.as_nanos() as f64) else { return };
        let (rows, pairs) = (work.rows as f64, work.pairs as f64);
        let kept = (-time / MEMORY).exp();
        let Self { rows_rows, rows_pairs, pairs_pairs, rows_time, pairs_time, surprises: _ } = self;
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

    /// The time with which a pass counts; `None` where a pause counts already. After more surprises in a row than one pause causes, what
    /// was measured before counts as if it had taken longer by the least of them. Passes that are too short for a surprise say nothing.
    fn counted_time(&mut self, work: Work, time: f64) -> Option<f64> {
        if !self.is_measured() {
            return Some(time);
        }
        let estimate = self.cost().time(work);
        let most = MAX_SURPRISE * estimate.max(MIN_TIME);
        if estimate < MIN_TIME {
            return Some(time.min(most));
        }
        let Surprises { of_a_pause, count, least } = self.surprises;
        if time <= most {
            self.surprises = Surprises::none(of_a_pause);
            return Some(time);
        }
        let (count, least) = (count + 1, least.min(time / estimate));
        if count > of_a_pause {
            self.rows_time *= least;
            self.pairs_time *= least;
            self.surprises = Surprises::none(of_a_pause);
            return Some(time.min(most * least));
        }
        self.surprises = Surprises { of_a_pause, count, least };
        (count == 1).then_some(most)
    }

    /// True once the first guess does not matter any more.
    fn is_measured(&self) -> bool {
        self.rows_rows >= 1.0
    }

    /// The estimate.
    pub(crate) fn cost(&self) -> Cost {
        let &Self { rows_rows, rows_pairs, pairs_pairs, rows_time, pairs_time, surprises: _ } = self;
        let determinant = rows_rows * pairs_pairs - rows_pairs * rows_pairs;
        let per_pair = (pairs_time * rows_rows - rows_time * rows_pairs) / determinant;
        // Passes of one shape do not tell rows and pairs apart: then all is put down to the rows.
        let is_clear = determinant > 1e-6 * rows_rows * pairs_pairs;
        let per_pair = if is_clear { per_pair.max(0.0) } else { 0.0 };
        let per_row = (rows_time - per_pair * rows_pairs) / rows_rows;
        match per_row < 0.0 {
            true => Cost { per_row: 0.0, per_pair: pairs_time / pairs_pairs },
            false => Cost { per_row, per_pair },
        }
    }
}

#[cfg(test)]
#[path = "tests/cost_model.rs"]
mod tests;
