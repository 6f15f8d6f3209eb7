//! Weights of a transformer on a device, loaded by its description.

use crate::config::{AttentionConfig, NormKind, Placement, PositionsConfig, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{Attention, Linear, Norm, Rotary, ScoreBias, Table, Target, Vector};
use prefold_kernels::{Activation, Dtype, QkvLayout, RelativeBias};
use std::sync::Arc;

type Result<T> = std::result::Result<T, LoadError>;

/// All weights of a transformer without a head.
#[derive(Debug)]
pub(super) struct TransformerWeights {
    pub(super) embeddings: Embeddings,
    pub(super) layers: Vec<Layer>,
    pub(super) placement: Placement,
    /// The norm after the last layer, where norms are before blocks.
    pub(super) final_norm: Option<Norm>,
    /// The rotation of queries and keys, where positions are rotary.
    pub(super) rotary: Option<Rotary>,
    pub(super) qkv: QkvLayout,
}

/// What embeddings are summed from, and what is done with the sum.
#[derive(Debug)]
pub(super) struct Embeddings {
    /// `[vocab_size, size]`
    pub(super) words: Table,
    /// `[rows, size]`
    pub(super) positions: Option<Table>,
    /// `[token_types, size]`
    pub(super) token_types: Option<Table>,
    pub(super) norm: Option<Norm>,
    /// `[hidden_size, size]`
    pub(super) projection: Option<Linear>,
}

/// One layer: an attention block and a feed-forward block, each with a norm.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention: AttentionBlock,
    pub(super) feed_forward: FeedForward,
}

#[derive(Debug)]
pub(super) struct AttentionBlock {
    pub(super) norm: Norm,
    /// Q, K and V in one matrix, in this order.
    pub(super) qkv: Linear,
    pub(super) q_norm: Option<Vector>,
    pub(super) k_norm: Option<Vector>,
    pub(super) attention: Attention,
    pub(super) output: Linear,
}

#[derive(Debug)]
pub(super) struct FeedForward {
    pub(super) norm: Norm,
    /// The up projection; gate and up in one matrix, in this order, where there is a gate.
    pub(super) input: Linear,
    pub(super) gated: bool,
    pub(super) activation: Activation,
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
        let loader = |index, bias| Loader { config, weights, target, bias, prefix: config.names.layer(index), index };
        let top = Loader { prefix: String::new(), ..loader(0, None) };
        // Before the biases, whose memory is bounded by the table of positions that the file has.
        let embeddings = Embeddings::load(&top)?;
        let bias = relative_bias(config, weights, positions)?;
        let bias = bias.map(|bias| ScoreBias::new(bias, target)).transpose()?.map(Arc::new);
        let layers = (0..config.num_layers).map(|index| Layer::load(&loader(index, bias.as_ref())));
        let rotary = match &config.positions {
            PositionsConfig::Rotary(rope) => {
                let frequencies = rope.inverse_frequencies(config.attention.head_dim);
                Some(Rotary::new(&frequencies, positions, config.norm.eps, target)?)
            }
            PositionsConfig::Learned(_) => None,
        };
        Ok(Self {
            embeddings,
            layers: layers.collect::<Result<_>>()?,
            placement: config.norm.placement,
            final_norm: match config.norm.placement {
                Placement::Before => Some(top.norm(config.names.final_norm, config.hidden_size)?),
                Placement::After => None,
            },
            rotary,
            qkv: qkv_layout(&config.attention),
        })
    }
}

impl TransformerWeights {
    /// All layers of products.
    pub(super) fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.embeddings.projection.iter().chain(self.layers.iter().flat_map(|layer| {
            [&layer.attention.qkv, &layer.attention.output, &layer.feed_forward.input, &layer.feed_forward.down]
        }))
    }
}

/// The biases of scores by distance, from the buckets' of the file.
fn relative_bias(config: &TransformerConfig, weights: &Weights, positions: usize) -> Result<Option<RelativeBias>> {
    let (Some(buckets), heads) = (config.attention.relative_bias, config.attention.num_heads) else { return Ok(None) };
    let name = format!("{}.weight", config.names.relative_bias);
    let values = weights.read::<f32>(&name, &[buckets.buckets, heads])?;
    let bias = |head, distance| values[buckets.bucket(distance) * heads + head];
    Ok(Some(RelativeBias::new(heads, positions, bias)))
}

/// Heads of a fused QKV matrix.
pub(super) fn qkv_layout(config: &AttentionConfig) -> QkvLayout {
    QkvLayout { num_heads: config.num_heads, num_kv_heads: config.num_kv_heads, head_dim: config.head_dim }
}

/// Loads the tensors of one layer, or those outside of the layers.
#[derive(Clone)]
struct Loader<'a> {
    config: &'a TransformerConfig,
    weights: &'a Weights,
    target: &'a Target,
    bias: Option<&'a Arc<ScoreBias>>,
    /// Before every name.
    prefix: String,
    index: usize,
}

