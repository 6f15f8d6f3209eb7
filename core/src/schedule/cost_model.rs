//! Running estimate of the time that a sub-model takes in a forward pass, from its rows and query-key pairs.

use super::work::Work;
use std::time::Duration;

/// Compute time in nanoseconds after which the weight of a measurement has fallen to 1/e.
const MEMORY: f64 = 5e9;

/// Time of a row, in nanoseconds, before the first measurement.
const FIRST_GUESS: f64 = 1e6;

/// Maximum ratio of a pass's time to its estimate. A longer pass is a *surprise* and counts with this ratio, because the machine probably
/// paused. If the next pass is a surprise too, the machine has become slower.
const MAX_SURPRISE: f64 = 8.0;

/// Minimum estimate, in nanoseconds, of a pass that can be a surprise.
const MIN_TIME: f64 = 1e6;

/// Time of a row and of a query-key pair, in nanoseconds; neither is negative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cost {
    pub(crate) per_row: f64,
    pub(crate) per_pair: f64,
}

impl Cost {
    /// Estimated time of some work, in nanoseconds.
    pub(crate) fn time(self, Work { rows, pairs }: Work) -> f64 {
        self.per_row * rows as f64 + self.per_pair * pairs as f64
    }
}

/// Least-squares fit of `time = per_row * rows + per_pair * pairs` over recent passes; long ones weigh most, because the bounds concern them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CostModel {
    rows_rows: f64,
    rows_pairs: f64,
    pairs_pairs: f64,
    rows_time: f64,
    pairs_time: f64,
    surprises: Surprises,
}

/// Consecutive surprises.
#[derive(Debug, Clone, Copy)]
struct Surprises {
    /// Number that a single pause of the machine can cause: one per replica.
    of_a_pause: usize,
    count: usize,
    /// Least ratio of their times to their estimates.
    least: f64,
}

impl Surprises {
    fn none(of_a_pause: usize) -> Self {
        Self { of_a_pause, count: 0, least: f64::INFINITY }
    }
}

impl CostModel {
    /// A first guess, which any measurement outweighs, for passes that run on `replicas` replicas of a backend.
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

    /// Records that a pass took `time` for its work.
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

    /// Time with which a pass counts; `None` if its pause is counted already. After more consecutive surprises than one pause causes,
    /// earlier measurements are scaled by the least ratio. Passes too short to be a surprise neither add to the surprises nor end them.
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

    /// True once the first guess no longer matters.
    fn is_measured(&self) -> bool {
        self.rows_rows >= 1.0
    }

    /// The estimate.
    pub(crate) fn cost(&self) -> Cost {
        let &Self { rows_rows, rows_pairs, pairs_pairs, rows_time, pairs_time, surprises: _ } = self;
        let determinant = rows_rows * pairs_pairs - rows_pairs * rows_pairs;
        let per_pair = (pairs_time * rows_rows - rows_time * rows_pairs) / determinant;
        // Passes of a single shape cannot separate rows from pairs: then all time is attributed to rows.
        let is_clear = determinant > 1e-6 * rows_rows * pairs_pairs;
        let per_pair = if is_clear { per_pair.max(0.0) } else { 0.0 };
        let per_row = (rows_time - per_pair * rows_pairs) / rows_rows;
        if per_row < 0.0 {
            Cost { per_row: 0.0, per_pair: pairs_time / pairs_pairs }
        } else {
            Cost { per_row, per_pair }
        }
    }
}

#[cfg(test)]
#[path = "tests/cost_model.rs"]
mod tests;
