//! Recommended flags.

use crate::batches::{BatchSizeReport, DEFAULT_THRESHOLD};
use crate::words::shell;
use prefold_core::EngineConfig;
use serde::Serialize;

/// Minimum speed-up; smaller ones are within the model's error.
const MIN_SPEED_UP: f64 = 1.05;

/// Fraction of the best size's time savings that makes a batch size sufficient.
const ENOUGH: f64 = 0.95;

/// The server's default for `--max-batch-tokens`.
const DEFAULT_BATCH_TOKENS: u64 = 16_384;

/// Recommended server flags.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Recommendation {
    /// True if compaction pays off.
    pub(crate) worth_it: bool,
    /// Texts per batch, beyond which larger batches save little more.
    pub(crate) batch_size: usize,
    /// Speed-up at that size with compact attention, the server's default.
    pub(crate) predicted_speed_up: f64,
    /// The largest speed-up of all sizes.
    pub(crate) most_speed_up: f64,
    /// `--radix-mlp-threshold`
    pub(crate) radix_mlp_threshold: f64,
    /// `--max-batch-tokens`
    pub(crate) max_batch_tokens: u64,
    /// `--max-batch-ragged-tokens`, if its default would make batches smaller
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_batch_ragged_tokens: Option<u64>,
    /// Command line of the server with the model and all recommended flags.
    pub(crate) command: String,
}

impl Recommendation {
    /// Recommendation from batch sizes, or `None` without any. `flags` are the server's flags for the model.
    pub(crate) fn from(sizes: &[BatchSizeReport], longest_text: usize, flags: Vec<String>) -> Option<Self> {
        let saved = |size: &BatchSizeReport| 1.0 - 1.0 / size.speed_up_compact;
        let most = sizes.iter().map(saved).fold(0.0, f64::max);
        let size = sizes.iter().find(|size| saved(size) >= ENOUGH * most)?;
        let most_speed_up = sizes.iter().map(|size| size.speed_up_compact).fold(1.0, f64::max);
        // Rounded as in the report, so that both agree.
        let worth_it = (most_speed_up * 100.0).round() / 100.0 >= MIN_SPEED_UP;
        let rows = (size.unique_tokens_per_batch.ceil() as u64).max(longest_text as u64);
        let max_batch_tokens =
            if worth_it { rows.next_power_of_two().max(DEFAULT_BATCH_TOKENS) } else { DEFAULT_BATCH_TOKENS };
        let ragged = (size.tokens_per_batch.ceil() as u64).next_power_of_two();
        let default_ragged = max_batch_tokens * EngineConfig::RAGGED_TOKENS_FACTOR as u64;
        let mut advice = Self {
            worth_it,
            batch_size: size.texts,
            predicted_speed_up: size.speed_up_compact,
            most_speed_up,
            radix_mlp_threshold: if worth_it { DEFAULT_THRESHOLD } else { 0.0 },
            max_batch_tokens,
            max_batch_ragged_tokens: Some(ragged).filter(|&ragged| worth_it && ragged > default_ragged),
            command: String::new(),
        };
        let words = [vec!["prefold".to_owned()], flags, advice.flags()].concat();
        advice.command = shell(&words);
        Some(advice)
    }

    fn flags(&self) -> Vec<String> {
        let flags = [
            ("--radix-mlp-threshold", Some(self.radix_mlp_threshold.to_string())),
            ("--max-batch-tokens", Some(self.max_batch_tokens.to_string())),
            ("--max-batch-ragged-tokens", self.max_batch_ragged_tokens.map(|tokens| tokens.to_string())),
        ];
        flags.into_iter().filter_map(|(flag, value)| Some([flag.to_owned(), value?])).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(texts: usize, tokens: f64, unique: f64, [ragged, compact]: [f64; 2]) -> BatchSizeReport {
        BatchSizeReport {
            texts,
            tokens_per_batch: tokens,
            unique_tokens_per_batch: unique,
            speed_up_ragged: ragged,
            speed_up_compact: compact,
            ..BatchSizeReport::default()
        }
    }

    #[test]
    fn the_smallest_batch_that_saves_nearly_the_most() {
        let sizes = [
            size(1, 100.0, 100.0, [1.0, 1.0]),
            size(64, 6400.0, 4000.0, [1.5, 1.5]),
            size(128, 12_800.0, 7900.0, [1.51, 1.51]),
        ];
        let model = ["--model-id", "my model"].map(str::to_owned).to_vec();
        let advice = Recommendation::from(&sizes, 300, model).unwrap();
        assert_eq!((advice.worth_it, advice.batch_size), (true, 64));
        assert_eq!((advice.predicted_speed_up, advice.most_speed_up), (1.5, 1.51));
        let expected = "prefold --model-id 'my model' --radix-mlp-threshold 0.95 --max-batch-tokens 16384";
        assert_eq!(advice.command, expected);
    }

    #[test]
    fn long_batches_and_many_repeats_need_larger_limits() {
        let advice = Recommendation::from(&[size(1024, 900_000.0, 20_000.0, [8.0, 20.0])], 300, vec![]).unwrap();
        let expected = "prefold --radix-mlp-threshold 0.95 --max-batch-tokens 32768 --max-batch-ragged-tokens 1048576";
        assert_eq!(advice.command, expected);
        assert_eq!(advice.predicted_speed_up, 20.0);
    }

    #[test]
    fn little_is_not_worth_it() {
        // 1.046 is written as 1.05, which is enough.
        for (speed_up, worth_it, threshold) in [(1.044, false, "0"), (1.046, true, "0.95")] {
            let sizes = [size(1, 9.0, 9.0, [1.0, 1.0]), size(64, 576.0, 560.0, [1.03, speed_up])];
            let advice = Recommendation::from(&sizes, 9, vec![]).unwrap();
            assert_eq!(advice.worth_it, worth_it, "{speed_up}");
            let expected = format!("prefold --radix-mlp-threshold {threshold} --max-batch-tokens 16384");
            assert_eq!(advice.command, expected);
        }
        assert_eq!(Recommendation::from(&[], 9, vec![]), None);
    }
}
