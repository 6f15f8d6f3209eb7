//! Weights of a transformer on a device, loaded by its description.

use crate::config::{
    AttentionConfig, DistanceBias, ExpertsConfig, NormKind, Part, Placement, PositionsConfig, RopeConfig, RotaryConfig,
    TransformerConfig, alibi_slopes, parts,
};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{Attention, Linear, Norm, Rotary, ScoreBias, Table, Target, Vector};
use candle_core::Tensor;
use prefold_kernels::{Activation, Dtype, QkvLayout, RelativeBias};
use std::sync::Arc;

type Result<T> = std::result::Result<T, LoadError>;

/// All weights of a transformer without a head.
#[derive(Debug)]
pub(super) struct TransformerWeights {
    pub(super) embeddings: Embeddings,
    pub(super) layers: Vec<Layer>,
    /// The norm after the last layer, where norms are before blocks.
    pub(super) final_norm: Option<Norm>,
    /// `[output_size, hidden_size]`, after the last norm.
    pub(super) output_projection: Option<Linear>,
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
    /// Factor on the sum; `None` for 1.
    pub(super) scale: Option<f32>,
    /// `[hidden_size, size]`
    pub(super) projection: Option<Linear>,
}

/// One layer: an attention block and a feed-forward block, each with norms.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention: AttentionBlock,
    pub(super) feed_forward: FeedForward,
}

/// Norms of a block.
#[derive(Debug)]
pub(super) struct Norms {
    /// Of the block's input.
    pub(super) input: Option<Norm>,
    /// Of the block's output, before it is added to the input.
    pub(super) output: Option<Norm>,
    /// Of the sum of the two.
    pub(super) sum: Option<Norm>,
}

#[derive(Debug)]
pub(super) struct AttentionBlock {
    pub(super) norms: Norms,
    /// Q, K and V in one matrix, in this order.
    pub(super) qkv: Linear,
    pub(super) q_norm: Option<Vector>,
    pub(super) k_norm: Option<Vector>,
    /// The rotation of queries and keys, where positions are rotary.
    pub(super) rotary: Option<Arc<Rotary>>,
    pub(super) attention: Attention,
    pub(super) output: Linear,
}

#[derive(Debug)]
pub(super) struct FeedForward {
    pub(super) norms: Norms,
    pub(super) block: Block,
}

/// What a feed-forward block computes.
#[derive(Debug)]
pub(super) enum Block {
    Dense(Dense),
    Experts(Experts),
}

#[derive(Debug)]
pub(super) struct Dense {
    /// The up projection; gate and up in one matrix, in this order, where there is a gate.
    pub(super) input: Linear,
    pub(super) gated: bool,
    pub(super) activation: Activation,
    pub(super) down: Linear,
}

/// Experts and the matrix that scores them.
#[derive(Debug)]
pub(super) struct Experts {
    /// `[experts, hidden]`, always float32.
    pub(super) router: Linear,
    pub(super) experts: Vec<Expert>,
    /// Experts of a row.
    pub(super) top: usize,
    pub(super) activation: Activation,
    pub(super) bias: Vector,
}

/// One expert: two products with an activation between them.
#[derive(Debug)]
pub(super) struct Expert {
    pub(super) up: Linear,
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
        let top = Loader { config, weights, target, bias: None, rotary: None, prefix: String::new(), index: 0 };
        // Before the biases, whose memory is bounded by the table of positions that the file has.
        let embeddings = Embeddings::load(&top)?;
        let bias = relative_bias(config, weights, positions)?;
        let bias = bias.map(|bias| ScoreBias::new(bias, target)).transpose()?.map(Arc::new);
        let rotary = Rotations::new(config, positions, target)?;
        let layers = (0..config.num_layers).map(|index| {
            let rotary = rotary.as_ref().map(|rotary| rotary.of_layer(config, index));
            Layer::load(&Loader { bias: bias.as_ref(), rotary, prefix: config.names.layer(index), index, ..top })
        });
        Ok(Self {
            embeddings,
            layers: layers.collect::<Result<_>>()?,
            final_norm: match config.norm.placement {
                Placement::Before | Placement::Around => Some(top.norm(config.names.final_norm, config.hidden_size)?),
                Placement::After => None,
            },
            output_projection: match config.output_size == config.hidden_size {
                true => None,
                false => {
                    let parts = [(config.names.output_projection, config.output_size)];
                    Some(top.linear(&parts, config.hidden_size, false)?)
                }
            },
            qkv: qkv_layout(&config.attention),
        })
    }
}

