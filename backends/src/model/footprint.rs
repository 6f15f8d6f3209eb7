//! Estimate of the memory of a forward pass, without the weights.

use super::buffers::RowBytes;
use crate::config::{MaskConfig, TransformerConfig};
use crate::ops::Target;
use crate::options::AttentionMode;
use prefold_core::{BatchLimits, EngineConfig};
use prefold_kernels::Dtype;

/// Additional bytes on a GPU for workspaces of libraries, the driver and the rounding of allocations.
const RESERVE: usize = 512 << 20;

/// Additional bytes on each further stream of a GPU, for its workspace.
const RESERVE_OF_STREAM: usize = 16 << 20;

/// Upper bound on the bytes of the indices of a computed row, and of a row in ragged space.
const INDEX_BYTES: usize = 64;

/// Rows of a part of a batch on a CPU. Each part reads the weights once, which takes a hundredth of its time, and its states stay in the
/// caches of the cores.
const PART_ROWS: usize = 512;

/// Maximum bytes reserved on a CPU by all replicas and their interrupting backends together. The reservation is compared with the limits on
/// the process but not with the machine's memory, so a huge limit on batches must not end the server at its start; buffers of larger batches
/// grow on demand.
pub(super) const MAX_RESERVED: usize = 4 << 30;

/// Divisors of that for a backend and the two that interrupt it: interrupting batches are small, so half is for the others.
pub(super) const SHARES: [usize; 3] = [2, 4, 4];

/// Maximum rows that go through a model together on a CPU if its sequences share nothing; `None` for all.
pub(super) fn part_rows(mask: MaskConfig) -> Option<usize> {
    (mask == MaskConfig::Full).then_some(PART_ROWS)
}

/// Memory that a backend reserves on a CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    pub(super) footprint: Footprint,
    pub(super) max_bytes: usize,
    /// Maximum rows that go through the model together.
    pub(super) most_rows: Option<usize>,
}

impl Reservation {
    /// Computed rows and ragged tokens that memory is reserved for.
    pub(super) fn rows(&self, BatchLimits { max_tokens, max_ragged_tokens }: BatchLimits) -> (usize, usize) {
        let rows = self.footprint.largest(self.max_bytes, max_tokens, max_ragged_tokens);
        let rows = self.most_rows.map_or(rows, |most| rows.min(most));
        (rows, (max_ragged_tokens as u128 * rows as u128 / max_tokens.max(1) as u128) as usize)
    }
}

/// Bytes that the backends of a sub-model reserve on a CPU for batches of these limits, without replicas, and of `sub_models` sub-models.
pub(crate) fn reserved_bytes(
    config: &TransformerConfig,
    dtype: Dtype,
    longest_input: usize,
    engine: &EngineConfig,
    sub_models: usize,
) -> usize {
    let footprint = Footprint::new(config, &Target::cpu(dtype), AttentionMode::Compact);
    let most_rows = part_rows(config.attention.mask).map(|part| part.max(longest_input));
    let [due, urgent] = BatchLimits::interrupting(engine);
    let backends = SHARES.into_iter().zip([BatchLimits::of(engine), due, urgent]);
    let of_backend = |(share, limits)| {
        let (rows, ragged) =
            Reservation { footprint, max_bytes: MAX_RESERVED / share / sub_models, most_rows }.rows(limits);
        footprint.bytes(rows, ragged)
    };
    backends.map(of_backend).sum()
}

/// Bytes of a forward pass by the kind of row. The worst case counts: a batch whose answers need the final state of every
/// token, after a batch of many short inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// For each computed row.
    row: usize,
    /// For each row in ragged space: the tokens of all sequences, repeated ones included.
    ragged_row: usize,
    /// For each row of a block of rows.
    block_row: usize,
    row_block: usize,
    /// For any batch.
    fixed: usize,
}

