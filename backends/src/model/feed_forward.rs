//! Feed-forward blocks of layers.

use super::adapted::{Projection, Rows};
use super::buffers::Name;
use super::loader::{Loader, Norms, load_linear};
use super::pass::Pass;
use crate::config::tensors::slices;
use crate::config::{ExpertsConfig, TransformerConfig};
use crate::error::LoadError;
use crate::ops::{self, Linear, Store, Vector};
use candle_core::{Result, Tensor};
use prefold_kernels::Activation;

type Loaded<T> = std::result::Result<T, LoadError>;

/// A feed-forward block with its norms.
#[derive(Debug)]
pub(super) struct FeedForward {
    pub(super) norms: Norms,
    pub(super) block: Block,
}

/// Computation of a feed-forward block.
#[derive(Debug)]
pub(super) enum Block {
    Dense(Dense),
    Experts(Experts),
}

/// A feed-forward block without experts.
#[derive(Debug)]
pub(super) struct Dense {
    /// The up projection; with a gate, gate and up in one matrix, in this order.
    pub(super) input: Projection,
    pub(super) ffn_glu: bool,
    pub(super) activation: Activation,
    pub(super) down: Projection,
}

/// Experts and the matrix that scores them.
#[derive(Debug)]
pub(super) struct Experts {
    /// `[experts, hidden]`, always float32.
    pub(super) router: Linear,
    pub(super) experts: Vec<Expert>,
    /// Experts of a row.
    pub(super) top_k: usize,
    pub(super) activation: Activation,
    pub(super) bias: Vector,
}

/// One expert: two linear layers with an activation between them.
#[derive(Debug)]
pub(super) struct Expert {
    pub(super) up: Linear,
    pub(super) down: Linear,
}

impl FeedForward {
    /// The block of the loader's layer.
    ///
    /// # Errors
    /// A tensor is missing or malformed.
    pub(super) fn load(loader: &Loader<'_>) -> Loaded<Self> {
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
    fn load(loader: &Loader<'_>) -> Loaded<Self> {
        let TransformerConfig { feed_forward: config, names, hidden_size: hidden, .. } = loader.config;
        Ok(Self {
            input: loader.feed_forward_input(
                &loader.config.feed_forward_slices(&loader.prefix),
                *hidden,
                config.input_bias,
            )?,
            ffn_glu: config.ffn_glu,
            activation: config.activation,
            down: loader.projection(
                &slices(&loader.prefix, &[(names.down, *hidden)]),
                config.intermediate_size,
                config.output_bias,
            )?,
        })
    }
}

impl Experts {
    fn load(loader: &Loader<'_>, config: ExpertsConfig) -> Loaded<Self> {
        let TransformerConfig { feed_forward, names, hidden_size: hidden, .. } = *loader.config;
        let width = feed_forward.intermediate_size;
        let name = |name: &str| format!("{}{name}", loader.prefix);
        let (up, down) = (name(names.experts_up), name(names.experts_down));
        let dtype = loader.target.dtype_of([up.as_str(), down.as_str()].into_iter());
        let matrix = |name: &str| {
            let shape = [config.num_experts * width, hidden];
            // Before memory is allocated, so that the files bound the sizes in the config.
            loader.weights.check(name, &shape)?;
            loader.weights.matrix(dtype, name, shape)
        };
        let (ups, downs) = (matrix(&up)?, matrix(&down)?);
        let expert = |index: usize| {
            let rows = |all: &Tensor| all.narrow(0, index * width, width);
            // The down matrix is stored transposed, `[intermediate, hidden]`.
            let (first, second) = (rows(&ups)?, rows(&downs)?.t()?.contiguous()?);
            let load = |name: &str, shape, matrix| {
                let name = format!("{name}.{index}");
                Linear::load(loader.target, (&name, dtype), shape, false, std::iter::once(Ok(matrix)), None)
            };
            Ok(Expert { up: load(&up, (width, hidden), first)?, down: load(&down, (hidden, width), second)? })
        };
        let router = slices(&loader.prefix, &[(names.router, config.num_experts)]);
        Ok(Self {
            router: load_linear(loader.weights, &loader.target.in_float32(), &router, hidden, false)?,
            experts: (0..config.num_experts).map(expert).collect::<Loaded<_>>()?,
            top_k: config.top_k,
            activation: feed_forward.activation,
            bias: loader.vector(names.experts_bias, hidden)?,
        })
    }
}

impl Pass<'_, '_> {
    /// `residual += down(activation(gate(x)) * up(x))` or `residual += down(activation(up(x)))`, with x the block's input; or the
    /// sum of some experts' outputs for it.
    pub(super) fn feed_forward(&mut self, block: &FeedForward, (residual, rows): (&Tensor, Rows<'_>)) -> Result<()> {
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
}