impl TransformerWeights {
    /// All layers of products.
    pub(super) fn linears(&self) -> impl Iterator<Item = &Linear> {
        let around = self.embeddings.projection.iter().chain(&self.output_projection);
        around.chain(self.layers.iter().flat_map(|layer| {
            let attention = [&layer.attention.qkv, &layer.attention.output];
            let block = match &layer.feed_forward.block {
                Block::Dense(dense) => vec![&dense.input, &dense.down],
                Block::Experts(experts) => experts.experts.iter().flat_map(|it| [&it.up, &it.down]).collect(),
            };
            attention.into_iter().chain(block)
        }))
    }
}

/// Rotations of layers without and with a window.
struct Rotations {
    full: Arc<Rotary>,
    windowed: Arc<Rotary>,
}

impl Rotations {
    /// Tables for sequences of up to `positions` tokens; none where positions are not rotary.
    fn new(config: &TransformerConfig, positions: usize, target: &Target) -> Result<Option<Self>> {
        let PositionsConfig::Rotary(RotaryConfig { full, windowed }) = &config.positions else { return Ok(None) };
        let table = |rope: &RopeConfig| -> Result<Arc<Rotary>> {
            let frequencies = rope.inverse_frequencies(config.attention.head_dim);
            Ok(Arc::new(Rotary::new(&frequencies, positions, config.norm.eps, target)?))
        };
        let first = table(full)?;
        let windowed = if windowed == full { Arc::clone(&first) } else { table(windowed)? };
        Ok(Some(Self { full: first, windowed }))
    }

    fn of_layer(&self, config: &TransformerConfig, index: usize) -> &Arc<Rotary> {
        match config.sliding_windows[index] {
            None => &self.full,
            Some(_) => &self.windowed,
        }
    }
}

/// The biases of scores by distance.
fn relative_bias(config: &TransformerConfig, weights: &Weights, positions: usize) -> Result<Option<RelativeBias>> {
    let heads = config.attention.num_heads;
    Ok(match config.attention.distance_bias {
        None => None,
        Some(DistanceBias::Buckets(buckets)) => {
            let name = format!("{}.weight", config.names.relative_bias);
            let values = weights.read::<f32>(&name, &[buckets.buckets, heads])?;
            let bias = |head, distance| values[buckets.bucket(distance) * heads + head];
            Some(RelativeBias::new(heads, positions, bias))
        }
        Some(DistanceBias::Alibi) => {
            let slopes = alibi_slopes(heads);
            let bias = |head: usize, distance: isize| -slopes[head] * distance.unsigned_abs() as f32;
            Some(RelativeBias::new(heads, positions, bias))
        }
    })
}

/// Heads of a fused QKV matrix.
pub(super) fn qkv_layout(config: &AttentionConfig) -> QkvLayout {
    QkvLayout { num_heads: config.num_heads, num_kv_heads: config.num_kv_heads, head_dim: config.head_dim }
}

/// Loads the tensors of one layer, or those outside of the layers.
struct Loader<'a> {
    config: &'a TransformerConfig,
    weights: &'a Weights,
    target: &'a Target,
    bias: Option<&'a Arc<ScoreBias>>,
    rotary: Option<&'a Arc<Rotary>>,
    /// Before every name.
    prefix: String,
    index: usize,
}