impl Footprint {
    /// The bytes of a model's batches on a device, without its weights.
    pub(crate) fn new(config: &TransformerConfig, target: &Target, mode: AttentionMode) -> Self {
        let RowBytes { computed, ragged, block } = RowBytes::new(config, target);
        // Of the row and of an output row.
        let taps = config.convolutions.map_or(0, |config| 2 * config.kernel * size_of::<u32>());
        // On a GPU the next pass has its own.
        let sets = if target.is_cpu() { 1 } else { 2 };
        Self {
            row: computed + sets * (INDEX_BYTES + taps),
            ragged_row: sets * INDEX_BYTES + if mode == AttentionMode::Ragged { ragged } else { 0 },
            block_row: block,
            row_block: target.row_block(),
            fixed: match (target.is_cpu(), target.has_priority()) {
                (true, _) => 0,
                (false, true) => RESERVE_OF_STREAM,
                (false, false) => RESERVE,
            },
        }
    }

    /// Bytes for a batch of `rows` computed rows and `ragged_rows` tokens.
    pub(crate) fn bytes(&self, rows: usize, ragged_rows: usize) -> usize {
        let block = rows.min(self.row_block).saturating_mul(self.block_row);
        let ragged = ragged_rows.saturating_mul(self.ragged_row);
        rows.saturating_mul(self.row).saturating_add(ragged).saturating_add(block).saturating_add(self.fixed)
    }

    /// Largest number of computed rows that fits `free` bytes, at a ratio of `ragged_rows` tokens to `rows` computed rows.
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
    use crate::config::{
        AttentionConfig, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, NormConfig, NormKind, NormPlacement,
        PositionsConfig, RopeConfig, RopeScaling, names,
    };
    use prefold_kernels::Activation;

    /// Qwen3-8B in bfloat16 on a GPU, by hand.
    fn qwen3_8b(mode: AttentionMode) -> Footprint {
        let attention = 2 * (4096 + 2 * 1024) + 2 * 4096;
        Footprint {
            row: 4 * 4 * 4096 + attention + 2 * 4096 + 2 * INDEX_BYTES,
            ragged_row: 2 * INDEX_BYTES + if mode == AttentionMode::Ragged { attention } else { 0 },
            block_row: 2 * 4096 + 2 * 3 * 12_288,
            row_block: 8192,
            fixed: RESERVE,
        }
    }

    #[test]
    fn the_buffers_of_a_model_make_its_footprint() {
        let rope = RopeConfig { theta: 1e6, scaling: RopeScaling::None };
        let attention = AttentionConfig {
            num_heads: 32,
            num_kv_heads: 8,
            head_dim: 128,
            qkv_bias: false,
            output_bias: false,
            qk_norm: true,
            qk_width_norm: false,
            scale: None,
            mask: MaskConfig::Causal,
            softcap: None,
            distance_bias: None,
        };
        let config = TransformerConfig {
            model_type: "qwen3".to_owned(),
            vocab_size: 151_936,
            hidden_size: 4096,
            output_size: 4096,
            num_layers: 36,
            norm: NormConfig {
                kind: NormKind::RmsNorm,
                placement: NormPlacement::Pre,
                first_attention: true,
                eps: 1e-6,
            },
            embeddings: EmbeddingsConfig { size: 4096, token_types: 0, norm: false, scale: 1.0 },
            attention,
            feed_forward: FeedForwardConfig {
                intermediate_size: 12_288,
                input_bias: false,
                output_bias: false,
                ffn_glu: true,
                activation: Activation::Silu,
                experts: None,
            },
            positions: PositionsConfig::Rotary(rope.into()),
            convolutions: None,
            convolution_layers: vec![],
            sliding_windows: vec![None; 36],
            tie_word_embeddings: false,
            logit_softcap: None,
            max_position_embeddings: 40_960,
            names: names::DECODER,
            classifier: DECODER_HEAD,
            adapters: None,
        };
        // On a CPU projections are float32, gate and up are joined, and there is one set of indices.
        let target = Target::cpu(Dtype::Bfloat16);
        for mode in [AttentionMode::Compact, AttentionMode::Ragged] {
            let wider = 2 * (4096 + 2 * 1024);
            let gpu = qwen3_8b(mode);
            let expected = Footprint {
                row: gpu.row + wider + 2 * 4096 - INDEX_BYTES,
                ragged_row: gpu.ragged_row - INDEX_BYTES + if mode == AttentionMode::Ragged { wider } else { 0 },
                block_row: gpu.block_row - 2 * 2 * 12_288,
                row_block: 1024,
                fixed: 0,
            };
            assert_eq!(Footprint::new(&config, &target, mode), expected, "{mode:?}");
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
