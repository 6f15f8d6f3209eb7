//! Names of a transformer's tensors.

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
        Self {
            words,
            embedding_norm: "",
            layers: "",
            q: "",
            k: "",
            v: "",
            output: "",
            attention_norm: "",
            gate: "",
            up: "",
            down: "",
            final_norm: "",
            feed_forward_norm: "",
            ..DECODER
        }
    }
}

/// First components of names that files may lack.
pub(crate) const OPTIONAL_PREFIXES: [&str; 8] =
    ["model.", "bert.", "roberta.", "mpnet.", "distilbert.", "electra.", "new.", "deberta."];

/// First components of names in published code, and in files of the same models from transformers 5.
/// Files of an encoder alone may name T5's word embeddings after it, and the code of bidirectional LFM2 names the model after the family.
pub(crate) const RENAMED_PREFIXES: [(&str, &str); 4] =
    [("new.", "gte."), ("bert.", "nomic_bert."), ("shared.", "encoder.embed_tokens."), ("model.", "lfm2.")];

/// A name without the prefix of a model's class, by which the names of all its classes are equal.
pub(crate) fn bare(name: &str) -> &str {
    let renamed = RENAMED_PREFIXES.iter().map(|(_, prefix)| prefix);
    OPTIONAL_PREFIXES.iter().chain(renamed).find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Tensor names of Llama and the families derived from it.
pub(crate) const DECODER: TensorNames = TensorNames {
    words: "model.embed_tokens",
    positions: "",
    token_types: "",
    embedding_norm: "",
    embedding_projection: "",
    output_projection: "",
    relative_bias: "",
    relative_norm: "",
    position_key: "",
    position_query: "",
    final_norm: "model.norm",
    layers: "model.layers",
    q: "self_attn.q_proj",
    k: "self_attn.k_proj",
    v: "self_attn.v_proj",
    output: "self_attn.o_proj",
    convolution_input: "",
    convolution: "",
    convolution_output: "",
    q_norm: "self_attn.q_norm",
    k_norm: "self_attn.k_norm",
    attention_norm: "input_layernorm",
    attention_output_norm: "",
    gate: "mlp.gate_proj",
    up: "mlp.up_proj",
    plain_up: "",
    up_first: false,
    down: "mlp.down_proj",
    router: "",
    experts_up: "",
    experts_down: "",
    experts_bias: "",
    feed_forward_norm: "post_attention_layernorm",
    feed_forward_output_norm: "",
    pooler: "",
};

/// Tensor names of Gemma 3.
pub(crate) const GEMMA3: TensorNames = TensorNames {
    attention_output_norm: "post_attention_layernorm",
    feed_forward_norm: "pre_feedforward_layernorm",
    feed_forward_output_norm: "post_feedforward_layernorm",
    ..DECODER
};

/// Tensor names of BERT.
pub(crate) const BERT: TensorNames = TensorNames {
    words: "bert.embeddings.word_embeddings",
    positions: "bert.embeddings.position_embeddings",
    token_types: "bert.embeddings.token_type_embeddings",
    embedding_norm: "bert.embeddings.LayerNorm",
    embedding_projection: "",
    output_projection: "",
    relative_bias: "",
    relative_norm: "",
    position_key: "",
    position_query: "",
    final_norm: "",
    layers: "bert.encoder.layer",
    q: "attention.self.query",
    k: "attention.self.key",
    v: "attention.self.value",
    output: "attention.output.dense",
    convolution_input: "",
    convolution: "",
    convolution_output: "",
    q_norm: "",
    k_norm: "",
    attention_norm: "attention.output.LayerNorm",
    attention_output_norm: "",
    gate: "",
    up: "intermediate.dense",
    plain_up: "",
    up_first: false,
    down: "output.dense",
    router: "",
    experts_up: "",
    experts_down: "",
    experts_bias: "",
    feed_forward_norm: "output.LayerNorm",
    feed_forward_output_norm: "",
    pooler: "bert.pooler.dense",
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
