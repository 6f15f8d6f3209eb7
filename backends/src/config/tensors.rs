//! Tensors of a transformer by name and shape: what a checkpoint must have.

use super::adapters::{first_factor, second_factor};
use super::{ConvolutionConfig, DistanceBias, HeadName, NormKind, NormPlacement, PositionsConfig, TransformerConfig};

/// A matrix of a file that is all or some of the rows of a linear layer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MatrixSlice {
    /// Without `.weight`.
    pub(crate) name: String,
    pub(crate) rows: usize,
    /// The second half of the rows comes first in the layer.
    pub(crate) swapped: bool,
}

/// The matrices of a linear layer, by name and rows; neighbours with the same name are one matrix.
pub(crate) fn slices(prefix: &str, names: &[(&str, usize)]) -> Vec<MatrixSlice> {
    let mut merged: Vec<MatrixSlice> = Vec::with_capacity(names.len());
    for &(name, rows) in names {
        let name = format!("{prefix}{name}");
        match merged.last_mut() {
            Some(last) if last.name == name => last.rows += rows,
            _ => merged.push(MatrixSlice { name, rows, swapped: false }),
        }
    }
    merged
}

/// A tensor's name and shape.
pub(crate) type Required = (String, Vec<usize>);

impl TransformerConfig {
    /// The matrices of q, k and v of a layer.
    pub(crate) fn qkv_slices(&self, prefix: &str) -> Vec<MatrixSlice> {
        let (q, kv) = (self.attention.q_width(), self.attention.kv_width());
        slices(prefix, &[(self.names.q, q), (self.names.k, kv), (self.names.v, kv)])
    }

    /// Rows of `lora_a` of all adapters in the layer that is made of most matrices, each of which has its own; 0 without adapters.
    pub(crate) fn adapter_columns(&self) -> usize {
        let parts = self.qkv_slices("").len().max(self.feed_forward_slices("").len());
        self.adapters.as_ref().map_or(0, |adapters| parts * adapters.width())
    }

    /// A layer's own projections of relative position embeddings.
    pub(crate) fn position_projections(&self) -> impl Iterator<Item = &'static str> {
        let own = match &self.positions {
            PositionsConfig::Disentangled(positions) if !positions.share_att_key => [positions.c2p, positions.p2c],
            _ => [false; 2],
        };
        let names = [self.names.position_key, self.names.position_query];
        own.into_iter().zip(names).filter_map(|(is_own, name)| is_own.then_some(name))
    }

    /// The matrices of a feed-forward block's first linear layer.
    pub(crate) fn feed_forward_slices(&self, prefix: &str) -> Vec<MatrixSlice> {
        let (names, width) = (&self.names, self.feed_forward.intermediate_size);
        let plain = if names.plain_up.is_empty() { names.up } else { names.plain_up };
        let mut input = match self.feed_forward.ffn_glu {
            true => slices(prefix, &[(names.gate, width), (names.up, width)]),
            false => slices(prefix, &[(plain, width)]),
        };
        input.iter_mut().for_each(|part| part.swapped = names.up_first);
        input
    }

    /// Calls `visit` with every tensor that the transformer loads, until one is refused.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub(crate) fn try_each_tensor<E>(&self, mut visit: impl FnMut(Required) -> Result<(), E>) -> Result<(), E> {
        let (hidden, names, width) = (self.hidden_size, &self.names, self.embeddings.size);
        let mut all = Tensors { config: self, list: Vec::new() };
        all.matrix(names.words, self.vocab_size, width);
        all.table_adapters(names.words, self.vocab_size);
        if let PositionsConfig::Learned(positions) = &self.positions {
            all.matrix(names.positions, positions.rows, width);
        }
        if self.embeddings.token_types > 0 {
            all.matrix(names.token_types, self.embeddings.token_types, width);
            all.table_adapters(names.token_types, self.embeddings.token_types);
        }
        if self.embeddings.norm {
            all.norm("", names.embedding_norm, width);
        }
        if width != hidden {
            all.linear(&slices("", &[(names.embedding_projection, hidden)]), width, true);
        }
        if let Some(DistanceBias::Buckets(buckets)) = self.attention.distance_bias {
            all.matrix(names.relative_bias, buckets.rows, self.attention.num_heads);
        }
        if let PositionsConfig::Disentangled(positions) = &self.positions {
            all.matrix(names.relative_bias, positions.rows(), hidden);
            if positions.norm_rel_ebd {
                all.norm("", names.relative_norm, hidden);
            }
        }
        if self.norm.placement != NormPlacement::Post {
            all.norm("", names.final_norm, hidden);
        }
        if !names.output_projection.is_empty() {
            all.linear(&slices("", &[(names.output_projection, self.output_size)]), hidden, false);
        }
        all.list.drain(..).try_for_each(&mut visit)?;
        for index in 0..self.num_layers {
            all.layer(index);
            all.list.drain(..).try_for_each(&mut visit)?;
        }
        Ok(())
    }

    /// The tensors of a classifier head with these layers.
    pub(crate) fn head_tensors(&self, layers: &[HeadName], num_labels: usize) -> Vec<Required> {
        let width = self.output_size;
        let mut all = Tensors { config: self, list: Vec::new() };
        for (index, layer) in layers.iter().enumerate() {
            let rows = if index + 1 == layers.len() { num_labels } else { width };
            all.linear(&slices("", &[(layer.name, rows)]), width, self.classifier.has_bias(layer));
            if !layer.norm.is_empty() {
                all.list.push((format!("{}.weight", layer.norm), vec![rows]));
                if self.norm.kind == NormKind::LayerNorm {
                    all.list.push((format!("{}.bias", layer.norm), vec![rows]));
                }
            }
        }
        all.list
    }
}

