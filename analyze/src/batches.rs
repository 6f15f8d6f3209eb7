//! Batches of one size, one after another.

use crate::flops::{Costs, Work};
use crate::lengths::Lengths;
use prefold_core::PlanBuilder;

/// The server's default for `--radix-mlp-threshold`.
pub(crate) const DEFAULT_THRESHOLD: f64 = 0.95;

/// What batches of so many consecutive texts have in common. Only full batches count.
#[derive(Debug)]
pub(crate) struct BatchSize<'a> {
    costs: &'a Costs,
    /// In a batch.
    pub(crate) texts: usize,
    pub(crate) batches: usize,
    /// Batches with N'/N at or under the server's default threshold.
    pub(crate) under_threshold: usize,
    pub(crate) work: Work,
    /// Tokens of each text that an earlier one of its batch begins with too.
    pub(crate) shared: Lengths,
    /// Of the batch that is not full yet.
    builder: PlanBuilder,
    forming: Lengths,
    pairs: u64,
}

impl<'a> BatchSize<'a> {
    pub(crate) fn new(texts: usize, costs: &'a Costs) -> Self {
        Self {
            costs,
            texts,
            batches: 0,
            under_threshold: 0,
            work: Work::default(),
            shared: Lengths::default(),
            builder: PlanBuilder::default(),
            forming: Lengths::default(),
            pairs: 0,
        }
    }

    pub(crate) fn push(&mut self, input_ids: &[u32]) {
        let new_tokens = self.builder.push(input_ids);
        self.forming.count(input_ids.len() - new_tokens);
        self.pairs += self.costs.pairs(0, input_ids.len() as u64);
        if self.forming.total() == self.texts {
            self.close();
        }
    }

    fn close(&mut self) {
        let plan = self.builder.finish(1);
        let (rows, unique_rows) = (plan.total_tokens() as u64, plan.unique_tokens() as u64);
        let segments = plan.segments().iter();
        let unique_pairs: u64 =
            segments.map(|segment| self.costs.pairs(segment.depth.into(), segment.len.into())).sum();
        self.work.rows += rows;
        self.work.unique_rows += unique_rows;
        self.work.pairs += self.pairs;
        self.work.unique_pairs += unique_pairs;
        self.batches += 1;
        self.under_threshold += usize::from(unique_rows as f64 <= DEFAULT_THRESHOLD * rows as f64);
        self.shared.add(&self.forming);
        self.builder.recycle(plan);
        self.forming.clear();
        self.pairs = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefold_backends::ModelShape;

    fn costs() -> Costs {
        Costs::of(&ModelShape {
            hidden_size: 2,
            intermediate_size: 2,
            num_heads: 1,
            num_kv_heads: 1,
            head_dim: 2,
            sliding_windows: vec![None],
        })
    }

    #[test]
    fn two_batches_by_hand() {
        let costs = costs();
        let mut size = BatchSize::new(3, &costs);
        let texts: [&[u32]; 8] =
            [&[1, 2, 3], &[1, 2, 4, 5], &[1, 2, 4], &[7], &[8, 9], &[8, 9, 9, 9], &[1, 2, 3], &[1, 2, 3]];
        texts.iter().for_each(|ids| size.push(ids));
        // 1 2 3 | 4 5 | and 7 | 8 9 | 9 9; the last two texts make no batch.
        assert_eq!((size.batches, size.under_threshold), (2, 2));
        // Pairs: 6 + 10 + 6 and 1 + 3 + 10; of the trees: 6 + 3 + 4 and 1 + 3 + 3 + 4.
        assert_eq!(size.work, Work { rows: 17, unique_rows: 10, pairs: 36, unique_pairs: 24 });
        // 0, 2, 3 and 0, 0, 2.
        assert_eq!((size.shared.total(), size.shared.sum(), size.shared.quantiles().max), (6, 7, 3));
    }

    #[test]
    fn the_threshold_is_at_or_under() {
        let costs = costs();
        for (shared, under) in [(2, 1), (1, 0)] {
            let mut size = BatchSize::new(2, &costs);
            size.push(&(0..20).collect::<Vec<u32>>());
            size.push(&(0..20).map(|i| if i < shared { i } else { 100 + i }).collect::<Vec<u32>>());
            assert_eq!(size.under_threshold, under, "{} of 40", 40 - shared);
        }
    }
}
