//! Forward pass of a transformer: embeddings, layers of attention and feed-forward blocks, final norm.
//!
//! The differences between families are data in [`TransformerConfig`]; nothing here depends on a family. All operations
//! except attention work on each row alone, so they run on the rows of compute space; attention follows the paths of the
//! [`Layout`]. In the last layer only the output rows continue after the keys and values. Blocks of rows bound the memory of
//! wide intermediate results.

use super::buffers::{Buffers, Name, Workspace};
use super::layout::{Layout, OutputRows};
use super::pass::{Pass, blocks};
use super::weights::{Embeddings, Mixer, TransformerWeights};
use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::Weights;
use crate::ops::{self, Linear, Pool, Store, Target, Yields};
use candle_core::{Result, Tensor};
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
        Pass { space: Workspace { buffers, yields }, layout, row_block: target.row_block() }.run(weights)
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

impl Pass<'_, '_> {
    fn run(mut self, weights: &TransformerWeights) -> Result<Tensor> {
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
}
