//! Weights of a transformer on a device, loaded by its description.

use super::adapted::WordFactors;
use super::attention::AttentionBlock;
use super::convolution::ConvolutionBlock;
use super::distances::Distances;
use super::feed_forward::{Block, FeedForward};
use super::loader::Loader;
use crate::config::{
    DistanceBias, NormPlacement, PositionsConfig, RelativeBuckets, RopeConfig, RotaryConfig, TransformerConfig,
    alibi_slopes,
};
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{Linear, Norm, Rotary, ScoreBias, Table, Target};
use prefold_kernels::RelativeBias;
use std::sync::Arc;

type Result<T> = std::result::Result<T, LoadError>;

/// All weights of a transformer without a head.
#[derive(Debug)]
pub(super) struct TransformerWeights {
    pub(super) embeddings: Embeddings,
    pub(super) layers: Vec<Layer>,
    /// The norm after the last layer, in models with norms before blocks.
    pub(super) final_norm: Option<Norm>,
    /// `[output_size, hidden_size]`, after the last norm.
    pub(super) output_projection: Option<Linear>,
}

/// Embeddings of a token: tables whose rows are summed, and the layers that the sum goes through.
#[derive(Debug)]
pub(super) struct Embeddings {
    /// `[vocab_size, size]`
    pub(super) words: Table,
    /// LoRA of the word embeddings.
    pub(super) word_factors: Option<WordFactors>,
    /// `[rows, size]`
    pub(super) positions: Option<Table>,
    /// `[token_types, size]`, and as many rows again for each adapter.
    pub(super) token_types: Option<Table>,
    pub(super) norm: Option<Norm>,
    /// Factor on the sum; `None` for 1.
    pub(super) scale: Option<f32>,
    /// `[hidden_size, size]`
    pub(super) projection: Option<Linear>,
}

/// One layer: a block that mixes rows and a feed-forward block, each with norms.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) mixer: Mixer,
    pub(super) feed_forward: FeedForward,
}

/// The block of a layer that mixes the rows of a text.
#[derive(Debug)]
pub(super) enum Mixer {
    Attention(Box<AttentionBlock>),
    Convolution(Box<ConvolutionBlock>),
}

impl TransformerWeights {
    /// Packs the weights for the device. Sequences have up to `positions` tokens.
    pub(super) fn load(
        config: &TransformerConfig,
        weights: &Weights,
        positions: usize,
        target: &Target,
    ) -> Result<Self> {
        let top = Loader { config, weights, target, bias: None, rotary: None, prefix: String::new(), index: 0 };
        // Before the biases, whose memory is bounded by the file's table of positions.
        let embeddings = Embeddings::load(&top)?;
        let bias = score_bias(&top, positions)?;
        let rotary = Rotations::new(config, positions, target)?;
        let distances = Distances::load(&top, positions)?;
        let layers = (0..config.num_layers).map(|index| {
            let rotary = rotary.as_ref().map(|rotary| rotary.of_layer(config, index));
            let of_layer = Loader { bias: bias.as_ref(), rotary, prefix: config.names.layer(index), index, ..top };
            let own = layer_bias(&of_layer, positions)?;
            Layer::load(&Loader { bias: own.as_ref().or(of_layer.bias), ..of_layer }, distances.as_ref())
        });
        Ok(Self {
            embeddings,
            layers: layers.collect::<Result<_>>()?,
            final_norm: match config.norm.placement {
                NormPlacement::Pre | NormPlacement::PrePost => {
                    Some(top.norm(config.names.final_norm, config.hidden_size)?)
                }
                NormPlacement::Post => None,
            },
            output_projection: if config.names.output_projection.is_empty() {
                None
            } else {
                let parts = [(config.names.output_projection, config.output_size)];
                Some(top.linear(&parts, config.hidden_size, false)?)
            },
        })
    }
}

impl TransformerWeights {
    /// All linear layers.
    pub(super) fn linears(&self) -> impl Iterator<Item = &Linear> {
        let around = self.embeddings.projection.iter().chain(&self.output_projection);
        around.chain(self.layers.iter().flat_map(|layer| {
            let mixer = match &layer.mixer {
                Mixer::Attention(block) => [&block.qkv.linear, &block.output.linear],
                Mixer::Convolution(block) => [&block.input.linear, &block.output.linear],
            };
            let block = match &layer.feed_forward.block {
                Block::Dense(dense) => vec![&dense.input.linear, &dense.down.linear],
                Block::Experts(experts) => experts.experts.iter().flat_map(|it| [&it.up, &it.down]).collect(),
            };
            mixer.into_iter().chain(block)
        }))
    }
}

