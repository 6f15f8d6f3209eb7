//! Distribution of lengths.

use serde::Serialize;

/// Exact count per length; memory grows with the longest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lengths {
    counts: Vec<usize>,
    total: usize,
    sum: usize,
}

/// Quantiles of lengths in tokens (nearest rank).
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) mean: f64,
    pub(crate) p10: usize,
    pub(crate) p25: usize,
    pub(crate) p50: usize,
    pub(crate) p75: usize,
    pub(crate) p90: usize,
    pub(crate) p99: usize,
    pub(crate) max: usize,
}

/// Number of lengths between `from` and `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Bucket {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) texts: usize,
}

impl Lengths {
    pub(crate) fn count(&mut self, len: usize) {
        if self.counts.len() <= len {
            self.counts.resize(len + 1, 0);
        }
        self.counts[len] += 1;
        self.total += 1;
        self.sum += len;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, other)| *count += other);
        self.total += other.total;
        self.sum += other.sum;
    }

    /// Resets the counts and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts.fill(0);
        (self.total, self.sum) = (0, 0);
    }

    /// Number of lengths.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Sum of all lengths.
    pub(crate) fn sum(&self) -> usize {
        self.sum
    }

    pub(crate) fn quantiles(&self) -> Quantiles {
        let rank = |percent: usize| (self.total * percent).div_ceil(100).max(1);
        let at = |percent: usize| {
            let mut seen = 0;
            let reached = |count: &usize| {
                seen += count;
                seen >= rank(percent)
            };
            self.counts.iter().position(reached).unwrap_or(0)
        };
        let mean = if self.total == 0 { 0.0 } else { self.sum as f64 / self.total as f64 };
        let [p10, p25, p50, p75, p90, p99, max] = [10, 25, 50, 75, 90, 99, 100].map(at);
        Quantiles { mean, p10, p25, p50, p75, p90, p99, max }
    }

    /// Histogram with the buckets 0, 1, 2 to 3, 4 to 7 and so on, up to the longest.
    pub(crate) fn buckets(&self) -> Vec<Bucket> {
        let longest = self.counts.iter().rposition(|&count| count > 0).unwrap_or(0);
        let bounds = std::iter::once((0, 0)).chain((0..usize::BITS).map(|bit| (1 << bit, (1 << bit) * 2 - 1)));
        let within = |from: usize, to: usize| self.counts.iter().skip(from).take(to - from + 1).sum();
        bounds
            .take_while(|&(from, _)| from <= longest)
            .map(|(from, to)| Bucket { from, to, texts: within(from, to) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_list() {
        let mut lengths = Lengths::default();
        [5, 1, 9, 0, 5, 5, 2, 7, 3, 40].into_iter().for_each(|len| lengths.count(len));
        let expected = Quantiles { mean: 7.7, p10: 0, p25: 2, p50: 5, p75: 7, p90: 9, p99: 40, max: 40 };
        assert_eq!(lengths.quantiles(), expected);
        let buckets: Vec<_> = lengths.buckets().iter().map(|bucket| (bucket.from, bucket.to, bucket.texts)).collect();
        assert_eq!(buckets, [(0, 0, 1), (1, 1, 1), (2, 3, 2), (4, 7, 4), (8, 15, 1), (16, 31, 0), (32, 63, 1)]);
        let mut twice = lengths.clone();
        twice.add(&lengths);
        assert_eq!((twice.total(), twice.sum(), twice.quantiles()), (20, 154, expected));
        twice.clear();
        assert_eq!((twice.total(), twice.quantiles()), (0, Quantiles::default()));
    }
}
