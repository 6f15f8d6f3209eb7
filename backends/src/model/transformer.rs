//! Forward pass of a transformer: embeddings, layers of attention and feed-forward blocks, final norm.
//!
//! The differences between families are data in [`TransformerConfig`]; nothing here depends on a family. All operations
//! except attention work on each row alone, so they run on the rows of compute space; attention follows the paths of the
//! [`Layout`]. In the last layer only the output rows continue after the keys and values. Blocks of rows bound the memory of
//! wide intermediate results.

use super::adapted::{Projection, Rows};
use super::buffers::{Buffers, Name, Workspace};
use super::convolution::ConvolutionBlock;
use super::feed_forward::{Block, Dense, FeedForward};
use super::layout::{Layout, OutputRows};
use super::loader::Norms;
use super::weights::{AttentionBlock, Embeddings, Heads, Mixer, TransformerWeights};
use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{self, HeadSpan, Linear, Norm, Pages, Pool, Store, Target, Yields};
use candle_core::{Result, Tensor};
use prefold_kernels::QkvLayout;
use std::sync::Arc;

/// A transformer without a head.
#[derive(Debug)]
pub(super) struct Transformer {
    config: TransformerConfig,
    target: Target,
    /// Shared by all replicas.
    weights: Arc<TransformerWeights>,
    buffers: Buffers,
}

impl Transformer {
    /// Packs the weights for the device. Sequences have up to `positions` tokens.
    pub(super) fn load(
        config: &TransformerConfig,
        weights: &Weights,
        positions: usize,
        target: &Target,
    ) -> std::result::Result<Self, LoadError> {
        Ok(Self {
            weights: Arc::new(TransformerWeights::load(config, weights, positions, target)?),
            buffers: Buffers::new(config, target)?,
            config: config.clone(),
            target: target.clone(),
        })
    }

    /// All linear layers.
    pub(super) fn linears(&self) -> impl Iterator<Item = &Linear> {
        self.weights.linears()
    }

    /// Another transformer over the same weights on `target`'s stream, with memory of its own for forward passes.
    ///
    /// # Errors
    /// The device has no memory.
    pub(super) fn replica(&self, target: &Target) -> Result<Self> {
        Ok(Self {
            config: self.config.clone(),
            target: target.clone(),
            weights: Arc::clone(&self.weights),
            buffers: Buffers::new(&self.config, target)?,
        })
    }

    pub(super) fn config(&self) -> &TransformerConfig {
        &self.config
    }

    /// `true` if both transformers use the same copy of the weights.
    #[cfg(test)]
    pub(super) fn shares_weights(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.weights, &other.weights)
    }

    /// The final states, after the last norm, `[output rows or all rows, hidden_size]`, `f32`.
    pub(super) fn forward(&mut self, layout: &Layout, yields: &mut Yields<'_>) -> Result<Tensor> {
        let Self { target, weights, buffers, .. } = self;
        Pass { weights, space: Workspace { buffers, yields }, layout, row_block: target.row_block() }.run()
    }

    /// The pooled states of each sequence, `[sequences, kinds * hidden_size]`, from the states that [`forward`](Self::forward)
    /// returned.
    pub(super) fn pool(&mut self, hidden: &Tensor, pool: &Pool, yields: &mut Yields<'_>) -> Result<Tensor> {
        let pooled = self.buffers.rows(Name::Pooled, pool.len())?;
        pool.forward(hidden, &pooled, yields)?;
        pooled.reshape((pool.len() / pool.kinds(), ()))
    }

    /// Allocates and touches the memory of forward passes; see [`Buffers::reserve`].
    pub(super) fn reserve(&mut self, computed: usize, ragged: usize) -> Result<()> {
        self.buffers.reserve(computed, ragged, computed.min(self.target.row_block()))
    }

    /// Frees the memory of forward passes.
    pub(super) fn release_buffers(&mut self) -> Result<()> {
        self.buffers = Buffers::new(&self.config, &self.target)?;
        Ok(())
    }
}

