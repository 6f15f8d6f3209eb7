//! Positions of tokens, and biases by their distance.

use super::rope::RopeConfig;

/// The positions of a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PositionsConfig {
    /// Queries and keys are rotated by their positions.
    Rotary(RotaryConfig),
    /// A learned vector for each position is added to the embedding of the token.
    Learned(LearnedPositions),
    /// Attention scores have biases by distance; nothing else depends on positions.
    Biases,
    /// Queries and keys are also scored against relative position embeddings: disentangled attention
    /// ([arXiv 2006.03654](https://arxiv.org/abs/2006.03654)).
    Disentangled(DisentangledConfig),
}

/// Relative position embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DisentangledConfig {
    /// Half the rows of the table; larger distances use the last row on their side.
    pub(crate) span: usize,
    /// Distances beyond half of `span` share rows in logarithmic buckets up to this distance; `None` for a row each.
    pub(crate) log_beyond: Option<usize>,
    /// Content-to-position scores: queries are scored against positions.
    pub(crate) c2p: bool,
    /// Position-to-content scores: keys are scored against positions.
    pub(crate) p2c: bool,
    /// Positions use the projections of tokens instead of their own.
    pub(crate) share_att_key: bool,
    /// The table is normalised.
    pub(crate) norm_rel_ebd: bool,
}

impl DisentangledConfig {
    /// Rows of the table.
    pub(crate) fn rows(&self) -> usize {
        2 * self.span
    }

    /// Terms of a score.
    pub(crate) fn terms(&self) -> usize {
        1 + usize::from(self.c2p) + usize::from(self.p2c)
    }

    /// The row of a distance, the query's position less the key's.
    pub(crate) fn row(&self, distance: isize) -> usize {
        let last = self.rows() as isize - 1;
        (self.bucket(distance) + self.span as isize).clamp(0, last) as usize
    }

    /// The distance whose row a distance shares.
    fn bucket(&self, distance: isize) -> isize {
        let middle = self.span / 2;
        let (Some(end), size) = (self.log_beyond, distance.unsigned_abs()) else { return distance };
        if size <= middle {
            return distance;
        }
        // In single precision, as the published models were trained.
        let log = |of: f32| f64::from(of).ln() as f32;
        let relative = log(size as f32 / middle as f32) / log(((end - 1) as f64 / middle as f64) as f32);
        let bucket = (relative * (middle - 1) as f32).ceil() as isize + middle as isize;
        bucket * distance.signum()
    }
}

/// RoPE of layers without and with a window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RotaryConfig {
    /// RoPE of layers without a window.
    pub(crate) full: RopeConfig,
    /// RoPE of layers with a window.
    pub(crate) windowed: RopeConfig,
    /// Growth of the queries of all layers.
    pub(crate) query_growth: Option<QueryGrowth>,
}

/// Factor on queries by their position, `1 + beta ln(1 + floor(position / every))`, as in Llama 4 and Ministral 3.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct QueryGrowth {
    pub(crate) beta: f64,
    /// Positions with the same factor.
    pub(crate) every: usize,
}

impl QueryGrowth {
    /// The factor at a position; 1 at the first `every` positions.
    pub(crate) fn factor(self, position: usize) -> f64 {
        1.0 + self.beta * ((position / self.every) as f64).ln_1p()
    }
}

impl RotaryConfig {
    /// The growth of queries, where it has an effect on one of the first `positions` positions.
    pub(crate) fn growth_within(&self, positions: usize) -> Option<QueryGrowth> {
        self.query_growth.filter(|growth| positions > growth.every && growth.beta != 0.0)
    }
}

impl From<RopeConfig> for RotaryConfig {
    /// The same in all layers.
    fn from(rope: RopeConfig) -> Self {
        Self { windowed: rope.clone(), full: rope, query_growth: None }
    }
}

/// A table of learned positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LearnedPositions {
    /// Rows of the table.
    pub(crate) rows: usize,
    /// The padding token. It has the row of its own id and is not counted; the other tokens count from the row after that, as in
    /// RoBERTa. Without one the first token has row 0.
    pub(crate) padding_id: Option<u32>,
}

impl LearnedPositions {
    /// Tokens of the longest input.
    pub(crate) fn max_input_length(&self) -> usize {
        self.rows.saturating_sub(self.padding_id.map_or(0, |id| id as usize + 1))
    }

    /// Adds the table's row of each token of a sequence to `rows`.
    pub(crate) fn push_rows(&self, input_ids: &[u32], rows: &mut Vec<u32>) {
        match self.padding_id {
            None => rows.extend(0..input_ids.len() as u32),
            Some(padding_id) => {
                let mut last = padding_id;
                rows.extend(input_ids.iter().map(|&id| {
                    if id == padding_id {
                        return padding_id;
                    }
                    last += 1;
                    last
                }));
            }
        }
    }
}

/// Biases of attention scores by the distance of query and key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DistanceBias {
    /// Learned, the same in all layers.
    Buckets(RelativeBuckets),
    /// Learned, for each layer apart.
    LayerBuckets(RelativeBuckets),
    /// Subtracts the distance times a slope for each head, in both directions: ALiBi ([arXiv 2108.12409](https://arxiv.org/abs/2108.12409)).
    Alibi,
}

/// ALiBi's slopes: a geometric series that begins with its own ratio, `2^(-8 / heads)`. If `heads` is not a power of two, the slopes of
/// the next lower power come first, then every second slope of its double, as in the authors' code.
pub(crate) fn alibi_slopes(heads: usize) -> Vec<f32> {
    let series = |heads: usize| (1..=heads).map(move |i| 2_f64.powf(-8.0 * i as f64 / heads as f64) as f32);
    let lower = if heads.is_power_of_two() { heads } else { heads.next_power_of_two() / 2 };
    series(lower).chain(series(2 * lower).step_by(2)).take(heads).collect()
}

