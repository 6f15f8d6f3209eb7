//! Description of a transformer as data. Readers of file formats fill it in; the model loads and runs what it says.

mod rope;

pub(crate) use rope::{RopeConfig, RopeScaling};

use crate::LoadError;

/// Everything that decides how a transformer computes. The norms are RMS norms before each block, positions are rotary, the
/// mask is causal, and feed-forward blocks are gated by SiLU; readers refuse everything else.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TransformerConfig {
    /// Name of the family, for display.
    pub(crate) model_type: String,
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) num_layers: usize,
    pub(crate) norm_eps: f32,
    pub(crate) attention: AttentionConfig,
    pub(crate) feed_forward: FeedForwardConfig,
    pub(crate) rope: RopeConfig,
    /// Number of last positions that each layer sees, its own included; `None` sees all. `[num_layers]`
    pub(crate) sliding_windows: Vec<Option<usize>>,
    /// The embedding matrix is the language model's head too.
    pub(crate) tie_word_embeddings: bool,
    pub(crate) max_position_embeddings: usize,
}

/// Attention block of all layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttentionConfig {
    pub(crate) num_heads: usize,
    pub(crate) num_kv_heads: usize,
    pub(crate) head_dim: usize,
    /// The q, k and v projections have biases.
    pub(crate) qkv_bias: bool,
    /// The output projection has a bias.
    pub(crate) output_bias: bool,
    /// Queries and keys are normalised per head before rotation.
    pub(crate) qk_norm: bool,
}

impl AttentionConfig {
    /// Width of all query heads.
    pub(crate) fn q_width(&self) -> usize {
        self.num_heads * self.head_dim
    }

    /// Width of all key heads, and of all value heads.
    pub(crate) fn kv_width(&self) -> usize {
        self.num_kv_heads * self.head_dim
    }
}

/// Feed-forward block of all layers: gate, up and down projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FeedForwardConfig {
    pub(crate) intermediate_size: usize,
    /// The projections have biases.
    pub(crate) bias: bool,
}

impl TransformerConfig {
    /// Checks that the sizes are possible and fit each other.
    ///
    /// # Errors
    /// A size is impossible; the error names `file`.
    pub(crate) fn validate(&self, file: &str) -> Result<(), LoadError> {
        // Limits far above any model, so low that the product of any three is below 2^63.
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 18),
            ("intermediate_size", self.feed_forward.intermediate_size, 1 << 20),
            ("num_hidden_layers", self.num_layers, 1 << 12),
            ("num_attention_heads", self.attention.num_heads, 1 << 12),
            ("num_key_value_heads", self.attention.num_kv_heads, 1 << 12),
            ("head_dim", self.attention.head_dim, 1 << 12),
            ("max_position_embeddings", self.max_position_embeddings, 1 << 31),
        ];
        for (name, value, limit) in sizes {
            if value == 0 || value > limit {
                return Err(LoadError::invalid(file, format!("`{name}` must be from 1 to {limit}, it is {value}")));
            }
        }
        if !self.attention.num_heads.is_multiple_of(self.attention.num_kv_heads) {
            let (heads, kv_heads) = (self.attention.num_heads, self.attention.num_kv_heads);
            let problem =
                format!("`num_attention_heads` ({heads}) must be a multiple of `num_key_value_heads` ({kv_heads})");
            return Err(LoadError::invalid(file, problem));
        }
        if !self.attention.head_dim.is_multiple_of(2) {
            return Err(LoadError::invalid(
                file,
                format!("`head_dim` must be even, it is {}", self.attention.head_dim),
            ));
        }
        if !(self.norm_eps > 0.0 && self.norm_eps < 1.0) {
            let problem = format!("`rms_norm_eps` must be between 0 and 1, it is {}", self.norm_eps);
            return Err(LoadError::invalid(file, problem));
        }
        Ok(())
    }

    /// Checks that a table of rotations for `positions` positions is possible.
    ///
    /// # Errors
    /// The table is impossible; the error names `file`.
    pub(crate) fn check_positions(&self, file: &str, positions: usize) -> Result<(), LoadError> {
        // Twice a million positions of 128 components.
        const MAX_TABLE: usize = 1 << 28;
        let head_dim = self.attention.head_dim;
        if positions.saturating_mul(head_dim) > MAX_TABLE {
            let problem = format!(
                "the longest input ({positions} tokens of `max_position_embeddings`) times `head_dim` ({head_dim}) \
                 must be at most {MAX_TABLE}"
            );
            return Err(LoadError::invalid(file, problem));
        }
        if !self.rope.is_finite(head_dim, positions) {
            let problem =
                format!("`rope_theta` ({}) and the scaling of RoPE make angles without a value", self.rope.theta);
            return Err(LoadError::invalid(file, problem));
        }
        Ok(())
    }
}
