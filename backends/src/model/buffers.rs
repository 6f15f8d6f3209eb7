//! Buffers of a forward pass: the single description of their sizes and lifetimes. Allocation and the memory estimate use it, and a test
//! compares the table in docs/architecture.md with it.

use crate::config::TransformerConfig;
use crate::ops::{Buffer, Target, Yields};
use candle_core::{DType, Result, Tensor};

/// A buffer by its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Name {
    /// The embeddings, if their width differs from the residual stream.
    Embedded,
    /// The residual stream.
    Residual,
    /// The residual stream of the output rows.
    OutputResidual,
    /// Rows after a norm, the input of a linear layer.
    Normed,
    /// Queries, keys and values of a layer; in the last layer keys and values if output rows are selected.
    Qkv,
    /// Queries of the output rows.
    OutputQ,
    /// Queries, keys and values in ragged space.
    RaggedQkv,
    /// Gates and input of a layer's short convolution.
    Gated,
    /// Output of a short convolution.
    Convolved,
    /// Output of attention.
    Attended,
    /// Output of attention in ragged space.
    RaggedAttended,
    /// The gate and up projections of a gated block, unless they are joined; the up projection of a plain block with LoRA adapters.
    GateUp,
    /// Activations of the feed-forward block.
    Activated,
    /// A block's output before its norm, in models with norms around blocks.
    BlockOutput,
    /// A router's scores of all experts.
    RouterScores,
    /// The rows of each expert.
    ExpertRows,
    /// States of an expert's rows.
    ExpertInput,
    /// The expert's output for its rows.
    ExpertOutput,
    /// The weighted sum of the experts' outputs.
    ExpertSum,
    /// Products with `lora_a` of all adapters.
    AdapterColumns,
    /// The products with `lora_a` of each row's own adapter; the other columns are 0.
    OwnColumns,
    /// Final states after the last norm.
    Hidden,
    /// Pooled states, one row per sequence.
    Pooled,
}

/// Width of a buffer's rows.
#[derive(Debug, Clone, Copy)]
enum Width {
    /// Width of the embedding tables, or 0 if it equals the residual stream's.
    Embedding,
    Hidden,
    /// Width of the residual stream, or 0 if no block's output has a norm.
    NormedOutput,
    /// Width of the residual stream, or 0 if no layer has experts.
    Expert,
    /// Number of experts, or 0 if no layer has any.
    Experts,
    /// Three words for each expert: an entry of its list, the weight there, and a share of the lengths of the lists.
    ExpertLists,
    /// Rows of `lora_a` of all adapters in the layer with most, or 0 if there are none.
    Adapters,
    /// Width of the final states.
    Output,
    /// All query heads.
    Q,
    /// All query, key and value heads.
    Qkv,
    /// Width of the residual stream in models with short convolutions, else 0.
    Convolved,
    /// Three times that.
    Gated,
    /// Twice the width of a gated feed-forward block, unless its projections are joined; the width of a plain block with adapters; else 0.
    GateUp,
    Intermediate,
}

/// Role of a buffer, which decides its type; the [`Target`] chooses the type of projections and activations.
#[derive(Debug, Clone, Copy)]
enum Role {
    F32,
    Projection,
    Activation,
    /// Words, `u32`.
    Index,
}

/// Lifetime of a buffer's content, which determines its number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifetime {
    /// The layers; one row per computed row.
    Layers,
    /// From the last layer to the answers; one row per output row, in the worst case all computed rows.
    Outputs,
    /// Attention of one layer; one row per computed row.
    Attention,
    /// Attention of one layer in mode `ragged`; one row per token.
    RaggedAttention,
    /// A linear layer; one row per row of a block.
    Block,
}

#[derive(Debug, Clone, Copy)]
struct Spec {
    name: Name,
    width: Width,
    role: Role,
    lifetime: Lifetime,
}

const fn spec(name: Name, width: Width, role: Role, lifetime: Lifetime) -> Spec {
    Spec { name, width, role, lifetime }
}

