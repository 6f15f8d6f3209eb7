//! Statistics over consecutive batches of one size.

use crate::flops::{Costs, Work};
use crate::lengths::{Lengths, Quantiles};
use prefold_core::PlanBuilder;
use serde::Serialize;

/// The server's default for `--radix-mlp-threshold`.
pub(crate) const DEFAULT_THRESHOLD: f64 = 0.95;

/// Sharing within batches of `texts` consecutive texts. Only full batches count.
#[derive(Debug)]
pub(crate) struct BatchSize<'a> {
    costs: &'a Costs,
    /// Texts per batch.
    pub(crate) texts: usize,
    pub(crate) batches: usize,
    /// Batches with N'/N at or under the server's default threshold.
    pub(crate) under_threshold: usize,
    pub(crate) work: Work,
    /// Per text: leading tokens shared with an earlier text of its batch.
    pub(crate) shared: Lengths,
    /// Plan of the batch being filled.
    builder: PlanBuilder,
    forming: Lengths,
    pairs: u64,
}

/// Report on batches of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct BatchSizeReport {
    /// Texts per batch.
    pub(crate) texts: usize,
    pub(crate) batches: usize,
    /// Mean of N.
    pub(crate) tokens_per_batch: f64,
    /// Mean of N'.
    pub(crate) unique_tokens_per_batch: f64,
    /// N'/N over all batches.
    pub(crate) compaction_ratio: f64,
    /// Fraction of the batches with N'/N at or under 0.95.
    pub(crate) batches_under_threshold: f64,
    /// Query-key pairs of the prefix trees over all pairs.
    pub(crate) attention_ratio: f64,
    /// Attention's fraction of the operations without compaction.
    pub(crate) attention_share: f64,
    pub(crate) speed_up_ragged: f64,
    pub(crate) speed_up_compact: f64,
    /// Leading tokens of a text shared with an earlier text of its batch.
    pub(crate) shared_prefix: Quantiles,
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

    /// The figures of the report; at least one batch is full.
    pub(crate) fn report(&self) -> BatchSizeReport {
        let work = self.work;
        let prediction = self.costs.predict(work);
        let per_batch = |count: u64| count as f64 / self.batches as f64;
        BatchSizeReport {
            texts: self.texts,
            batches: self.batches,
            tokens_per_batch: per_batch(work.rows),
            unique_tokens_per_batch: per_batch(work.unique_rows),
            compaction_ratio: work.unique_rows as f64 / work.rows as f64,
            batches_under_threshold: self.under_threshold as f64 / self.batches as f64,
            attention_ratio: work.unique_pairs as f64 / work.pairs as f64,
            attention_share: prediction.attention_share,
            speed_up_ragged: prediction.ragged,
            speed_up_compact: prediction.compact,
            shared_prefix: self.shared.quantiles(),
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
        // 1 2 3 | 4 5 | and 7 | 8 9 | 9 9; the last two texts do not fill a batch.
        assert_eq!((size.batches, size.under_threshold), (2, 2));
        // Pairs without sharing: 6 + 10 + 6 and 1 + 3 + 10; in the trees: 6 + 3 + 4 and 1 + 3 + 3 + 4.
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