impl Loader<'_> {
    fn vector(&self, name: &str, len: usize) -> Result<Vector> {
        Vector::new(self.weights.read(&format!("{}{name}", self.prefix), &[len])?, self.target)
    }

    /// The weight of a norm.
    fn norm_weight(&self, name: &str, width: usize) -> Result<Vector> {
        let mut weight: Vec<f32> = self.weights.read(&format!("{}{name}.weight", self.prefix), &[width])?;
        if self.config.norm.kind == NormKind::RmsPlusOne {
            weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Vector::new(weight, self.target)
    }

    fn norm(&self, name: &str, width: usize) -> Result<Norm> {
        let (weight, eps) = (self.norm_weight(name, width)?, self.config.norm.eps);
        Ok(match self.config.norm.kind {
            NormKind::Rms | NormKind::RmsPlusOne => Norm::rms(weight, eps),
            NormKind::Layer => Norm::layer(weight, self.vector(&format!("{name}.bias"), width)?, eps),
            NormKind::LayerUnbiased => Norm::layer(weight, Vector::new(vec![0.0; width], self.target)?, eps),
        })
    }

    /// The norms of a block: `name` of its input or of the sum, `output` of its output.
    fn norms(&self, name: &str, output: &str) -> Result<Norms> {
        let norm = |name: &str| self.norm(name, self.config.hidden_size).map(Some);
        Ok(match self.config.norm.placement {
            Placement::Before => Norms { input: norm(name)?, output: None, sum: None },
            Placement::After => Norms { input: None, output: None, sum: norm(name)? },
            Placement::Around => Norms { input: norm(name)?, output: norm(output)?, sum: None },
        })
    }

    fn linear(&self, parts: &[(&str, usize)], in_features: usize, bias: bool) -> Result<Linear> {
        self.linear_of(&crate::config::parts(&self.prefix, parts), in_features, bias)
    }

    fn linear_of(&self, parts: &[Part], in_features: usize, bias: bool) -> Result<Linear> {
        load_linear(self.weights, self.target, parts, in_features, bias)
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
                PositionsConfig::Rotary(_) | PositionsConfig::Biases => None,
                PositionsConfig::Learned(positions) => Some(loader.table(names.positions, positions.rows)?),
            },
            token_types: match config.token_types {
                0 => None,
                rows => Some(loader.table(names.token_types, rows)?),
            },
            norm: config.norm.then(|| loader.norm(names.embedding_norm, config.size)).transpose()?,
            scale: (config.scale != 1.0).then_some(config.scale),
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
        let TransformerConfig { attention: config, names, hidden_size: hidden, sliding_windows, norm, .. } =
            loader.config;
        let qkv = loader.config.qkv_parts(&loader.prefix);
        let head_norm = |name: &str| config.qk_norm.then(|| loader.norm_weight(name, config.head_dim)).transpose();
        let norms = match loader.index == 0 && !norm.first_attention {
            true => Norms { input: None, output: None, sum: None },
            false => loader.norms(names.attention_norm, names.attention_output_norm)?,
        };
        Ok(Self {
            norms,
            qkv: loader.linear_of(&qkv, *hidden, config.qkv_bias)?,
            q_norm: head_norm(names.q_norm)?,
            k_norm: head_norm(names.k_norm)?,
            rotary: loader.rotary.cloned(),
            attention: Attention {
                layout: qkv_layout(config),
                window: sliding_windows[loader.index],
                scale: config.scale.unwrap_or_else(|| 1.0 / (config.head_dim as f32).sqrt()),
                bias: loader.bias.cloned(),
            },
            output: loader.linear(&[(names.output, *hidden)], config.q_width(), config.output_bias)?,
        })
    }
}

impl FeedForward {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let names = &loader.config.names;
        Ok(Self {
            norms: loader.norms(names.feed_forward_norm, names.feed_forward_output_norm)?,
            block: match loader.config.experts(loader.index) {
                None => Block::Dense(Dense::load(loader)?),
                Some(experts) => Block::Experts(Experts::load(loader, experts)?),
            },
        })
    }
}

