//! Tensor names of families that are based on Llama.

use super::tensor_names::TensorNames;

/// Tensor names of Llama and the families derived from it.
pub(crate) const DECODER: TensorNames = TensorNames {
    words: "model.embed_tokens",
    final_norm: "model.norm",
    layers: "model.layers",
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    output: "self_attn.o_proj",
    q_norm: "self_attn.q_norm",
    k_norm: "self_attn.k_norm",
    attention_norm: "input_layernorm",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    down: "mlp.down_proj",
    feed_forward_norm: "post_attention_layernorm",
    ..TensorNames::NONE
};

/// Tensor names of Gemma 3.
pub(crate) const GEMMA3: TensorNames = TensorNames {
    attention_output_norm: "post_attention_layernorm",
    feed_forward_norm: "pre_feedforward_layernorm",
    feed_forward_output_norm: "post_feedforward_layernorm",
    ..DECODER
};

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
