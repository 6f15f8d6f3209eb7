//! The decoder of the whole family: Qwen3, Qwen2, Llama and Mistral differ in their [`DecoderConfig`] only.
//!
//! Everything but attention works on each row alone, so it runs on the rows of compute space; attention
//! follows the paths that [`Geometry`] lays out. In the last layer only the wanted rows are carried past
//! the keys and values. Blocks of rows bound the memory of the wide intermediate results.

use super::config::DecoderConfig;
use super::geometry::{Geometry, WantedRows};
use super::weights::Weights;
use crate::error::LoadError;
use crate::ops::{
    self, Attention, Buffer, HeadSpan, Linear, LinearBuilder, Pages, Pool, RmsNorm, Rotary, Store, Target, Vector,
};
use candle_core::{DType, Result, Tensor};
use prefold_kernels::QkvLayout;

/// A causal decoder without a head.
#[derive(Debug)]
pub(crate) struct Decoder {
    target: Target,
    weights: DecoderWeights,
    buffers: Buffers,
}

#[derive(Debug)]
struct DecoderWeights {
    /// `[vocab_size, hidden_size]`
    embeddings: Tensor,
    layers: Vec<Layer>,
    norm: RmsNorm,
    rotary: Rotary,
    layout: QkvLayout,
    hidden_size: usize,
    intermediate_size: usize,
}

#[derive(Debug)]
struct Layer {
    input_norm: RmsNorm,
    /// Q, K and V in one matrix, in this order.
    qkv: Linear,
    q_norm: Option<Vector>,
    k_norm: Option<Vector>,
    attention: Attention,
    output: Linear,
    post_attention_norm: RmsNorm,
    /// Gate and up in one matrix, in this order.
    gate_up: Linear,
    down: Linear,
}

/// What a forward pass writes to; reused by the next.
#[derive(Debug)]
struct Buffers {
    residual: Buffer,
    /// The residual stream of the wanted rows alone.
    wanted_residual: Buffer,
    normed: Buffer,
    qkv: Buffer,
    wanted_q: Buffer,
    ragged_qkv: Buffer,
    attended: Buffer,
    ragged_attended: Buffer,
    gate_up: Buffer,
    activated: Buffer,
    hidden: Buffer,
    pooled: Buffer,
}

impl Buffers {
    fn new(target: &Target) -> Result<Self> {
        let f32 = || Buffer::new(DType::F32, target);
        let projection = || Buffer::new(target.projections(), target);
        let activation = || Buffer::new(target.activations(), target);
        Ok(Self {
            residual: f32()?,
            wanted_residual: f32()?,
            normed: activation()?,
            qkv: projection()?,
            wanted_q: projection()?,
            ragged_qkv: projection()?,
            attended: activation()?,
            ragged_attended: activation()?,
            gate_up: projection()?,
            activated: activation()?,
            hidden: f32()?,
            pooled: f32()?,
        })
    }
}

impl Decoder {
    /// Brings the weights to the device, packed for it, for sequences of up to `positions` tokens.
    pub(crate) fn load(
        config: &DecoderConfig,
        weights: &Weights,
        positions: usize,
        target: &Target,
    ) -> std::result::Result<Self, LoadError> {
        let layers = (0..config.num_layers).map(|i| Layer::load(config, weights, target, i));
        let norm = Vector::new(weights.f32("model.norm.weight", &[config.hidden_size])?, target)?;
        let (vocab_size, hidden_size) = (config.vocab_size, config.hidden_size);
        let embeddings = weights.values(target.dtype(), "model.embed_tokens.weight", &[vocab_size, hidden_size])?;
        Ok(Self {
            weights: DecoderWeights {
                embeddings: embeddings.tensor((vocab_size, hidden_size), target)?,
                layers: layers.collect::<std::result::Result<_, _>>()?,
                norm: RmsNorm::new(norm, config.rms_norm_eps),
                rotary: Rotary::new(
                    &config.rope.inverse_frequencies(config.head_dim),
                    positions,
                    config.rms_norm_eps,
                    target,
                )?,
                layout: qkv_layout(config),
                hidden_size: config.hidden_size,
                intermediate_size: config.intermediate_size,
            },
            buffers: Buffers::new(target)?,
            target: target.clone(),
        })
    }

