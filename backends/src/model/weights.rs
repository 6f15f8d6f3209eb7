//! Weights of a transformer on a device, loaded by its description.

use crate::config::{AttentionConfig, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{Attention, Linear, RmsNorm, Rotary, Target, Vector};
use candle_core::Tensor;
use prefold_kernels::QkvLayout;

type Result<T> = std::result::Result<T, LoadError>;

/// All weights of a transformer without a head.
#[derive(Debug)]
pub(super) struct TransformerWeights {
    /// `[vocab_size, hidden_size]`
    pub(super) embeddings: Tensor,
    pub(super) layers: Vec<Layer>,
    /// The norm after the last layer.
    pub(super) norm: RmsNorm,
    pub(super) rotary: Rotary,
    pub(super) qkv: QkvLayout,
}

/// One layer: an attention block and a feed-forward block, each after a norm.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention: AttentionBlock,
    pub(super) feed_forward: FeedForward,
}

#[derive(Debug)]
pub(super) struct AttentionBlock {
    pub(super) norm: RmsNorm,
    /// Q, K and V in one matrix, in this order.
    pub(super) qkv: Linear,
    pub(super) q_norm: Option<Vector>,
    pub(super) k_norm: Option<Vector>,
    pub(super) attention: Attention,
    pub(super) output: Linear,
}

#[derive(Debug)]
pub(super) struct FeedForward {
    pub(super) norm: RmsNorm,
    /// Gate and up in one matrix, in this order.
    pub(super) gate_up: Linear,
    pub(super) down: Linear,
}

impl TransformerWeights {
    /// Packs the weights for the device, for sequences of up to `positions` tokens.
    pub(super) fn load(
        config: &TransformerConfig,
        weights: &Weights,
        positions: usize,
        target: &Target,
    ) -> Result<Self> {
        let layers = (0..config.num_layers).map(|index| Layer::load(&Loader { config, weights, target, index }));
        let norm = Vector::new(weights.read("model.norm.weight", &[config.hidden_size])?, target)?;
        let (vocab_size, hidden_size) = (config.vocab_size, config.hidden_size);
        let embeddings = weights.matrix(target.dtype(), "model.embed_tokens.weight", [vocab_size, hidden_size])?;
        let frequencies = config.rope.inverse_frequencies(config.attention.head_dim);
        Ok(Self {
            embeddings: target.upload(&embeddings)?,
            layers: layers.collect::<Result<_>>()?,
            norm: RmsNorm::new(norm, config.norm_eps),
            rotary: Rotary::new(&frequencies, positions, config.norm_eps, target)?,
            qkv: qkv_layout(&config.attention),
        })
    }
}

/// Heads of a fused QKV matrix.
pub(super) fn qkv_layout(config: &AttentionConfig) -> QkvLayout {
    QkvLayout { num_heads: config.num_heads, num_kv_heads: config.num_kv_heads, head_dim: config.head_dim }
}

/// Loads the tensors of one layer.
struct Loader<'a> {
    config: &'a TransformerConfig,
    weights: &'a Weights,
    target: &'a Target,
    index: usize,
}

impl Loader<'_> {
    fn name(&self, part: &str) -> String {
        format!("model.layers.{}.{part}", self.index)
    }

    fn vector(&self, part: &str, len: usize) -> Result<Vector> {
        Vector::new(self.weights.read(&self.name(part), &[len])?, self.target)
    }

    fn norm(&self, part: &str) -> Result<RmsNorm> {
        Ok(RmsNorm::new(self.vector(part, self.config.hidden_size)?, self.config.norm_eps))
    }

    fn linear(&self, parts: &[(&str, usize)], in_features: usize, bias: bool) -> Result<Linear> {
        let parts: Vec<(String, usize)> = parts.iter().map(|&(part, out)| (self.name(part), out)).collect();
        load_linear(self.weights, self.target, &parts, in_features, bias)
    }
}

impl Layer {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        Ok(Self { attention: AttentionBlock::load(loader)?, feed_forward: FeedForward::load(loader)? })
    }
}

impl AttentionBlock {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let (config, hidden) = (&loader.config.attention, loader.config.hidden_size);
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let qkv = [("self_attn.q_proj", q_width), ("self_attn.k_proj", kv_width), ("self_attn.v_proj", kv_width)];
        let head_norm = |part: &str| config.qk_norm.then(|| loader.vector(part, config.head_dim)).transpose();
        Ok(Self {
            norm: loader.norm("input_layernorm.weight")?,
            qkv: loader.linear(&qkv, hidden, config.qkv_bias)?,
            q_norm: head_norm("self_attn.q_norm.weight")?,
            k_norm: head_norm("self_attn.k_norm.weight")?,
            attention: Attention { layout: qkv_layout(config), window: loader.config.sliding_windows[loader.index] },
            output: loader.linear(&[("self_attn.o_proj", hidden)], q_width, config.output_bias)?,
        })
    }
}

impl FeedForward {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let (config, hidden) = (&loader.config.feed_forward, loader.config.hidden_size);
        let gate_up = [("mlp.gate_proj", config.intermediate_size), ("mlp.up_proj", config.intermediate_size)];
        Ok(Self {
            norm: loader.norm("post_attention_layernorm.weight")?,
            gate_up: loader.linear(&gate_up, hidden, config.bias)?,
            down: loader.linear(&[("mlp.down_proj", hidden)], config.intermediate_size, config.bias)?,
        })
    }
}

/// Packs `[out_i, in_features]` matrices one below the other, with their biases if `bias` says so.
pub(super) fn load_linear(
    weights: &Weights,
    target: &Target,
    parts: &[(String, usize)],
    in_features: usize,
    bias: bool,
) -> Result<Linear> {
    // Checked before memory is allocated: the files bound the sizes that a config claims.
    for (name, out_features) in parts {
        weights.check(&format!("{name}.weight"), &[*out_features, in_features])?;
    }
    let rows = parts.iter().map(|(_, out_features)| out_features).sum();
    let matrices = parts.iter().map(|(name, out_features)| {
        weights.matrix(target.dtype(), &format!("{name}.weight"), [*out_features, in_features])
    });
    let part = |(name, out_features): &(String, usize)| weights.read(&format!("{name}.bias"), &[*out_features]);
    let biases = bias.then(|| parts.iter().map(part).collect::<Result<Vec<Vec<f32>>>>()).transpose()?;
    Linear::load(target, (rows, in_features), matrices, biases.map(|biases| biases.concat()))
}
