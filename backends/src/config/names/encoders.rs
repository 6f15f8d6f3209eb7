//! Tensor names of families that are based on BERT.

use super::tensor_names::TensorNames;

/// Tensor names of BERT.
pub(crate) const BERT: TensorNames = TensorNames {
    words: "bert.embeddings.word_embeddings",
    positions: "bert.embeddings.position_embeddings",
    token_types: "bert.embeddings.token_type_embeddings",
    embedding_norm: "bert.embeddings.LayerNorm",
    layers: "bert.encoder.layer",
    q: "attention.self.query",
    k: "attention.self.key",
    v: "attention.self.value",
    output: "attention.output.dense",
    attention_norm: "attention.output.LayerNorm",
    up: "intermediate.dense",
    down: "output.dense",
    feed_forward_norm: "output.LayerNorm",
    pooler: "bert.pooler.dense",
    ..TensorNames::NONE
};

/// Tensor names of RoBERTa, XLM-RoBERTa and CamemBERT.
pub(crate) const ROBERTA: TensorNames = TensorNames {
    words: "roberta.embeddings.word_embeddings",
    positions: "roberta.embeddings.position_embeddings",
    token_types: "roberta.embeddings.token_type_embeddings",
    embedding_norm: "roberta.embeddings.LayerNorm",
    layers: "roberta.encoder.layer",
    pooler: "roberta.pooler.dense",
    ..BERT
};

/// Tensor names of XLM-RoBERTa-XL, whose norms are before blocks.
pub(crate) const XLM_ROBERTA_XL: TensorNames = TensorNames {
    embedding_norm: "",
    final_norm: "roberta.encoder.LayerNorm",
    attention_norm: "attention.self_attn_layer_norm",
    feed_forward_norm: "LayerNorm",
    ..ROBERTA
};

/// Tensor names of ELECTRA's discriminator.
pub(crate) const ELECTRA: TensorNames = TensorNames {
    words: "electra.embeddings.word_embeddings",
    positions: "electra.embeddings.position_embeddings",
    token_types: "electra.embeddings.token_type_embeddings",
    embedding_norm: "electra.embeddings.LayerNorm",
    embedding_projection: "electra.embeddings_project",
    layers: "electra.encoder.layer",
    pooler: "",
    ..BERT
};

/// Tensor names of MPNet.
pub(crate) const MPNET: TensorNames = TensorNames {
    words: "mpnet.embeddings.word_embeddings",
    positions: "mpnet.embeddings.position_embeddings",
    token_types: "",
    embedding_norm: "mpnet.embeddings.LayerNorm",
    relative_bias: "mpnet.encoder.relative_attention_bias",
    layers: "mpnet.encoder.layer",
    q: "attention.attn.q",
    k: "attention.attn.k",
    v: "attention.attn.v",
    output: "attention.attn.o",
    attention_norm: "attention.LayerNorm",
    pooler: "mpnet.pooler.dense",
    ..BERT
};

/// Tensor names of DistilBERT.
pub(crate) const DISTILBERT: TensorNames = TensorNames {
    words: "distilbert.embeddings.word_embeddings",
    positions: "distilbert.embeddings.position_embeddings",
    token_types: "",
    embedding_norm: "distilbert.embeddings.LayerNorm",
    layers: "distilbert.transformer.layer",
    q: "attention.q_lin",
    k: "attention.k_lin",
    v: "attention.v_lin",
    output: "attention.out_lin",
    attention_norm: "sa_layer_norm",
    up: "ffn.lin1",
    down: "ffn.lin2",
    feed_forward_norm: "output_layer_norm",
    pooler: "",
    ..BERT
};

/// Tensor names of DeBERTa v2 and v3.
pub(crate) const DEBERTA: TensorNames = TensorNames {
    words: "deberta.embeddings.word_embeddings",
    positions: "",
    token_types: "deberta.embeddings.token_type_embeddings",
    embedding_norm: "deberta.embeddings.LayerNorm",
    relative_bias: "deberta.encoder.rel_embeddings",
    relative_norm: "deberta.encoder.LayerNorm",
    position_key: "attention.self.pos_key_proj",
    position_query: "attention.self.pos_query_proj",
    layers: "deberta.encoder.layer",
    q: "attention.self.query_proj",
    k: "attention.self.key_proj",
    v: "attention.self.value_proj",
    pooler: "",
    ..BERT
};