    /// The final states after the last norm, `[wanted rows or all rows, hidden_size]`, `f32`.
    pub(crate) fn forward(&mut self, geometry: &Geometry) -> Result<Tensor> {
        let Self { target, weights, buffers } = self;
        Pass { weights, buffers, geometry, row_block: target.row_block() }.run()
    }

    /// One pooled state for each sequence, `[sequences, hidden_size]`, from the states that [`forward`](Self::forward)
    /// returned; on the device.
    pub(crate) fn pool(&mut self, hidden: &Tensor, pool: &Pool) -> Result<Tensor> {
        let pooled = self.buffers.pooled.view(pool.len(), self.weights.hidden_size)?;
        pool.forward(hidden, &pooled)?;
        Ok(pooled)
    }

    /// Gives the memory of forward passes back.
    pub(crate) fn release_buffers(&mut self) -> Result<()> {
        self.buffers = Buffers::new(&self.target)?;
        Ok(())
    }
}

pub(crate) fn qkv_layout(config: &DecoderConfig) -> QkvLayout {
    QkvLayout { num_heads: config.num_heads, num_kv_heads: config.num_kv_heads, head_dim: config.head_dim }
}

/// Packs `[out_i, in_features]` matrices one below the other, with their biases if they have any.
pub(crate) fn load_linear(
    weights: &Weights,
    target: &Target,
    parts: &[(&str, usize)],
    in_features: usize,
    bias: bool,
) -> std::result::Result<Linear, LoadError> {
    // Before there is room made for them: what a config says is bounded by what the files hold.
    for &(name, out_features) in parts {
        weights.check(&format!("{name}.weight"), &[out_features, in_features])?;
    }
    let rows = parts.iter().map(|(_, out_features)| out_features).sum();
    let mut linear = LinearBuilder::new(target, rows, in_features)?;
    let mut all_biases = Vec::new();
    for &(name, out_features) in parts {
        let (weight, shape) = (format!("{name}.weight"), [out_features, in_features]);
        linear.push(weights.values(target.dtype(), &weight, &shape)?)?;
        if bias {
            all_biases.extend(weights.f32(&format!("{name}.bias"), &[out_features])?);
        }
    }
    linear.finish(bias.then_some(all_biases))
}

impl Layer {
    fn load(
        config: &DecoderConfig,
        weights: &Weights,
        target: &Target,
        index: usize,
    ) -> std::result::Result<Self, LoadError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let norm = |part: &str| -> std::result::Result<RmsNorm, LoadError> {
            let weight = Vector::new(weights.f32(&name(part), &[config.hidden_size])?, target)?;
            Ok(RmsNorm::new(weight, config.rms_norm_eps))
        };
        let head_norm = |part: &str| -> std::result::Result<Option<Vector>, LoadError> {
            let load = || Vector::new(weights.f32(&name(part), &[config.head_dim])?, target);
            config.qk_norm.then(load).transpose()
        };
        let linear = |parts: &[(&str, usize)], in_features, bias| {
            let parts: Vec<(String, usize)> = parts.iter().map(|&(part, out)| (name(part), out)).collect();
            let parts: Vec<(&str, usize)> = parts.iter().map(|(part, out)| (part.as_str(), *out)).collect();
            load_linear(weights, target, &parts, in_features, bias)
        };
        let (q_width, kv_width) = (config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim);
        let (hidden, intermediate) = (config.hidden_size, config.intermediate_size);
        Ok(Self {
            input_norm: norm("input_layernorm.weight")?,
            qkv: linear(
                &[("self_attn.q_proj", q_width), ("self_attn.k_proj", kv_width), ("self_attn.v_proj", kv_width)],
                hidden,
                config.qkv_bias,
            )?,
            q_norm: head_norm("self_attn.q_norm.weight")?,
            k_norm: head_norm("self_attn.k_norm.weight")?,
            attention: Attention { layout: qkv_layout(config), window: config.sliding_windows[index] },
            output: linear(&[("self_attn.o_proj", hidden)], q_width, config.o_bias)?,
            post_attention_norm: norm("post_attention_layernorm.weight")?,
            gate_up: linear(
                &[("mlp.gate_proj", intermediate), ("mlp.up_proj", intermediate)],
                hidden,
                config.mlp_bias,
            )?,
            down: linear(&[("mlp.down_proj", hidden)], intermediate, config.mlp_bias)?,
        })
    }
}