/// All buffers, in the order of [`Name`].
const SPECS: [Spec; 23] = [
    spec(Name::Embedded, Width::Embedding, Role::F32, Lifetime::Layers),
    spec(Name::Residual, Width::Hidden, Role::F32, Lifetime::Layers),
    spec(Name::OutputResidual, Width::Hidden, Role::F32, Lifetime::Outputs),
    spec(Name::Normed, Width::Hidden, Role::Activation, Lifetime::Block),
    spec(Name::Qkv, Width::Qkv, Role::Projection, Lifetime::Attention),
    spec(Name::OutputQ, Width::Q, Role::Projection, Lifetime::Attention),
    spec(Name::RaggedQkv, Width::Qkv, Role::Projection, Lifetime::RaggedAttention),
    spec(Name::Gated, Width::Gated, Role::Projection, Lifetime::Attention),
    spec(Name::Convolved, Width::Convolved, Role::Activation, Lifetime::Attention),
    spec(Name::Attended, Width::Q, Role::Activation, Lifetime::Attention),
    spec(Name::RaggedAttended, Width::Q, Role::Activation, Lifetime::RaggedAttention),
    spec(Name::GateUp, Width::GateUp, Role::Projection, Lifetime::Block),
    spec(Name::Activated, Width::Intermediate, Role::Activation, Lifetime::Block),
    spec(Name::BlockOutput, Width::NormedOutput, Role::F32, Lifetime::Block),
    spec(Name::RouterScores, Width::Experts, Role::F32, Lifetime::Block),
    spec(Name::ExpertRows, Width::ExpertLists, Role::Index, Lifetime::Block),
    spec(Name::ExpertInput, Width::Expert, Role::Activation, Lifetime::Block),
    spec(Name::ExpertOutput, Width::Expert, Role::F32, Lifetime::Block),
    spec(Name::ExpertSum, Width::Expert, Role::F32, Lifetime::Block),
    spec(Name::AdapterColumns, Width::Adapters, Role::F32, Lifetime::Block),
    spec(Name::OwnColumns, Width::Adapters, Role::Activation, Lifetime::Block),
    spec(Name::Hidden, Width::Output, Role::F32, Lifetime::Outputs),
    spec(Name::Pooled, Width::Output, Role::F32, Lifetime::Outputs),
];

/// Widths and element types of a model on a device.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    embedding: usize,
    hidden: usize,
    normed_output: usize,
    expert: usize,
    experts: usize,
    adapters: usize,
    output: usize,
    q: usize,
    qkv: usize,
    convolved: usize,
    gate_up: usize,
    intermediate: usize,
    projection: DType,
    activation: DType,
}

/// True if the gate and up projections and the activation of a model's blocks are one operation. A GPU and adapters, whose part is added
/// before the activation, need their products in memory.
pub(super) fn joins_gate_and_up(config: &TransformerConfig, target: &Target) -> bool {
    config.feed_forward.ffn_glu && config.adapters.is_none() && target.is_cpu()
}

impl Sizes {
    fn new(config: &TransformerConfig, target: &Target) -> Self {
        let (q, kv) = (config.attention.q_width(), config.attention.kv_width());
        let intermediate = config.feed_forward.intermediate_size;
        Self {
            embedding: if config.embeddings.size == config.hidden_size { 0 } else { config.embeddings.size },
            hidden: config.hidden_size,
            normed_output: if config.has_attention_output_norm() { config.hidden_size } else { 0 },
            expert: config.feed_forward.experts.map_or(0, |_| config.hidden_size),
            experts: config.feed_forward.experts.map_or(0, |experts| experts.num_experts),
            adapters: config.adapter_columns(),
            output: config.output_size,
            q,
            qkv: q + 2 * kv,
            convolved: config.convolutions.map_or(0, |_| config.hidden_size),
            gate_up: match (config.feed_forward.ffn_glu, &config.adapters) {
                _ if joins_gate_and_up(config, target) => 0,
                (true, _) => 2 * intermediate,
                (false, Some(_)) => intermediate,
                (false, None) => 0,
            },
            intermediate,
            projection: target.projections(),
            activation: target.activations(),
        }
    }

    fn width(&self, width: Width) -> usize {
        match width {
            Width::Embedding => self.embedding,
            Width::Hidden => self.hidden,
            Width::NormedOutput => self.normed_output,
            Width::Expert => self.expert,
            Width::Experts => self.experts,
            Width::ExpertLists => 3 * self.experts,
            Width::Adapters => self.adapters,
            Width::Output => self.output,
            Width::Q => self.q,
            Width::Qkv => self.qkv,
            Width::Convolved => self.convolved,
            Width::Gated => 3 * self.convolved,
            Width::GateUp => self.gate_up,
            Width::Intermediate => self.intermediate,
        }
    }

    fn dtype(&self, role: Role) -> DType {
        match role {
            Role::F32 => DType::F32,
            Role::Projection => self.projection,
            Role::Activation => self.activation,
            Role::Index => DType::U32,
        }
    }
}