/// Tensor names of NomicBERT's published code.
pub(crate) const NOMIC: TensorNames = TensorNames {
    words: "bert.embeddings.word_embeddings",
    positions: "",
    token_types: "bert.embeddings.token_type_embeddings",
    embedding_norm: "bert.emb_ln",
    layers: "bert.encoder.layers",
    q: "attn.Wqkv",
    k: "attn.Wqkv",
    v: "attn.Wqkv",
    output: "attn.out_proj",
    attention_norm: "norm1",
    gate: "mlp.fc12",
    up: "mlp.fc11",
    down: "mlp.fc2",
    feed_forward_norm: "norm2",
    pooler: "",
    ..BERT
};

/// Tensor names of NomicBERT without gates and with experts.
pub(crate) const NOMIC_EXPERTS: TensorNames = TensorNames {
    gate: "",
    up: "mlp.fc1",
    down: "mlp.fc2",
    router: "mlp.router.layer",
    experts_up: "mlp.experts.mlp.w1",
    experts_down: "mlp.experts.mlp.w2",
    experts_bias: "mlp.experts.bias",
    ..NOMIC
};

/// Tensor names of Alibaba-NLP/new-impl.
pub(crate) const GTE: TensorNames = TensorNames {
    words: "new.embeddings.word_embeddings",
    positions: "",
    token_types: "new.embeddings.token_type_embeddings",
    embedding_norm: "new.embeddings.LayerNorm",
    layers: "new.encoder.layer",
    q: "attention.qkv_proj",
    k: "attention.qkv_proj",
    v: "attention.qkv_proj",
    output: "attention.o_proj",
    attention_norm: "attn_ln",
    gate: "mlp.up_gate_proj",
    up: "mlp.up_gate_proj",
    up_first: true,
    down: "mlp.down_proj",
    feed_forward_norm: "mlp_ln",
    pooler: "new.pooler.dense",
    ..BERT
};

/// Tensor names of jinaai/jina-bert-implementation.
pub(crate) const JINA_V2: TensorNames = TensorNames {
    positions: "",
    gate: "mlp.gated_layers",
    up: "mlp.gated_layers",
    down: "mlp.wo",
    feed_forward_norm: "mlp.layernorm",
    ..BERT
};

/// Tensor names of jinaai/jina-bert-v2-qk-post-norm.
pub(crate) const JINA_V2_CODE: TensorNames = TensorNames {
    q_norm: "attention.self.layer_norm_q",
    k_norm: "attention.self.layer_norm_k",
    attention_norm: "layer_norm_1",
    attention_output_norm: "attention.output.LayerNorm",
    gate: "mlp.up_gated_layer",
    up: "mlp.up_gated_layer",
    up_first: true,
    down: "mlp.down_layer",
    feed_forward_norm: "layer_norm_2",
    ..JINA_V2
};

/// Tensor names of jinaai/xlm-roberta-flash-implementation.
pub(crate) const XLM_ROBERTA_FLASH: TensorNames = TensorNames {
    embedding_norm: "roberta.emb_ln",
    layers: "roberta.encoder.layers",
    q: "mixer.Wqkv",
    k: "mixer.Wqkv",
    v: "mixer.Wqkv",
    output: "mixer.out_proj",
    attention_norm: "norm1",
    up: "mlp.fc1",
    down: "mlp.fc2",
    feed_forward_norm: "norm2",
    ..ROBERTA
};

/// Tensor names of ModernBERT.
pub(crate) const MODERNBERT: TensorNames = TensorNames {
    words: "model.embeddings.tok_embeddings",
    positions: "",
    token_types: "",
    embedding_norm: "model.embeddings.norm",
    final_norm: "model.final_norm",
    layers: "model.layers",
    q: "attn.Wqkv",
    k: "attn.Wqkv",
    v: "attn.Wqkv",
    output: "attn.Wo",
    attention_norm: "attn_norm",
    gate: "mlp.Wi",
    up: "mlp.Wi",
    down: "mlp.Wo",
    feed_forward_norm: "mlp_norm",
    pooler: "",
    ..BERT
};

/// Tensor names of T5's encoder; the first layer holds the biases of all.
pub(crate) const T5: TensorNames = TensorNames {
    words: "encoder.embed_tokens",
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
