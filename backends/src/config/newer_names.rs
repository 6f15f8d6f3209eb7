//! Names of the tensors of T5, UMT5 and LFM2.

use super::names::{BERT, DECODER, TensorNames};

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

/// Tensor names of LFM2.
pub(crate) const LFM2: TensorNames = TensorNames {
    final_norm: "model.embedding_norm",
    output: "self_attn.out_proj",
    convolution_input: "conv.in_proj",
    convolution: "conv.conv",
    convolution_output: "conv.out_proj",
    q_norm: "self_attn.q_layernorm",
    k_norm: "self_attn.k_layernorm",
    attention_norm: "operator_norm",
    gate: "feed_forward.w1",
    up: "feed_forward.w3",
    down: "feed_forward.w2",
    feed_forward_norm: "ffn_norm",
    ..DECODER
};