/// RoPE caches of layers without and with a window.
struct Rotations {
    full: Arc<Rotary>,
    windowed: Arc<Rotary>,
}

impl Rotations {
    /// RoPE caches for sequences of up to `positions` tokens; `None` in models without RoPE.
    fn new(config: &TransformerConfig, positions: usize, target: &Target) -> Result<Option<Self>> {
        let PositionsConfig::Rotary(rotary) = &config.positions else { return Ok(None) };
        let RotaryConfig { full, windowed, .. } = rotary;
        let growth = rotary.growth_within(positions);
        let factor = growth.map(|growth| move |position| growth.factor(position));
        let table = |rope: &RopeConfig| -> Result<Arc<Rotary>> {
            let frequencies = rope.inverse_frequencies(config.attention.head_dim);
            Ok(Arc::new(Rotary::new(&frequencies, positions, factor, config.norm.eps, target)?))
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

/// The biases of scores by distance that all layers share.
fn score_bias(top: &Loader<'_>, positions: usize) -> Result<Option<Arc<ScoreBias>>> {
    let heads = top.config.attention.num_heads;
    let bias = match top.config.attention.distance_bias {
        None | Some(DistanceBias::LayerBuckets(_)) => return Ok(None),
        Some(DistanceBias::Buckets(buckets)) => learned_bias(top, buckets, positions)?,
        Some(DistanceBias::Alibi) => {
            let slopes = alibi_slopes(heads);
            let bias = |head: usize, distance: isize| -slopes[head] * distance.unsigned_abs() as f32;
            RelativeBias::new(heads, positions, bias)
        }
    };
    Ok(Some(Arc::new(ScoreBias::new(bias, top.target)?)))
}

/// The biases of the loader's layer, in models whose layers have their own.
fn layer_bias(loader: &Loader<'_>, positions: usize) -> Result<Option<Arc<ScoreBias>>> {
    let Some(DistanceBias::LayerBuckets(buckets)) = loader.config.attention.distance_bias else { return Ok(None) };
    let bias = learned_bias(loader, buckets, positions)?;
    Ok(Some(Arc::new(ScoreBias::new(bias, loader.target)?)))
}

/// Biases of buckets of distances.
fn learned_bias(loader: &Loader<'_>, buckets: RelativeBuckets, positions: usize) -> Result<RelativeBias> {
    let heads = loader.config.attention.num_heads;
    let name = format!("{}{}.weight", loader.prefix, loader.config.names.relative_bias);
    let values = loader.weights.read::<f32>(&name, &[buckets.rows, heads])?;
    Ok(RelativeBias::new(heads, positions, |head, distance| values[buckets.bucket(distance) * heads + head]))
}

impl Embeddings {
    fn load(loader: &Loader<'_>) -> Result<Self> {
        let TransformerConfig { names, embeddings: config, hidden_size, adapters, .. } = loader.config;
        let adapters = adapters.as_ref().filter(|adapters| adapters.of_tables);
        let is_projected = config.size != *hidden_size;
        Ok(Self {
            words: loader.table(names.words, loader.config.vocab_size)?,
            word_factors: adapters.map(|adapters| loader.word_factors(adapters)).transpose()?,
            positions: match loader.config.positions {
                PositionsConfig::Rotary(_) | PositionsConfig::Biases | PositionsConfig::Disentangled(_) => None,
                PositionsConfig::Learned(positions) => Some(loader.table(names.positions, positions.rows)?),
            },
            token_types: match (config.token_types, adapters) {
                (0, _) => None,
                (rows, None) => Some(loader.table(names.token_types, rows)?),
                (rows, Some(adapters)) => Some(loader.adapted_token_types(adapters, rows)?),
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
    fn load(loader: &Loader<'_>, distances: Option<&Distances>) -> Result<Self> {
        let mixer = match loader.config.convolution(loader.index) {
            None => Mixer::Attention(Box::new(AttentionBlock::load(loader, distances)?)),
            Some(config) => Mixer::Convolution(Box::new(ConvolutionBlock::load(loader, config)?)),
        };
        Ok(Self { mixer, feed_forward: FeedForward::load(loader)? })
    }
}
