//! What a forward pass needs beside the weights.

use super::config::DecoderConfig;
use crate::ops::Target;
use crate::options::AttentionMode;

/// Bytes that the library's workspaces, the driver and the rounding of allocations take in addition.
const RESERVE: usize = 512 << 20;

/// Bytes of the indices of a row that is computed and of one in ragged space, generously.
const INDEX_BYTES: usize = 64;

/// The buffers of a forward pass by what they grow with. The worst batch counts: one that asks for the final state of every
/// token, after one of many short inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// For each row that is computed.
    row: usize,
    /// For each row in ragged space: tokens of all sequences, repeated ones counted each time.
    ragged_row: usize,
    /// For each row of a block that goes through the MLP together.
    block_row: usize,
    row_block: usize,
}

impl Footprint {
    pub(crate) fn new(config: &DecoderConfig, target: &Target, mode: AttentionMode) -> Self {
        let (activation, projection) = (target.activations().size_in_bytes(), target.projections().size_in_bytes());
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        let q_width = config.num_heads * config.head_dim;
        let qkv_width = q_width + 2 * config.num_kv_heads * config.head_dim;
        let residual = size_of::<f32>() * hidden;
        let attention = qkv_width * projection + q_width * activation;
        Self {
            // The residual stream, that of wanted rows, final and pooled states; Q of wanted rows.
            row: 4 * residual + attention + q_width * projection + INDEX_BYTES,
            ragged_row: INDEX_BYTES + if mode == AttentionMode::Ragged { attention } else { 0 },
            block_row: hidden * activation + 2 * intermediate * projection + intermediate * activation,
            row_block: target.row_block(),
        }
    }

    /// Bytes for a batch of `rows` computed rows that stand for `ragged_rows` tokens.
    pub(crate) fn bytes(&self, rows: usize, ragged_rows: usize) -> usize {
        let block = rows.min(self.row_block).saturating_mul(self.block_row);
        let ragged = ragged_rows.saturating_mul(self.ragged_row);
        rows.saturating_mul(self.row).saturating_add(ragged).saturating_add(block).saturating_add(RESERVE)
    }

    /// The most rows that fit `free` bytes when `ragged_rows` come with each `rows`.
    pub(crate) fn largest(&self, free: usize, rows: usize, ragged_rows: usize) -> usize {
        let fits = |candidate: usize| {
            let ragged = candidate as u128 * ragged_rows as u128 / rows.max(1) as u128;
            self.bytes(candidate, usize::try_from(ragged).unwrap_or(usize::MAX)) <= free
        };
        let (mut low, mut high) = (0, rows);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if fits(middle) { low = middle } else { high = middle - 1 }
        }
        low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures for Qwen3-8B in bfloat16 on a GPU, whose rows cost the same wherever they are counted.
    fn qwen3_8b(mode: AttentionMode) -> Footprint {
        let attention = 2 * (4096 + 2 * 1024) + 2 * 4096;
        Footprint {
            row: 4 * 4 * 4096 + attention + 2 * 4096 + INDEX_BYTES,
            ragged_row: INDEX_BYTES + if mode == AttentionMode::Ragged { attention } else { 0 },
            block_row: 2 * 4096 + 2 * 3 * 12_288,
            row_block: 8192,
        }
    }

    #[test]
    fn an_8b_model_needs_less_than_three_gigabytes_for_a_batch_of_the_default_size() {
        let bytes = qwen3_8b(AttentionMode::Compact).bytes(16_384, 8 * 16_384);
        assert!((2 << 30..3 << 30).contains(&bytes), "{bytes}");
    }

    #[test]
    fn the_largest_batch_fits_and_one_row_more_does_not() {
        for mode in [AttentionMode::Compact, AttentionMode::Ragged] {
            let footprint = qwen3_8b(mode);
            for free in [600 << 20, 1 << 30, 5 << 30, 30 << 30] {
                let largest = footprint.largest(free, 1 << 20, 8 << 20);
                assert!(footprint.bytes(largest, 8 * largest) <= free, "{mode:?} {free}");
                assert!(
                    largest == 1 << 20 || footprint.bytes(largest + 1, 8 * (largest + 1)) > free,
                    "{mode:?} {free}"
                );
            }
            assert_eq!(footprint.largest(RESERVE - 1, 1 << 20, 8 << 20), 0);
            assert_eq!(footprint.largest(usize::MAX, 100, 800), 100, "no more than was asked for");
        }
    }

    #[test]
    fn no_size_overflows() {
        let footprint = qwen3_8b(AttentionMode::Ragged);
        assert_eq!(footprint.bytes(usize::MAX, usize::MAX), usize::MAX);
        assert!(footprint.largest(1 << 40, i32::MAX as usize, i32::MAX as usize) > 0);
    }
}