impl Loader<'_> {
    fn vector(&self, name: &str, len: usize) -> Result<Vector> {
        Vector::new(self.weights.read(&format!("{}{name}", self.prefix), &[len])?, self.target)
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let weight = self.vector(&format!("{name}.weight"), width)?;
        Ok(match self.config.norm.kind {
            NormKind::Rms => Norm::rms(weight, self.config.norm.eps),
            NormKind::Layer => Norm::layer(weight, self.vector(&format!("{name}.bias"), width)?, self.config.norm.eps),
        })
    }

    fn linear(&self, parts: &[(&str, usize)], in_features: usize, bias: bool) -> Result<Linear> {
        let parts: Vec<(String, usize)> =
            parts.iter().map(|&(name, out)| (format!("{}{name}", self.prefix), out)).collect();
        load_linear(self.weights, self.target, &parts, in_features, bias)
    }

    fn table(&self, name: &str, rows: usize) -> Result<Table> {
        let shape = [rows, self.config.embeddings.size];
        let name = format!("{}{name}.weight", self.prefix);
        if self.target.dtype() == Dtype::Int8 {
            // Checked before memory is allocated: the files bound the sizes that a config claims.
            self.weights.check(&name, &shape)?;
            return Table::quantize(shape, |rows| self.weights.f32_rows(&name, shape, rows));
        }
        let table = self.weights.matrix(self.target.dtype(), &name, shape)?;
        Ok(Table::Plain(self.target.upload(&table)?))
    }
}

impl Embeddings {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let TransformerConfig { names, embeddings: config, hidden_size, .. } = loader.config;
        let is_projected = config.size != *hidden_size;
        Ok(Self {
            words: loader.table(names.words, loader.config.vocab_size)?,
            positions: match loader.config.positions {
                PositionsConfig::Rotary(_) => None,
                PositionsConfig::Learned(positions) => Some(loader.table(names.positions, positions.rows)?),
            },
            token_types: match config.token_types {
                0 => None,
                rows => Some(loader.table(names.token_types, rows)?),
            },
            norm: config.norm.then(|| loader.norm(names.embedding_norm, config.size)).transpose()?,
            projection: is_projected
                .then(|| loader.linear(&[(names.embedding_projection, *hidden_size)], config.size, true))
                .transpose()?,
        })
    }
}

impl Layer {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        Ok(Self { attention: AttentionBlock::load(loader)?, feed_forward: FeedForward::load(loader)? })
    }
}

impl AttentionBlock {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let TransformerConfig { attention: config, names, hidden_size: hidden, sliding_windows, .. } = loader.config;
        let (q_width, kv_width) = (config.q_width(), config.kv_width());
        let qkv = [(names.q, q_width), (names.k, kv_width), (names.v, kv_width)];
        let head_norm =
            |name: &str| config.qk_norm.then(|| loader.vector(&format!("{name}.weight"), config.head_dim)).transpose();
        Ok(Self {
            norm: loader.norm(names.attention_norm, *hidden)?,
            qkv: loader.linear(&qkv, *hidden, config.qkv_bias)?,
            q_norm: head_norm(names.q_norm)?,
            k_norm: head_norm(names.k_norm)?,
            attention: Attention {
                layout: qkv_layout(config),
                window: sliding_windows[loader.index],
                bias: loader.bias.cloned(),
                rounds_factors: loader.target.rounds_attention(),
            },
            output: loader.linear(&[(names.output, *hidden)], q_width, config.output_bias)?,
        })
    }
}

impl FeedForward {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let TransformerConfig { feed_forward: config, names, hidden_size: hidden, .. } = loader.config;
        let input = [(names.gate, config.intermediate_size), (names.up, config.intermediate_size)];
        let input = if config.gated { &input[..] } else { &input[1..] };
        Ok(Self {
            norm: loader.norm(names.feed_forward_norm, *hidden)?,
            input: loader.linear(input, *hidden, config.bias)?,
            gated: config.gated,
            activation: config.activation,
            down: loader.linear(&[(names.down, *hidden)], config.intermediate_size, config.bias)?,
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
    let dtype = target.dtype_of(parts.iter().map(|(name, _)| name.as_str()));
    let matrices = parts
        .iter()
        .map(|(name, out_features)| weights.matrix(dtype, &format!("{name}.weight"), [*out_features, in_features]));
    let part = |(name, out_features): &(String, usize)| weights.read(&format!("{name}.bias"), &[*out_features]);
    let biases = bias.then(|| parts.iter().map(part).collect::<Result<Vec<Vec<f32>>>>()).transpose()?;
    let name = parts.first().map_or("", |(name, _)| name);
    Linear::load(target, (name, dtype), (rows, in_features), matrices, biases.map(|biases| biases.concat()))
}