/// One forward pass.
struct Pass<'a> {
    weights: &'a DecoderWeights,
    buffers: &'a mut Buffers,
    geometry: &'a Geometry,
    row_block: usize,
}

impl Pass<'_> {
    fn run(mut self) -> Result<Tensor> {
        let weights = self.weights;
        let rows = self.geometry.input_ids.dims1()?;
        let mut residual = self.buffers.residual.view(rows, weights.hidden_size)?;
        ops::embed(&weights.embeddings, &self.geometry.input_ids, &residual)?;
        for (i, layer) in weights.layers.iter().enumerate() {
            match &self.geometry.wanted {
                Some(wanted) if i + 1 == weights.layers.len() => {
                    residual = self.attend_wanted(layer, &residual, wanted)?;
                }
                _ => self.attend(layer, &residual)?,
            }
            self.mlp(layer, &residual)?;
        }
        let hidden = self.buffers.hidden.view(residual.dim(0)?, weights.hidden_size)?;
        weights.norm.forward(&residual, &hidden)?;
        Ok(hidden)
    }

    /// `residual += O(attention(QKV(norm(residual))))`
    fn attend(&mut self, layer: &Layer, residual: &Tensor) -> Result<()> {
        let QkvLayout { num_heads, num_kv_heads, head_dim } = self.weights.layout;
        let q_width = num_heads * head_dim;
        let qkv = self.buffers.qkv.view(residual.dim(0)?, layer.qkv.out_features())?;
        self.project(layer, 0..layer.qkv.out_features(), residual, &qkv)?;
        let q = HeadSpan { offset: 0, num_heads, norm: layer.q_norm.as_ref() };
        let k = HeadSpan { offset: q_width, num_heads: num_kv_heads, norm: layer.k_norm.as_ref() };
        self.weights.rotary.forward(&qkv, &self.geometry.position_ids, &[q, k])?;

        let attended = self.buffers.attended.view(residual.dim(0)?, q_width)?;
        let pages = &self.geometry.pages;
        match &self.geometry.expansion {
            None => attention(layer, &qkv, q_width, pages, &attended)?,
            Some(expansion) => {
                let ragged = self.buffers.ragged_qkv.view(expansion.scatter.dims1()?, qkv.dim(1)?)?;
                let ragged_attended = self.buffers.ragged_attended.view(ragged.dim(0)?, q_width)?;
                ops::gather_rows(&qkv, &expansion.scatter, &ragged)?;
                attention(layer, &ragged, q_width, pages, &ragged_attended)?;
                ops::gather_rows(&ragged_attended, &expansion.gather, &attended)?;
            }
        }
        layer.output.forward(&attended, residual, Store::Accumulate)
    }

    /// The same for the wanted rows alone: K and V of all rows, Q and everything after of these.
    fn attend_wanted(&mut self, layer: &Layer, residual: &Tensor, wanted: &WantedRows) -> Result<Tensor> {
        let QkvLayout { num_heads, num_kv_heads, head_dim } = self.weights.layout;
        let (q_width, kv_width) = (num_heads * head_dim, 2 * num_kv_heads * head_dim);
        let mut kv = self.buffers.qkv.view(residual.dim(0)?, kv_width)?;
        self.project(layer, q_width..q_width + kv_width, residual, &kv)?;
        let k = HeadSpan { offset: 0, num_heads: num_kv_heads, norm: layer.k_norm.as_ref() };
        self.weights.rotary.forward(&kv, &self.geometry.position_ids, &[k])?;

        let count = wanted.index.dims1()?;
        let wanted_residual = self.buffers.wanted_residual.view(count, self.weights.hidden_size)?;
        ops::gather_rows(residual, &wanted.index, &wanted_residual)?;
        let q = self.buffers.wanted_q.view(count, q_width)?;
        self.project(layer, 0..q_width, &wanted_residual, &q)?;
        let span = HeadSpan { offset: 0, num_heads, norm: layer.q_norm.as_ref() };
        self.weights.rotary.forward(&q, &wanted.position_ids, &[span])?;

        if let Some(expansion) = &self.geometry.expansion {
            let ragged = self.buffers.ragged_qkv.view(expansion.scatter.dims1()?, kv_width)?;
            ops::gather_rows(&kv, &expansion.scatter, &ragged)?;
            kv = ragged;
        }
        let attended = self.buffers.attended.view(count, q_width)?;
        layer.attention.forward(&q, &kv, &wanted.pages, &attended)?;
        layer.output.forward(&attended, &wanted_residual, Store::Accumulate)?;
        Ok(wanted_residual)
    }

    /// `out = QKV(norm(residual))`, some of its columns.
    fn project(
        &mut self,
        layer: &Layer,
        columns: std::ops::Range<usize>,
        residual: &Tensor,
        out: &Tensor,
    ) -> Result<()> {
        for (residual, out) in blocks(residual, self.row_block)?.zip(blocks(out, self.row_block)?) {
            let (residual, out) = (residual?, out?);
            let normed = self.buffers.normed.view(residual.dim(0)?, self.weights.hidden_size)?;
            layer.input_norm.forward(&residual, &normed)?;
            layer.qkv.forward_columns(columns.clone(), &normed, &out, Store::Overwrite)?;
        }
        Ok(())
    }

    /// `residual += down(silu(gate(norm(residual))) * up(norm(residual)))`
    fn mlp(&mut self, layer: &Layer, residual: &Tensor) -> Result<()> {
        let DecoderWeights { hidden_size, intermediate_size, .. } = *self.weights;
        for residual in blocks(residual, self.row_block)? {
            let residual = residual?;
            let rows = residual.dim(0)?;
            let normed = self.buffers.normed.view(rows, hidden_size)?;
            let gate_up = self.buffers.gate_up.view(rows, 2 * intermediate_size)?;
            let activated = self.buffers.activated.view(rows, intermediate_size)?;
            layer.post_attention_norm.forward(&residual, &normed)?;
            layer.gate_up.forward(&normed, &gate_up, Store::Overwrite)?;
            ops::silu_mul(&gate_up, &activated)?;
            layer.down.forward(&activated, &residual, Store::Accumulate)?;
        }
        Ok(())
    }
}

/// Attention over a fused QKV matrix.
fn attention(layer: &Layer, qkv: &Tensor, q_width: usize, pages: &Pages, out: &Tensor) -> Result<()> {
    let q = qkv.narrow(1, 0, q_width)?;
    let kv = qkv.narrow(1, q_width, qkv.dim(1)? - q_width)?;
    layer.attention.forward(&q, &kv, pages, out)
}

/// Views of at most `row_block` rows.
fn blocks(x: &Tensor, row_block: usize) -> Result<impl Iterator<Item = Result<Tensor>> + use<>> {
    let (x, rows) = (x.clone(), x.dim(0)?);
    Ok((0..rows).step_by(row_block).map(move |start| x.narrow(0, start, row_block.min(rows - start))))
}
