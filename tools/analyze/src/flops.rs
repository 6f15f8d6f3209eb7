//! Operation counts of a decoder with and without compaction, and the speed-up by Amdahl's law.
//!
//! A multiplication and an addition count as two operations (FLOPs). With hidden size h, MLP width m, q query heads
//! and k key/value heads of width d, a layer performs
//!
//! ```text
//! for each row                     P = 2 (h q d  +  2 h k d  +  q d h  +  3 h m)
//!                                         Q          K and V    O         gate, up, down
//! for each query-key pair          A = 4 q d         (2 q d for the score, 2 q d for the weighted sum)
//! ```
//!
//! A text of n tokens has n (n + 1) / 2 pairs; with a sliding window of w, position p has min(p + 1, w) of them. A batch
//! has N rows and S pairs; its prefix tree has N' nodes and S' pairs: each node has one pair per token on its root path. Over
//! all L layers the work is
//!
//! ```text
//! not compacted                    P L N   +  A Σ S        Σ over the layers, whose windows may differ
//! compacted, ragged attention      P L N'  +  A Σ S
//! compacted, compact attention     P L N'  +  A Σ S'
//! ```
//!
//! With f = P L N / (P L N + A Σ S), the position-wise fraction of the work, and the ratios γ = N'/N and
//! σ = Σ S' / Σ S, Amdahl's law gives the speed-ups
//!
//! ```text
//! ragged   1 / (1 - f + f γ)            compact   1 / ((1 - f) σ + f γ)
//! ```
//!
//! The model omits small operations (norms, rotary embedding, activation, the head) and costs that are not arithmetic
//! (copies between ragged and compact rows, fixed costs per batch). It counts every layer for every row, although the
//! last layer computes pooled rows only, and assumes that an operation of attention takes as long as an operation of a
//! matrix product. The result is therefore an upper bound, not a measurement.

use prefold_backends::ModelShape;

/// Operation counts of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Costs {
    /// P L: operations per row, in all layers.
    pub(crate) position_wise: u64,
    /// A: operations per pair, in one layer.
    pub(crate) attention: u64,
    /// Sliding windows, each with its number of layers.
    windows: Vec<(Option<u64>, u64)>,
}

/// Rows and pairs of batches, without and with compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// N: rows.
    pub(crate) rows: u64,
    /// N': rows of the prefix trees.
    pub(crate) unique_rows: u64,
    /// Σ S: pairs, over layers.
    pub(crate) pairs: u64,
    /// Σ S': pairs of the prefix trees, over layers.
    pub(crate) unique_pairs: u64,
}

/// Predicted speed-ups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Prediction {
    /// 1 - f: attention's fraction of the work without compaction.
    pub(crate) attention_share: f64,
    /// Speed-up with ragged attention.
    pub(crate) ragged: f64,
    /// Speed-up with compact attention.
    pub(crate) compact: f64,
}

impl Costs {
    pub(crate) fn of(shape: &ModelShape) -> Self {
        let &ModelShape { hidden_size, intermediate_size, num_heads, num_kv_heads, head_dim, .. } = shape;
        let (queries, keys) = (num_heads * head_dim, num_kv_heads * head_dim);
        let weights = hidden_size * (2 * queries + 2 * keys + 3 * intermediate_size);
        let mut windows: Vec<(Option<u64>, u64)> = Vec::new();
        for window in shape.sliding_windows.iter().map(|window| window.map(|window| window as u64)) {
            match windows.iter_mut().find(|(known, _)| *known == window) {
                Some((_, layers)) => *layers += 1,
                None => windows.push((window, 1)),
            }
        }
        Self {
            position_wise: 2 * weights as u64 * shape.sliding_windows.len() as u64,
            attention: 4 * queries as u64,
            windows,
        }
    }

    /// Pairs of `len` queries starting at position `depth`, over all layers.
    pub(crate) fn pairs(&self, depth: u64, len: u64) -> u64 {
        let in_layer = |window: Option<u64>| {
            let seen_whole = window.map_or(len, |window| window.saturating_sub(depth).min(len));
            let cut = (len - seen_whole) * window.unwrap_or(0);
            seen_whole * depth + seen_whole * (seen_whole + 1) / 2 + cut
        };
        self.windows.iter().map(|&(window, layers)| layers * in_layer(window)).sum()
    }

    pub(crate) fn predict(&self, work: Work) -> Prediction {
        let rows = |rows: u64| self.position_wise as f64 * rows as f64;
        let pairs = |pairs: u64| self.attention as f64 * pairs as f64;
        let whole = rows(work.rows) + pairs(work.pairs);
        Prediction {
            attention_share: pairs(work.pairs) / whole,
            ragged: whole / (rows(work.unique_rows) + pairs(work.pairs)),
            compact: whole / (rows(work.unique_rows) + pairs(work.unique_pairs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape(sliding_windows: Vec<Option<usize>>) -> ModelShape {
        ModelShape {
            hidden_size: 8,
            intermediate_size: 16,
            num_heads: 4,
            num_kv_heads: 2,
            head_dim: 3,
            sliding_windows,
        }
    }

    #[test]
    fn operations_counted_by_hand() {
        let costs = Costs::of(&shape(vec![None; 5]));
        // Q 8x12, K and V 8x6, O 12x8, three times 8x16.
        assert_eq!(costs.position_wise, 5 * 2 * (96 + 48 + 48 + 96 + 384));
        assert_eq!(costs.attention, 4 * 12);
        assert_eq!(costs.pairs(0, 4), 5 * (1 + 2 + 3 + 4));
        assert_eq!(costs.pairs(3, 2), 5 * (4 + 5));
    }

    #[test]
    fn qwen3_embedding_06b_has_the_operations_of_its_parameters() {
        let qwen3 = ModelShape {
            hidden_size: 1024,
            intermediate_size: 3072,
            num_heads: 16,
            num_kv_heads: 8,
            head_dim: 128,
            sliding_windows: vec![None; 28],
        };
        // 440.4M parameters in the layers' projections.
        assert_eq!(Costs::of(&qwen3).position_wise, 2 * 28 * 15_728_640);
    }

    #[test]
    fn speed_ups_by_hand() {
        let costs = Costs { position_wise: 10, attention: 1, windows: vec![(None, 1)] };
        // 90% position-wise; half the rows and a quarter of the pairs are left.
        let work = Work { rows: 90, unique_rows: 45, pairs: 100, unique_pairs: 25 };
        let prediction = costs.predict(work);
        assert_eq!(prediction.attention_share, 0.1);
        assert!((prediction.ragged - 1.0 / (0.1 + 0.9 * 0.5)).abs() < 1e-12);
        assert!((prediction.compact - 1.0 / (0.1 * 0.25 + 0.9 * 0.5)).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn pairs_are_those_that_are_counted_one_by_one(
            windows in prop::collection::vec(prop::option::of(1usize..20), 1..4),
            depth in 0u64..30,
            len in 0u64..30,
        ) {
            let one = |position: u64, window: Option<usize>| window.map_or(position + 1, |w| (position + 1).min(w as u64));
            let counted: u64 =
                windows.iter().flat_map(|&window| (depth..depth + len).map(move |p| one(p, window))).sum();
            prop_assert_eq!(Costs::of(&shape(windows)).pairs(depth, len), counted);
        }
    }
}