/// One forward pass, with a yield point before each operation.
struct Pass<'a, 'y> {
    weights: &'a TransformerWeights,
    space: Workspace<'a, 'y>,
    layout: &'a Layout,
    row_block: usize,
}

impl Pass<'_, '_> {
    fn run(mut self) -> Result<Tensor> {
        let weights = self.weights;
        let mut residual = self.embed(&weights.embeddings)?;
        for (i, layer) in weights.layers.iter().enumerate() {
            let outputs = self.layout.outputs.as_ref().filter(|_| i + 1 == weights.layers.len());
            match (&layer.mixer, outputs) {
                (Mixer::Attention(block), None) => self.attend(block, &residual)?,
                (Mixer::Attention(block), Some(outputs)) => {
                    residual = self.attend_outputs(block, &residual, outputs)?
                }
                (Mixer::Convolution(block), outputs) => residual = self.convolve(block, residual, outputs)?,
            }
            let rows = outputs.map_or_else(|| self.layout.rows(), OutputRows::rows);
            self.feed_forward(&layer.feed_forward, (&residual, rows))?;
        }
        let Some(norm) = &weights.final_norm else { return Ok(residual) };
        let hidden = self.space.buffers.rows(Name::Hidden, residual.dim(0)?)?;
        let Some(projection) = &weights.output_projection else {
            norm.forward(&residual, &hidden, self.space.yields)?;
            return Ok(hidden);
        };
        for (residual, hidden) in blocks(&residual, self.row_block)?.zip(blocks(&hidden, self.row_block)?) {
            let x = self.input(Some(norm), &residual?)?;
            projection.forward(&x, &hidden?, Store::Overwrite, self.space.yields)?;
        }
        Ok(hidden)
    }

    /// The sum of the embeddings of each token, normalised and projected if the model has these layers.
    fn embed(&mut self, embeddings: &Embeddings) -> Result<Tensor> {
        let Layout { input_ids, position_ids, token_type_ids, .. } = self.layout;
        let residual = self.space.buffers.rows(Name::Residual, input_ids.dims1()?)?;
        let sum = match &embeddings.projection {
            Some(_) => self.space.buffers.rows(Name::Embedded, input_ids.dims1()?)?,
            None => residual.clone(),
        };
        embeddings.words.embed(input_ids, &sum, Store::Overwrite, self.space.yields)?;
        if let (Some(factors), Some(adapters)) = (&embeddings.word_factors, self.layout.adapters()) {
            factors.add(adapters, &sum, self.row_block, &mut self.space)?;
        }
        if let (Some(table), Some(ids)) = (&embeddings.token_types, token_type_ids) {
            table.embed(ids, &sum, Store::Accumulate, self.space.yields)?;
        }
        if let Some(table) = &embeddings.positions {
            table.embed(position_ids, &sum, Store::Accumulate, self.space.yields)?;
        }
        if let Some(factor) = embeddings.scale {
            ops::scale(&sum, factor, self.space.yields)?;
        }
        if let Some(norm) = &embeddings.norm {
            norm.forward_in_place(&sum, self.space.yields)?;
        }
        if let Some(projection) = &embeddings.projection {
            for (sum, residual) in blocks(&sum, self.row_block)?.zip(blocks(&residual, self.row_block)?) {
                let x = self.activations(&sum?)?;
                projection.forward(&x, &residual?, Store::Overwrite, self.space.yields)?;
            }
        }
        Ok(residual)
    }

    /// Rows of the residual stream as the input of a linear layer.
    fn activations(&mut self, rows: &Tensor) -> Result<Tensor> {
        let (count, width) = rows.dims2()?;
        let converted = self.space.buffers.narrow(Name::Normed, count, width)?;
        if converted.dtype() == rows.dtype() {
            return Ok(rows.clone());
        }
        ops::convert(rows, &converted, self.space.yields)?;
        Ok(converted)
    }

