//! The decoder of the whole family: Qwen3, Qwen2, Llama and Mistral differ in their [`DecoderConfig`] only.
//!
//! Everything but attention works on each row alone, so it runs on the rows of compute space; attention
//! follows the paths that [`Geometry`] lays out. In the last layer only the wanted rows are carried past
//! the keys and values. Blocks of rows bound the memory of the wide intermediate results.

use super::config::DecoderConfig;
use super::geometry::{Geometry, WantedRows};
use super::weights::Weights;
use crate::error::LoadError;
use crate::ops::{self, Attention, Buffer, HeadSpan, Linear, Pages, RmsNorm, Rotary, Store};
use crate::options::Dtype;
use candle_core::{DType, Device, Result, Tensor};
use prefold_kernels::{PackedMatrixBuilder, QkvLayout};

/// Rows that go through a wide intermediate result at a time.
const ROW_BLOCK: usize = 1024;

/// A causal decoder without a head.
#[derive(Debug)]
pub(crate) struct Decoder {
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
    q_norm: Option<Vec<f32>>,
    k_norm: Option<Vec<f32>>,
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
}

impl Buffers {
    fn new(activations: DType, device: &Device) -> Result<Self> {
        let f32 = || Buffer::new(DType::F32, device);
        let activation = || Buffer::new(activations, device);
        Ok(Self {
            residual: f32()?,
            wanted_residual: f32()?,
            normed: activation()?,
            qkv: f32()?,
            wanted_q: f32()?,
            ragged_qkv: f32()?,
            attended: activation()?,
            ragged_attended: activation()?,
            gate_up: f32()?,
            activated: activation()?,
            hidden: f32()?,
        })
    }
}

impl Decoder {
    /// Packs the weights for `dtype`.
    pub(crate) fn load(
        config: &DecoderConfig,
        weights: &Weights,
        dtype: Dtype,
    ) -> std::result::Result<Self, LoadError> {
        let device = Device::Cpu;
        let layers = (0..config.num_layers).map(|i| Layer::load(config, weights, dtype, i));
        Ok(Self {
            weights: DecoderWeights {
                embeddings: embedding_table(config, weights, dtype, &device)?,
                layers: layers.collect::<std::result::Result<_, _>>()?,
                norm: RmsNorm::new(weights.f32("model.norm.weight", &[config.hidden_size])?, config.rms_norm_eps),
                rotary: Rotary::new(
                    &config.rope.inverse_frequencies(config.head_dim),
                    config.max_position_embeddings,
                    config.rms_norm_eps,
                ),
                layout: qkv_layout(config),
                hidden_size: config.hidden_size,
                intermediate_size: config.intermediate_size,
            },
            buffers: Buffers::new(dtype.activations(), &device)?,
        })
    }

    /// The final states after the last norm, `[wanted rows or all rows, hidden_size]`, `f32`.
    pub(crate) fn forward(&mut self, geometry: &Geometry) -> Result<Tensor> {
        Pass { weights: &self.weights, buffers: &mut self.buffers, geometry }.run()
    }
}

fn qkv_layout(config: &DecoderConfig) -> QkvLayout {
    QkvLayout { num_heads: config.num_heads, num_kv_heads: config.num_kv_heads, head_dim: config.head_dim }
}

fn embedding_table(
    config: &DecoderConfig,
    weights: &Weights,
    dtype: Dtype,
    device: &Device,
) -> std::result::Result<Tensor, LoadError> {
    let (name, shape) = ("model.embed_tokens.weight", [config.vocab_size, config.hidden_size]);
    Ok(match dtype {
        Dtype::Float32 => Tensor::from_vec(weights.f32(name, &shape)?, &shape, device)?,
        Dtype::Bfloat16 => Tensor::from_vec(weights.bf16(name, &shape)?, &shape, device)?,
    })
}

/// Packs `[out_i, in_features]` matrices one below the other, with their biases if they have any.
pub(crate) fn load_linear(
    weights: &Weights,
    dtype: Dtype,
    parts: &[(&str, usize)],
    in_features: usize,
    bias: bool,
) -> std::result::Result<Linear, LoadError> {
    let rows = parts.iter().map(|(_, out_features)| out_features).sum();
    let mut packed = PackedMatrixBuilder::new(dtype.precision(), rows, in_features)?;
    let mut all_biases = Vec::new();
    for &(name, out_features) in parts {
        let (weight, shape) = (format!("{name}.weight"), [out_features, in_features]);
        match dtype {
            Dtype::Float32 => packed.push(&weights.f32(&weight, &shape)?)?,
            Dtype::Bfloat16 => packed.push(&weights.bf16(&weight, &shape)?)?,
        }
        if bias {
            all_biases.extend(weights.f32(&format!("{name}.bias"), &[out_features])?);
        }
    }
    Ok(Linear::new(packed.finish()?, bias.then_some(all_biases)))
}

impl Layer {
    fn load(
        config: &DecoderConfig,
        weights: &Weights,
        dtype: Dtype,
        index: usize,
    ) -> std::result::Result<Self, LoadError> {
        let name = |part: &str| format!("model.layers.{index}.{part}");
        let norm = |part: &str| -> std::result::Result<RmsNorm, LoadError> {
            Ok(RmsNorm::new(weights.f32(&name(part), &[config.hidden_size])?, config.rms_norm_eps))
        };
        let head_norm = |part: &str| -> std::result::Result<Option<Vec<f32>>, LoadError> {
            config.qk_norm.then(|| weights.f32(&name(part), &[config.head_dim])).transpose()
        };
        let linear = |parts: &[(&str, usize)], in_features, bias| {
            let parts: Vec<(String, usize)> = parts.iter().map(|&(part, out)| (name(part), out)).collect();
            let parts: Vec<(&str, usize)> = parts.iter().map(|(part, out)| (part.as_str(), *out)).collect();
            load_linear(weights, dtype, &parts, in_features, bias)
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
        let q = HeadSpan { offset: 0, num_heads, norm: layer.q_norm.as_deref() };
        let k = HeadSpan { offset: q_width, num_heads: num_kv_heads, norm: layer.k_norm.as_deref() };
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
        let k = HeadSpan { offset: 0, num_heads: num_kv_heads, norm: layer.k_norm.as_deref() };
        self.weights.rotary.forward(&kv, &self.geometry.position_ids, &[k])?;

        let count = wanted.index.dims1()?;
        let wanted_residual = self.buffers.wanted_residual.view(count, self.weights.hidden_size)?;
        ops::gather_rows(residual, &wanted.index, &wanted_residual)?;
        let q = self.buffers.wanted_q.view(count, q_width)?;
        self.project(layer, 0..q_width, &wanted_residual, &q)?;
        let span = HeadSpan { offset: 0, num_heads, norm: layer.q_norm.as_deref() };
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
        for (residual, out) in blocks(residual)?.zip(blocks(out)?) {
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
        for residual in blocks(residual)? {
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

/// Views of at most [`ROW_BLOCK`] rows.
fn blocks(x: &Tensor) -> Result<impl Iterator<Item = Result<Tensor>> + use<>> {
    let (x, rows) = (x.clone(), x.dim(0)?);
    Ok((0..rows).step_by(ROW_BLOCK).map(move |start| x.narrow(0, start, ROW_BLOCK.min(rows - start))))
}
