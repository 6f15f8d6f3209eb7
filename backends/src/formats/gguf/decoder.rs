//! A decoder's description in a GGUF file's metadata.

use super::file::{Architecture, GgufFile};
use crate::LoadError;
use crate::config::{
    AttentionConfig, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, MaskConfig, NormConfig, NormKind, Placement,
    PositionsConfig, RopeConfig, RopeScaling, TransformerConfig, names,
};
use prefold_kernels::Activation;

impl GgufFile {
    /// The description of a decoder.
    ///
    /// # Errors
    /// A value is missing or malformed, or the file needs an unsupported feature.
    pub(super) fn decoder(&self, architecture: &Architecture) -> Result<TransformerConfig, LoadError> {
        let key = |name: &str| format!("{}.{name}", architecture.name);
        let required = |name: &str| self.usize(&key(name))?.ok_or_else(|| self.lacks(&key(name)));

        let num_heads = required("attention.head_count")?;
        let hidden_size = required("embedding_length")?;
        let head_dim = match self.usize(&key("attention.key_length"))? {
            Some(head_dim) => head_dim,
            None => hidden_size.checked_div(num_heads).unwrap_or(0),
        };
        let mlp_bias = self.tensor("blk.0.ffn_gate.bias").is_some();
        let eps = key("attention.layer_norm_rms_epsilon");
        Ok(TransformerConfig {
            model_type: architecture.name.to_owned(),
            vocab_size: self.rows("token_embd.weight")?,
            hidden_size,
            output_size: hidden_size,
            feed_forward: FeedForwardConfig {
                intermediate_size: required("feed_forward_length")?,
                input_bias: mlp_bias,
                output_bias: mlp_bias,
                gated: true,
                activation: Activation::Silu,
                experts: None,
            },
            num_layers: required("block_count")?,
            attention: AttentionConfig {
                num_heads,
                num_kv_heads: self.usize(&key("attention.head_count_kv"))?.unwrap_or(num_heads),
                head_dim,
                qkv_bias: self.tensor("blk.0.attn_q.bias").is_some(),
                output_bias: self.tensor("blk.0.attn_output.bias").is_some(),
                qk_norm: self.tensor("blk.0.attn_q_norm.weight").is_some(),
                qk_width_norm: false,
                scale: None,
                mask: MaskConfig::Causal,
                distance_bias: None,
            },
            norm: NormConfig {
                kind: NormKind::Rms,
                placement: Placement::Before,
                first_attention: true,
                eps: self.f64(&eps)?.ok_or_else(|| self.lacks(&eps))? as f32,
            },
            embeddings: EmbeddingsConfig { size: hidden_size, token_types: 0, norm: false, scale: 1.0 },
            positions: PositionsConfig::Rotary(self.rope(architecture, head_dim)?.into()),
            sliding_windows: vec![],
            tie_word_embeddings: self.tensor("output.weight").is_none(),
            max_position_embeddings: required("context_length")?,
            names: names::DECODER,
            classifier: DECODER_HEAD,
            adapters: None,
        })
    }

    pub(super) fn rope(&self, architecture: &Architecture, head_dim: usize) -> Result<RopeConfig, LoadError> {
        let key = |name: &str| format!("{}.rope.{name}", architecture.name);
        let theta = match self.f64(&key("freq_base"))? {
            Some(theta) if theta > 0.0 => theta,
            Some(theta) => return Err(self.wrong(&key("freq_base"), &format!("above 0, it is {theta}"))),
            None => architecture.default_rope_theta.ok_or_else(|| self.lacks(&key("freq_base")))?,
        };
        if let Some(rotated) = self.usize(&key("dimension_count"))?.filter(|&rotated| rotated != head_dim) {
            let what = format!("`{}` {rotated} of {head_dim}", key("dimension_count"));
            return Err(LoadError::unsupported(self.name(), what, "rotation of every component"));
        }
        let scaling = match self.str(&key("scaling.type"))? {
            None | Some("none") => RopeScaling::None,
            Some("linear") => match self.f64(&key("scaling.factor"))? {
                Some(factor) if factor > 0.0 => RopeScaling::Linear { factor },
                Some(factor) => return Err(self.wrong(&key("scaling.factor"), &format!("above 0, it is {factor}"))),
                None => return Err(self.lacks(&key("scaling.factor"))),
            },
            Some(other) => {
                let what = format!("`{}` \"{other}\"", key("scaling.type"));
                return Err(LoadError::unsupported(self.name(), what, "none, linear"));
            }
        };
        let scaling = match (self.tensor("rope_freqs.weight").is_some(), scaling) {
            (false, scaling) => scaling,
            (true, RopeScaling::None) => self.rope_factors(head_dim)?,
            (true, _) => {
                return Err(LoadError::unsupported(self.name(), "`rope_freqs.weight` with scaling", "one of the two"));
            }
        };
        Ok(RopeConfig { theta, scaling })
    }

    fn rope_factors(&self, head_dim: usize) -> Result<RopeScaling, LoadError> {
        let name = "rope_freqs.weight";
        let factors: Vec<f32> = self.read(name, name, &[head_dim / 2])?;
        match factors.iter().all(|&factor| factor.is_finite() && factor > 0.0) {
            true => Ok(RopeScaling::Factors(factors)),
            false => Err(LoadError::invalid(self.name(), format!("tensor `{name}` must hold numbers above 0"))),
        }
    }
}