    /// Rows of the residual stream as the input of a linear layer, normalised if there is a norm.
    fn input(&mut self, norm: Option<&Norm>, residual: &Tensor) -> Result<Tensor> {
        let Some(norm) = norm else { return self.activations(residual) };
        let normed = self.space.buffers.rows(Name::Normed, residual.dim(0)?)?;
        norm.forward(residual, &normed, self.space.yields)?;
        Ok(normed)
    }

    /// Adds a block's output, its last linear layer applied to `x`, to the residual stream, with the norms that follow.
    fn add(
        &mut self,
        norms: &Norms,
        product: &Projection,
        (x, rows): (&Tensor, Rows<'_>),
        residual: &Tensor,
    ) -> Result<()> {
        let Some(norm) = norms.output.as_ref().or(norms.inner_sum.as_ref()) else {
            product.forward((x, rows), residual, Store::Accumulate, &mut self.space)?;
            return self.finish(norms, residual);
        };
        for (x, (rows, residual)) in blocks(x, self.row_block)?.zip(self.row_blocks(residual, rows)?) {
            let (x, residual) = (x?, residual?);
            let other = self.space.buffers.rows(Name::BlockOutput, residual.dim(0)?)?;
            if norms.output.is_some() {
                product.forward((&x, rows), &other, Store::Overwrite, &mut self.space)?;
                norm.forward_add(&other, &residual, self.space.yields)?;
                continue;
            }
            ops::convert(&residual, &other, self.space.yields)?;
            product.forward((&x, rows), &residual, Store::Accumulate, &mut self.space)?;
            norm.forward_in_place(&residual, self.space.yields)?;
            ops::add(&other, &residual, self.space.yields)?;
        }
        self.finish(norms, residual)
    }

    /// `residual += O(attention(QKV(x)))`, with x the block's input.
    fn attend(&mut self, block: &AttentionBlock, residual: &Tensor) -> Result<()> {
        let QkvLayout { num_heads, num_kv_heads, head_dim } = self.weights.qkv;
        let (rows, q_width) = (residual.dim(0)?, num_heads * head_dim);
        let qkv = self.space.buffers.rows(Name::Qkv, rows)?;
        let norms = block.width_norms.as_ref().map(|[q, k]| [(q, 0), (k, q_width)]);
        let heads = Heads {
            columns: 0..block.qkv.linear.out_features(),
            width_norms: norms.as_ref().map_or(&[], |norms| norms),
            spans: &[
                HeadSpan { offset: 0, num_heads, of_queries: true, norm: block.q_norm.as_ref() },
                HeadSpan { offset: q_width, num_heads: num_kv_heads, of_queries: false, norm: block.k_norm.as_ref() },
            ],
            position_ids: &self.layout.position_ids,
        };
        self.project(block, &heads, (residual, self.layout.rows()), &qkv)?;

        let attended = self.space.buffers.rows(Name::Attended, rows)?;
        let pages = &self.layout.pages;
        match &self.layout.expansion {
            None => self.attention(block, &qkv, pages, &attended)?,
            Some(expansion) => {
                let tokens = expansion.scatter.dims1()?;
                let ragged = self.space.buffers.rows(Name::RaggedQkv, tokens)?;
                let ragged_attended = self.space.buffers.rows(Name::RaggedAttended, tokens)?;
                ops::gather_rows(&qkv, &expansion.scatter, &ragged, self.space.yields)?;
                self.attention(block, &ragged, pages, &ragged_attended)?;
                ops::gather_rows(&ragged_attended, &expansion.gather, &attended, self.space.yields)?;
            }
        }
        self.add(&block.norms, &block.output, (&attended, self.layout.rows()), residual)
    }

    /// Attention for the output rows: K and V of all rows, Q and everything after it only of the output rows.
    fn attend_outputs(&mut self, block: &AttentionBlock, residual: &Tensor, outputs: &OutputRows) -> Result<Tensor> {
        let QkvLayout { num_heads, num_kv_heads, head_dim } = self.weights.qkv;
        let (q_width, kv_width) = (num_heads * head_dim, 2 * num_kv_heads * head_dim);
        let norms = block.width_norms.as_ref().map(|norms| norms.each_ref().map(|norm| (norm, 0)));
        let [q_norm, k_norm] = norms.as_ref().map_or([&[][..]; 2], |[q, k]| [q, k].map(std::slice::from_ref));
        let mut kv = self.space.buffers.narrow(Name::Qkv, residual.dim(0)?, kv_width)?;
        let heads = Heads {
            columns: q_width..q_width + kv_width,
            width_norms: k_norm,
            spans: &[HeadSpan { offset: 0, num_heads: num_kv_heads, of_queries: false, norm: block.k_norm.as_ref() }],
            position_ids: &self.layout.position_ids,
        };
        self.project(block, &heads, (residual, self.layout.rows()), &kv)?;

        let count = outputs.index.dims1()?;
        let output_residual = self.space.buffers.rows(Name::OutputResidual, count)?;
        ops::gather_rows(residual, &outputs.index, &output_residual, self.space.yields)?;
        let q = self.space.buffers.rows(Name::OutputQ, count)?;
        let heads = Heads {
            columns: 0..q_width,
            width_norms: q_norm,
            spans: &[HeadSpan { offset: 0, num_heads, of_queries: true, norm: block.q_norm.as_ref() }],
            position_ids: &outputs.position_ids,
        };
        self.project(block, &heads, (&output_residual, outputs.rows()), &q)?;

        if let Some(expansion) = &self.layout.expansion {
            let ragged = self.space.buffers.narrow(Name::RaggedQkv, expansion.scatter.dims1()?, kv_width)?;
            ops::gather_rows(&kv, &expansion.scatter, &ragged, self.space.yields)?;
            kv = ragged;
        }
        let attended = self.space.buffers.rows(Name::Attended, count)?;
        block.attention.forward(&q, &kv, &outputs.pages, &attended, self.space.yields)?;
        self.add(&block.norms, &block.output, (&attended, outputs.rows()), &output_residual)?;
        Ok(output_residual)
    }

    /// `residual += O(convolution(I(x)))`, with x the block's input; only of the output rows if there are some.
    fn convolve(&mut self, block: &ConvolutionBlock, residual: Tensor, outputs: Option<&OutputRows>) -> Result<Tensor> {
        let gated = block.gated((&residual, self.layout.rows()), self.row_block, &mut self.space)?;
        let (taps, rows, residual) = match outputs {
            None => (&self.layout.taps, self.layout.rows(), residual),
            Some(outputs) => {
                let selected = self.space.buffers.rows(Name::OutputResidual, outputs.index.dims1()?)?;
                ops::gather_rows(&residual, &outputs.index, &selected, self.space.yields)?;
                (&outputs.taps, outputs.rows(), selected)
            }
        };
        let convolved = block.convolve(&gated, taps.as_ref(), &mut self.space)?;
        self.add(&block.norms, &block.output, (&convolved, rows), &residual)?;
        Ok(residual)
    }

    /// Projects the block's input to some heads of a layer, normalised and rotated, in blocks of rows that stay in the caches.
    fn project(
        &mut self,
        block: &AttentionBlock,
        heads: &Heads<'_>,
        (residual, rows): (&Tensor, Rows<'_>),
        out: &Tensor,
    ) -> Result<()> {
        let positions = blocks(heads.position_ids, self.row_block)?;
        let outs = blocks(out, self.row_block)?.zip(positions);
        for ((rows, residual), (out, position_ids)) in self.row_blocks(residual, rows)?.zip(outs) {
            let (x, out) = (self.input(block.norms.input.as_ref(), &residual?)?, out?);
            block.qkv.forward_columns(heads.columns.clone(), (&x, rows), &out, Store::Overwrite, &mut self.space)?;
            for (norm, offset) in heads.width_norms {
                norm.forward_columns(&out, *offset, self.space.yields)?;
            }
            if let Some(rotary) = &block.rotary {
                rotary.forward(&out, &position_ids?, heads.spans, self.space.yields)?;
            }
        }
        Ok(())
    }

    /// Attention over a fused QKV matrix.
    fn attention(&mut self, block: &AttentionBlock, qkv: &Tensor, pages: &Pages, out: &Tensor) -> Result<()> {
        let q_width = out.dim(1)?;
        let q = qkv.narrow(1, 0, q_width)?;
        let kv = qkv.narrow(1, q_width, qkv.dim(1)? - q_width)?;
        block.attention.forward(&q, &kv, pages, out, self.space.yields)
    }

    /// `residual += down(activation(gate(x)) * up(x))` or `residual += down(activation(up(x)))`, with x the block's input; or the
    /// sum of some experts' outputs for it.
    fn feed_forward(&mut self, block: &FeedForward, (residual, rows): (&Tensor, Rows<'_>)) -> Result<()> {
        for (rows, residual) in self.row_blocks(residual, rows)? {
            let residual = residual?;
            let x = self.input(block.norms.input.as_ref(), &residual)?;
            match &block.block {
                Block::Dense(dense) => self.dense(dense, &block.norms, (&x, rows), &residual)?,
                Block::Experts(experts) => {
                    experts.forward(&mut self.space, &x, &residual)?;
                    self.finish(&block.norms, &residual)?;
                }
            }
        }
        Ok(())
    }

    fn dense(&mut self, dense: &Dense, norms: &Norms, (x, rows): (&Tensor, Rows<'_>), residual: &Tensor) -> Result<()> {
        let count = residual.dim(0)?;
        let activated = self.space.buffers.rows(Name::Activated, count)?;
        // Rows without an adapter take the same path as the others, so that their bits are the same in any batch.
        if dense.input.linear.is_gated() {
            dense.input.linear.forward_gated(dense.activation, x, &activated, self.space.yields)?;
        } else if dense.ffn_glu || dense.input.is_adapted() {
            let input = self.space.buffers.rows(Name::GateUp, count)?;
            dense.input.forward((x, rows), &input, Store::Overwrite, &mut self.space)?;
            if dense.ffn_glu {
                ops::activate_mul(dense.activation, &input, &activated, self.space.yields)?;
            } else {
                ops::activate(dense.activation, &input, &activated, self.space.yields)?;
            }
        } else {
            dense.input.linear.forward_activated(dense.activation, x, &activated, self.space.yields)?;
        }
        self.add(norms, &dense.down, (&activated, rows), residual)
    }

    /// Normalises the sum of a block's input and output in models with norms after blocks.
    fn finish(&mut self, norms: &Norms, residual: &Tensor) -> Result<()> {
        match &norms.sum {
            None => Ok(()),
            Some(norm) => norm.forward_in_place(residual, self.space.yields),
        }
    }

    /// Views of at most `row_block` rows, each with its layout rows.
    fn row_blocks<'a>(
        &self,
        x: &Tensor,
        rows: Rows<'a>,
    ) -> Result<impl Iterator<Item = (Rows<'a>, Result<Tensor>)> + use<'a>> {
        let row_block = self.row_block;
        Ok(blocks(x, row_block)?.enumerate().map(move |(index, x)| (rows.from(index * row_block), x)))
    }
}

/// Views of at most `row_block` rows.
fn blocks(x: &Tensor, row_block: usize) -> Result<impl Iterator<Item = Result<Tensor>> + use<>> {
    let (x, rows) = (x.clone(), x.dim(0)?);
    Ok((0..rows).step_by(row_block).map(move |start| x.narrow(0, start, row_block.min(rows - start))))
}
