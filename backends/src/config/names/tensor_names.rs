//! Tensor names of a family.

/// Names of the tensors of a family, without `.weight` and `.bias`; empty if the family has no such tensor. Names of layers follow the
/// layer's prefix. The first component of a name (`model.`, `bert.`) is optional in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TensorNames {
    pub(crate) words: &'static str,
    /// Learned positions.
    pub(crate) positions: &'static str,
    pub(crate) token_types: &'static str,
    /// The norm of the embeddings.
    pub(crate) embedding_norm: &'static str,
    /// The projection from embeddings to states of another width.
    pub(crate) embedding_projection: &'static str,
    /// The projection from the states after the last norm to another width.
    pub(crate) output_projection: &'static str,
    /// Biases of scores by distance, `[buckets, num_heads]`, of all layers or of one; or relative position embeddings, `[rows, hidden]`.
    pub(crate) relative_bias: &'static str,
    /// The norm of the relative position embeddings.
    pub(crate) relative_norm: &'static str,
    /// A layer's projections of the relative position embeddings, against which queries and keys are scored.
    pub(crate) position_key: &'static str,
    pub(crate) position_query: &'static str,
    /// The norm after the last layer.
    pub(crate) final_norm: &'static str,
    /// The prefix before the number of a layer.
    pub(crate) layers: &'static str,
    /// The projections of attention. Neighbours with the same name are one matrix, q above k above v.
    pub(crate) q: &'static str,
    pub(crate) k: &'static str,
    pub(crate) v: &'static str,
    pub(crate) output: &'static str,
    /// The projections before and after a short convolution, and the convolution itself.
    pub(crate) convolution_input: &'static str,
    pub(crate) convolution: &'static str,
    pub(crate) convolution_output: &'static str,
    /// Norms of q and k, per head or over all heads.
    pub(crate) q_norm: &'static str,
    pub(crate) k_norm: &'static str,
    /// The norm before or after attention.
    pub(crate) attention_norm: &'static str,
    /// The norm of attention's output, in models with norms around blocks; the first of two norms after attention, in models with norms
    /// after blocks.
    pub(crate) attention_output_norm: &'static str,
    /// The projections of the feed-forward block; a plain one has no gate. With the same name, they are one matrix.
    pub(crate) gate: &'static str,
    pub(crate) up: &'static str,
    /// The up projection of a block without a gate, in families that give it a name of its own.
    pub(crate) plain_up: &'static str,
    /// The up projection is above the gate in that matrix.
    pub(crate) up_first: bool,
    pub(crate) down: &'static str,
    /// The matrix that scores the experts.
    pub(crate) router: &'static str,
    /// The up and down matrices of all experts, each `[experts * intermediate, hidden]`, and the bias that they share: complete tensor
    /// names.
    pub(crate) experts_up: &'static str,
    pub(crate) experts_down: &'static str,
    pub(crate) experts_bias: &'static str,
    /// The norm before or after the feed-forward block.
    pub(crate) feed_forward_norm: &'static str,
    /// The norm of the feed-forward block's output, in models with norms around blocks.
    pub(crate) feed_forward_output_norm: &'static str,
    /// The dense layer with tanh on the state of the first token.
    pub(crate) pooler: &'static str,
}

impl TensorNames {
    /// The names of a family without tensors.
    pub(super) const NONE: Self = Self {
        words: "",
        positions: "",
        token_types: "",
        embedding_norm: "",
        embedding_projection: "",
        output_projection: "",
        relative_bias: "",
        relative_norm: "",
        position_key: "",
        position_query: "",
        final_norm: "",
        layers: "",
        q: "",
        k: "",
        v: "",
        output: "",
        convolution_input: "",
        convolution: "",
        convolution_output: "",
        q_norm: "",
        k_norm: "",
        attention_norm: "",
        attention_output_norm: "",
        gate: "",
        up: "",
        plain_up: "",
        up_first: false,
        down: "",
        router: "",
        experts_up: "",
        experts_down: "",
        experts_bias: "",
        feed_forward_norm: "",
        feed_forward_output_norm: "",
        pooler: "",
    };

    /// The prefix of the names of a layer.
    pub(crate) fn layer(&self, index: usize) -> String {
        format!("{}.{index}.", self.layers)
    }

    /// The weight of the first layer's query projection.
    pub(crate) fn first_projection(&self) -> String {
        format!("{}{}.weight", self.layer(0), self.q)
    }

    /// The names of static embeddings, whose tensor is `words`.
    pub(crate) const fn table(words: &'static str) -> Self {
        Self { words, ..Self::NONE }
    }
}