/// T5's buckets of distances: one for each short distance, logarithmically more distances for each bucket beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RelativeBuckets {
    /// Rows of the table: one for each bucket, then rows that are not read.
    pub(crate) rows: usize,
    /// Half of them for each direction.
    pub(crate) buckets: usize,
    /// From here on all distances are in the last bucket.
    pub(crate) max_distance: usize,
}

impl RelativeBuckets {
    /// T5's defaults, and the sizes of MPNet's code, which do not depend on the config.
    pub(crate) const DEFAULT: Self = Self { rows: 32, buckets: 32, max_distance: 128 };

    /// The bucket of a distance, the query's position less the key's.
    pub(crate) fn bucket(&self, distance: isize) -> usize {
        let half = self.buckets / 2;
        let first = if distance < 0 { half } else { 0 };
        let exact = half / 2;
        let distance = distance.unsigned_abs();
        if distance < exact {
            return first + distance;
        }
        // In single precision, as the published models were trained.
        let log = |of: f64| of.ln() as f32;
        let relative = log(f64::from(distance as f32 / exact as f32)) / log(self.max_distance as f64 / exact as f64);
        let bucket = exact + (relative * (half - exact) as f32) as usize;
        first + bucket.min(half - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_padding_token_has_its_own_row_and_is_not_counted() {
        let rows = |padding_id, ids: &[u32]| {
            let mut rows = Vec::new();
            LearnedPositions { rows: 514, padding_id }.push_rows(ids, &mut rows);
            rows
        };
        assert_eq!(rows(None, &[7, 1, 8]), [0, 1, 2]);
        assert_eq!(rows(Some(1), &[0, 7, 1, 8, 1, 2]), [2, 3, 1, 4, 1, 5]);
        assert_eq!(rows(Some(3), &[0, 7, 3, 8]), [4, 5, 3, 6]);
        assert_eq!(LearnedPositions { rows: 514, padding_id: Some(1) }.max_input_length(), 512);
        assert_eq!(LearnedPositions { rows: 512, padding_id: None }.max_input_length(), 512);
    }

    #[test]
    fn slopes_are_those_of_alibi() {
        // The lists of the authors' `get_slopes`.
        assert_eq!(alibi_slopes(4), [0.25, 0.0625, 0.015_625, 0.003_906_25]);
        let six = [0.25, 0.0625, 0.015_625, 0.003_906_25, 0.5, 0.125];
        assert_eq!(alibi_slopes(6), six);
        assert_eq!(alibi_slopes(12)[8..], [2_f32.powf(-0.5), 2_f32.powf(-1.5), 2_f32.powf(-2.5), 2_f32.powf(-3.5)]);
    }

    #[test]
    fn rows_of_distances_are_those_of_deberta() {
        let config = |span, end| DisentangledConfig {
            span,
            log_beyond: end,
            c2p: true,
            p2c: true,
            share_att_key: true,
            norm_rel_ebd: true,
        };
        let v3 = config(256, Some(512));
        let terms = |c2p, p2c| DisentangledConfig { c2p, p2c, ..v3 }.terms();
        assert_eq!([terms(true, true), terms(true, false), terms(false, true), terms(false, false)], [3, 2, 2, 1]);
        let of = |distances: &[isize]| distances.iter().map(|&it| v3.row(it) as isize - 256).collect::<Vec<_>>();
        assert_eq!(
            of(&[0, 1, 127, 128, 129, 130, 150, 200, 256, 300, 400, 511, -128, -129, -300, -511]),
            [0, 1, 127, 128, 129, 130, 143, 169, 192, 207, 233, 255, -128, -129, -207, -255]
        );
        // The sums that transformers' make_log_bucket_position gives.
        for (span, end, sum) in
            [(256, 512, 54_914_426), (16, 512, 3_809_604), (12, 512, 2_824_578), (32, 128, 9_929_588)]
        {
            let it = config(span, Some(end));
            let found: isize = (1..).zip(-511..=511).map(|(weight, distance)| weight * it.bucket(distance)).sum();
            assert_eq!(found, sum, "{span} {end}");
        }
        let plain = config(4, None);
        assert_eq!([-9, -4, -1, 3, 4, 9].map(|distance| plain.row(distance)), [0, 0, 3, 7, 7, 7]);
    }

    #[test]
    fn buckets_are_those_of_mpnet_and_t5() {
        let of =
            |distances: &[isize]| distances.iter().map(|&it| RelativeBuckets::DEFAULT.bucket(it)).collect::<Vec<_>>();
        assert_eq!(
            of(&[0, 1, 7, 8, 11, 12, 16, 23, 32, 64, 90, 91, 500]),
            [0, 1, 7, 8, 8, 9, 10, 11, 12, 14, 14, 15, 15]
        );
        assert_eq!(of(&[-1, -7, -8, -91]), [17, 23, 24, 31]);
        // The sums that transformers' T5Attention._relative_position_bucket gives.
        for (buckets, max_distance, sum) in [
            (32, 128, 150_855_390),
            (12, 20, 51_953_964),
            (64, 256, 306_693_270),
            (8, 40, 31_979_982),
            (32, 30_000, 127_479_708),
            (128, 500, 609_640_668),
        ] {
            let it = RelativeBuckets { rows: buckets, buckets, max_distance };
            let found: usize = (1..).zip(-2000..=2000).map(|(weight, distance)| weight * it.bucket(distance)).sum();
            assert_eq!(found, sum, "{buckets} {max_distance}");
        }
    }
}