impl Dense {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let TransformerConfig { feed_forward: config, names, hidden_size: hidden, .. } = loader.config;
        Ok(Self {
            input: loader.linear_of(&loader.config.feed_forward_parts(&loader.prefix), *hidden, config.input_bias)?,
            gated: config.gated,
            activation: config.activation,
            down: loader.linear(&[(names.down, *hidden)], config.intermediate_size, config.output_bias)?,
        })
    }
}

impl Experts {
    fn load(loader: &Loader<'_>, config: ExpertsConfig) -> Result<Self> {
        let TransformerConfig { feed_forward, names, hidden_size: hidden, .. } = *loader.config;
        let width = feed_forward.intermediate_size;
        let name = |name: &str| format!("{}{name}", loader.prefix);
        let (up, down) = (name(names.experts_up), name(names.experts_down));
        let dtype = loader.target.dtype_of([up.as_str(), down.as_str()].into_iter());
        let matrix = |name: &str| {
            let shape = [config.count * width, hidden];
            // Checked before memory is allocated: the files bound the sizes that a config claims.
            loader.weights.check(name, &shape)?;
            loader.weights.matrix(dtype, name, shape)
        };
        let (ups, downs) = (matrix(&up)?, matrix(&down)?);
        let expert = |index: usize| {
            let rows = |all: &Tensor| all.narrow(0, index * width, width);
            // The second matrix is stored with a row for each value between the two.
            let (first, second) = (rows(&ups)?, rows(&downs)?.t()?.contiguous()?);
            let load = |name: &str, shape, matrix| {
                let name = format!("{name}.{index}");
                Linear::load(loader.target, (&name, dtype), shape, std::iter::once(Ok(matrix)), None)
            };
            Ok(Expert { up: load(&up, (width, hidden), first)?, down: load(&down, (hidden, width), second)? })
        };
        let router = parts(&loader.prefix, &[(names.router, config.count)]);
        Ok(Self {
            router: load_linear(loader.weights, &Target::cpu(Dtype::Float32), &router, hidden, false)?,
            experts: (0..config.count).map(expert).collect::<Result<_>>()?,
            top: config.top,
            activation: feed_forward.activation,
            bias: loader.vector(names.experts_bias, hidden)?,
        })
    }
}

/// The rows of a file's matrix as the layer has them.
fn in_order(part: &Part, matrix: Tensor) -> Result<Vec<Tensor>> {
    let half = part.rows / 2;
    Ok(match part.swapped {
        true => vec![matrix.narrow(0, half, part.rows - half)?, matrix.narrow(0, 0, half)?],
        false => vec![matrix],
    })
}

/// Packs `[rows, in_features]` matrices one below the other, with their biases if `bias` says so.
pub(super) fn load_linear(
    weights: &Weights,
    target: &Target,
    parts: &[Part],
    in_features: usize,
    bias: bool,
) -> Result<Linear> {
    // Checked before memory is allocated: the files bound the sizes that a config claims.
    for part in parts {
        weights.check(&format!("{}.weight", part.name), &[part.rows, in_features])?;
    }
    let rows = parts.iter().map(|part| part.rows).sum();
    let dtype = target.dtype_of(parts.iter().map(|part| part.name.as_str()));
    let matrices = parts.iter().flat_map(|part| {
        let matrix = weights.matrix(dtype, &format!("{}.weight", part.name), [part.rows, in_features]);
        match matrix.and_then(|matrix| in_order(part, matrix)) {
            Ok(matrices) => matrices.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }
    });
    let vector = |part: &Part| {
        let mut vector: Vec<f32> = weights.read(&format!("{}.bias", part.name), &[part.rows])?;
        if part.swapped {
            vector.rotate_left(part.rows / 2);
        }
        Ok(vector)
    };
    let biases = bias.then(|| parts.iter().map(vector).collect::<Result<Vec<Vec<f32>>>>()).transpose()?;
    let name = parts.first().map_or("", |part| &part.name);
    Linear::load(target, (name, dtype), (rows, in_features), matrices, biases.map(|biases| biases.concat()))
}