/// Memory that forward passes write to. It is kept for the next pass and grows to the largest batch.
#[derive(Debug)]
pub(super) struct Buffers {
    sizes: Sizes,
    buffers: [Buffer; SPECS.len()],
}

impl Buffers {
    /// # Errors
    /// The device has no memory.
    pub(super) fn new(config: &TransformerConfig, target: &Target) -> Result<Self> {
        let sizes = Sizes::new(config, target);
        let buffers =
            SPECS.iter().map(|spec| Buffer::new(sizes.dtype(spec.role), target)).collect::<Result<Vec<_>>>()?;
        match buffers.try_into() {
            Ok(buffers) => Ok(Self { sizes, buffers }),
            Err(_) => candle_core::bail!("a buffer for each description"),
        }
    }

    /// Allocates and touches all buffers for batches of `computed` rows and `ragged` tokens (0 unless attention runs in ragged
    /// space), whose linear layers run on `block` rows at a time.
    ///
    /// # Errors
    /// The device has no memory.
    pub(super) fn reserve(&mut self, computed: usize, ragged: usize, block: usize) -> Result<()> {
        for (spec, buffer) in SPECS.iter().zip(&mut self.buffers) {
            let rows = match spec.lifetime {
                Lifetime::Layers | Lifetime::Outputs | Lifetime::Attention => computed,
                Lifetime::RaggedAttention => ragged,
                Lifetime::Block => block,
            };
            let width = self.sizes.width(spec.width);
            if rows > 0 && width > 0 {
                buffer.reserve(rows, width)?;
            }
        }
        Ok(())
    }

    /// `rows` rows of a buffer, with the values written last.
    ///
    /// # Errors
    /// The device has no memory.
    pub(super) fn rows(&mut self, name: Name, rows: usize) -> Result<Tensor> {
        let width = self.sizes.width(SPECS[name as usize].width);
        self.buffers[name as usize].view(rows, width)
    }

    /// `rows` rows of the first `columns` values of a buffer.
    ///
    /// # Errors
    /// The device has no memory, or `columns` is more than the buffer's width.
    pub(super) fn narrow(&mut self, name: Name, rows: usize, columns: usize) -> Result<Tensor> {
        let Spec { name, width, .. } = SPECS[name as usize];
        let width = self.sizes.width(width);
        if columns > width {
            candle_core::bail!("{columns} columns of the buffer {name:?}, which has {width}");
        }
        self.buffers[name as usize].view(rows, columns)
    }
}

/// Buffers of a pass, and the yield points between its operations.
pub(super) struct Workspace<'a, 'y> {
    pub(super) buffers: &'a mut Buffers,
    pub(super) yields: &'a mut Yields<'y>,
}

/// Bytes per row of all buffers together, by kind of row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RowBytes {
    /// For each computed row.
    pub(super) computed: usize,
    /// For each token, in mode `ragged` over a compacted batch.
    pub(super) ragged: usize,
    /// For each row of a block.
    pub(super) block: usize,
}

impl RowBytes {
    /// The bytes of a row in all buffers.
    pub(super) fn new(config: &TransformerConfig, target: &Target) -> Self {
        let sizes = Sizes::new(config, target);
        let mut bytes = Self::default();
        for spec in SPECS {
            let row = sizes.width(spec.width) * sizes.dtype(spec.role).size_in_bytes();
            match spec.lifetime {
                Lifetime::Layers | Lifetime::Outputs | Lifetime::Attention => bytes.computed += row,
                Lifetime::RaggedAttention => bytes.ragged += row,
                Lifetime::Block => bytes.block += row,
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_in_the_order_of_names() {
        for (index, spec) in SPECS.iter().enumerate() {
            assert_eq!(spec.name as usize, index, "{:?}", spec.name);
        }
    }

    #[test]
    fn the_table_in_the_documents_is_this_description() {
        let document = include_str!("../../../docs/architecture.md");
        for Spec { name, width, role, lifetime } in SPECS {
            let row = format!("| {name:?} | {width:?} | {role:?} | {lifetime:?} |");
            assert!(document.contains(&row), "docs/architecture.md lacks the row {row}");
        }
        let rows = document.lines().filter(|line| line.split('|').nth(3).is_some_and(is_element)).count();
        assert_eq!(rows, SPECS.len(), "docs/architecture.md has rows of other buffers");
    }

    fn is_element(cell: &str) -> bool {
        ["F32", "Projection", "Activation", "Index"].contains(&cell.trim())
    }
}