/// A list of tensors.
struct Tensors<'a> {
    config: &'a TransformerConfig,
    list: Vec<Required>,
}

impl Tensors<'_> {
    fn matrix(&mut self, name: &str, rows: usize, columns: usize) {
        self.list.push((format!("{name}.weight"), vec![rows, columns]));
    }

    fn linear(&mut self, parts: &[MatrixSlice], in_features: usize, bias: bool) {
        for MatrixSlice { name, rows, .. } in parts {
            self.list.push((format!("{name}.weight"), vec![*rows, in_features]));
            if bias {
                self.list.push((format!("{name}.bias"), vec![*rows]));
            }
        }
    }

    /// A linear layer with its LoRA adapters.
    fn projection(&mut self, parts: &[MatrixSlice], in_features: usize, bias: bool) {
        self.linear(parts, in_features, bias);
        if let Some(adapters) = &self.config.adapters {
            for MatrixSlice { name, rows, .. } in parts {
                self.list.push((first_factor(name), vec![adapters.count(), adapters.rank, in_features]));
                self.list.push((second_factor(name), vec![adapters.count(), *rows, adapters.rank]));
            }
        }
    }

    /// The LoRA adapters of embeddings.
    fn table_adapters(&mut self, name: &str, rows: usize) {
        if let Some(adapters) = self.config.adapters.as_ref().filter(|adapters| adapters.of_tables) {
            self.list.push((first_factor(name), vec![adapters.count(), rows, adapters.rank]));
            self.list.push((second_factor(name), vec![adapters.count(), adapters.rank, self.config.embeddings.size]));
        }
    }

    fn norm(&mut self, prefix: &str, name: &str, width: usize) {
        self.list.push((format!("{prefix}{name}.weight"), vec![width]));
        if self.config.norm.kind == NormKind::LayerNorm {
            self.list.push((format!("{prefix}{name}.bias"), vec![width]));
        }
    }

    fn layer(&mut self, index: usize) {
        let TransformerConfig { names, feed_forward, hidden_size: hidden, norm, .. } = self.config;
        let prefix = &names.layer(index);
        if index > 0 || norm.first_attention {
            self.norm(prefix, names.attention_norm, *hidden);
            if self.config.has_attention_output_norm() {
                self.norm(prefix, names.attention_output_norm, *hidden);
            }
        }
        match self.config.convolution(index) {
            None => self.attention(prefix),
            Some(config) => self.convolution(prefix, config),
        }
        self.norm(prefix, names.feed_forward_norm, *hidden);
        if norm.placement == NormPlacement::PrePost {
            self.norm(prefix, names.feed_forward_output_norm, *hidden);
        }
        if let Some(experts) = self.config.experts(index) {
            let rows = experts.num_experts * feed_forward.intermediate_size;
            self.matrix(&format!("{prefix}{}", names.router), experts.num_experts, *hidden);
            for name in [names.experts_up, names.experts_down] {
                self.list.push((format!("{prefix}{name}"), vec![rows, *hidden]));
            }
            self.list.push((format!("{prefix}{}", names.experts_bias), vec![*hidden]));
            return;
        }
        self.projection(&self.config.feed_forward_slices(prefix), *hidden, feed_forward.input_bias);
        let down = slices(prefix, &[(names.down, *hidden)]);
        self.projection(&down, feed_forward.intermediate_size, feed_forward.output_bias);
    }

    /// The attention block of a layer, without norms of its input and output.
    fn attention(&mut self, prefix: &str) {
        let TransformerConfig { names, attention, hidden_size: hidden, .. } = self.config;
        self.projection(&self.config.qkv_slices(prefix), *hidden, attention.qkv_bias);
        if let Some(DistanceBias::LayerBuckets(buckets)) = attention.distance_bias {
            self.matrix(&format!("{prefix}{}", names.relative_bias), buckets.rows, attention.num_heads);
        }
        for name in self.config.position_projections() {
            self.linear(&slices(prefix, &[(name, attention.q_width())]), *hidden, true);
        }
        if attention.qk_width_norm {
            self.norm(prefix, names.q_norm, attention.q_width());
            self.norm(prefix, names.k_norm, attention.kv_width());
        }
        if attention.qk_norm {
            for name in [names.q_norm, names.k_norm] {
                self.list.push((format!("{prefix}{name}.weight"), vec![attention.head_dim]));
            }
        }
        self.projection(&slices(prefix, &[(names.output, *hidden)]), attention.q_width(), attention.output_bias);
    }

    /// The convolution block of a layer, without its norm.
    fn convolution(&mut self, prefix: &str, config: ConvolutionConfig) {
        let TransformerConfig { names, hidden_size: hidden, .. } = self.config;
        self.projection(&slices(prefix, &[(names.convolution_input, 3 * hidden)]), *hidden, config.bias);
        self.list.push((format!("{prefix}{}.weight", names.convolution), vec![*hidden, 1, config.kernel]));
        if config.bias {
            self.list.push((format!("{prefix}{}.bias", names.convolution), vec![*hidden]));
        }
        self.projection(&slices(prefix, &[(names.convolution_output, *hidden)]), *hidden, config.bias);
    }
}
