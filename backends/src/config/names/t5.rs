//! Names of the tensors of T5's encoder and of those like it.

use super::{BERT, TensorNames};

/// Tensor names of T5's encoder; the first layer holds the biases of all.
pub(crate) const T5: TensorNames = TensorNames {
    words: "shared",
    positions: "",
    token_types: "",
    embedding_norm: "",
    relative_bias: "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",
    final_norm: "encoder.final_layer_norm",
    layers: "encoder.block",
    q: "layer.0.SelfAttention.q",
    k: "layer.0.SelfAttention.k",
    v: "layer.0.SelfAttention.v",
    output: "layer.0.SelfAttention.o",
    attention_norm: "layer.0.layer_norm",
    gate: "layer.1.DenseReluDense.wi_0",
    up: "layer.1.DenseReluDense.wi_1",
    plain_up: "layer.1.DenseReluDense.wi",
    down: "layer.1.DenseReluDense.wo",
    feed_forward_norm: "layer.1.layer_norm",
    pooler: "",
    ..BERT
};

/// Tensor names of UMT5's encoder; each layer holds its own biases.
pub(crate) const UMT5: TensorNames =
    TensorNames { relative_bias: "layer.0.SelfAttention.relative_attention_bias", ..T5 };
