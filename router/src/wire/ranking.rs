//! Order of scores, found one by one.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// Score with its index; the larger is better, the first among equals.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scored {
    score: f32,
    index: u32,
}

impl Eq for Scored {}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(Reverse(self.index).cmp(&Reverse(other.index)))
    }
}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Indices and scores, the best first, equal ones in their order. Construction takes a few nanoseconds per score; the
/// rest is sorted as it is read.
#[derive(Debug)]
pub(crate) struct Ranking(BinaryHeap<Scored>);

impl Ranking {
    pub(crate) fn of(scores: impl IntoIterator<Item = f32>) -> Self {
        Self((0..).zip(scores).map(|(index, score)| Scored { score, index }).collect::<Vec<_>>().into())
    }
}

impl Iterator for Ranking {
    type Item = (usize, f32);

    fn next(&mut self) -> Option<(usize, f32)> {
        self.0.pop().map(|Scored { score, index }| (index as usize, score))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_a_stable_sort() {
        for count in [0, 1, 2, 10, 1000] {
            let noise = |i: u32| (i.wrapping_mul(2_654_435_761) >> 28) as f32 - 8.0;
            let scores: Vec<f32> = (0..count).map(noise).chain([-0.0, 0.0, f32::MAX]).collect();
            let mut sorted: Vec<usize> = (0..scores.len()).collect();
            sorted.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]));
            let ranked: Vec<_> = Ranking::of(scores.iter().copied()).collect();
            assert_eq!(ranked, sorted.into_iter().map(|index| (index, scores[index])).collect::<Vec<_>>());
        }
    }
}
