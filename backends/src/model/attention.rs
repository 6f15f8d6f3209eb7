//! Layers with attention.

use super::adapted::{Projection, Rows};
use super::buffers::Name;
use super::distances::Distances;
use super::layout::OutputRows;
use super::loader::{Loader, Norms};
use super::pass::{Pass, blocks};
use crate::config::tensors::slices;
use crate::config::{AttentionConfig, TransformerConfig};
use crate::error::LoadError;
use crate::ops::{self, Attention, HeadSpan, Norm, Pages, Rotary, Store, Vector};
use candle_core::{Result, Tensor};
use prefold_kernels::QkvLayout;
use std::ops::Range;
use std::sync::Arc;

/// An attention block with its norms.
#[derive(Debug)]
pub(super) struct AttentionBlock {
    pub(super) norms: Norms,
    /// Q, K and V in one matrix, in this order.
    pub(super) qkv: Projection,
    pub(super) q_norm: Option<Vector>,
    pub(super) k_norm: Option<Vector>,
    /// Norms of q and of k, each over all heads.
    pub(super) width_norms: Option<[Norm; 2]>,
    /// RoPE of queries and keys; `None` in models without.
    pub(super) rotary: Option<Arc<Rotary>>,
    pub(super) attention: Attention,
    pub(super) output: Projection,
}

/// Heads of a fused QKV matrix.
pub(super) fn qkv_layout(config: &AttentionConfig) -> QkvLayout {
    QkvLayout { num_heads: config.num_heads, num_kv_heads: config.num_kv_heads, head_dim: config.head_dim }
}

impl AttentionBlock {
    /// The block of the loader's layer.
    ///
    /// # Errors
    /// A tensor is missing or malformed.
    pub(super) fn load(loader: &Loader<'_>, distances: Option<&Distances>) -> std::result::Result<Self, LoadError> {
        let TransformerConfig { attention: config, names, hidden_size: hidden, sliding_windows, norm, .. } =
            loader.config;
        let qkv = loader.config.qkv_slices(&loader.prefix);
        let head_norm = |name: &str| config.qk_norm.then(|| loader.norm_weight(name, config.head_dim)).transpose();
        let norms = if loader.index == 0 && !norm.first_attention {
            Norms::NONE
        } else {
            loader.norms(names.attention_norm, names.attention_output_norm)?
        };
        Ok(Self {
            norms,
            qkv: loader.projection(&qkv, *hidden, config.qkv_bias)?,
            q_norm: head_norm(names.q_norm)?,
            k_norm: head_norm(names.k_norm)?,
            width_norms: if config.qk_width_norm {
                Some([loader.norm(names.q_norm, config.q_width())?, loader.norm(names.k_norm, config.kv_width())?])
            } else {
                None
            },
            rotary: loader.rotary.cloned(),
            attention: Attention {
                layout: qkv_layout(config),
                window: sliding_windows[loader.index],
                scale: config.scale.unwrap_or_else(|| 1.0 / (config.head_dim as f32).sqrt()),
                softcap: config.softcap,
                bias: loader.bias.cloned(),
                positions: distances.map(|distances| distances.of_layer(loader)).transpose()?,
                rounds_factors: loader.target.rounds_attention(),
                pace: Attention::guessed_pace(),
            },
            output: loader.projection(
                &slices(&loader.prefix, &[(names.output, *hidden)]),
                config.q_width(),
                config.output_bias,
            )?,
        })
    }
}

/// Heads of a layer, neighbouring columns of its projection.
struct Heads<'a> {
    columns: Range<usize>,
    /// Norms over all heads, each with the output column that it begins at.
    width_norms: &'a [(&'a Norm, usize)],
    /// The heads to rotate; empty without RoPE.
    spans: &'a [HeadSpan<'a>],
    position_ids: &'a Tensor,
}

impl Pass<'_, '_> {
    /// `residual += O(attention(QKV(x)))`, with x the block's input.
    pub(super) fn attend(&mut self, block: &AttentionBlock, residual: &Tensor) -> Result<()> {
        let QkvLayout { num_heads, num_kv_heads, head_dim } = block.attention.layout;
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
    pub(super) fn attend_outputs(
        &mut self,
        block: &AttentionBlock,
        residual: &Tensor,
        outputs: &OutputRows,
    ) -> Result<Tensor> {
        let QkvLayout { num_heads, num_kv_heads, head_dim } = block.attention.layout;
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
}
