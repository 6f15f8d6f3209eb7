//! The shapes of published models, from their `config.json`.

use serde_json::{Value, json};

/// A shape by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shape {
    /// SmolLM2-135M (Llama).
    #[value(name = "smollm2-135m")]
    SmolLm2_135m,
    /// SmolLM2-135M's sizes in the Qwen3 architecture.
    #[value(name = "qwen3-135m")]
    Qwen3_135m,
    /// Qwen3-0.6B.
    #[value(name = "qwen3-0.6b")]
    Qwen3_0_6b,
    /// Qwen3-4B.
    #[value(name = "qwen3-4b")]
    Qwen3_4b,
    /// Qwen3-8B.
    #[value(name = "qwen3-8b")]
    Qwen3_8b,
    /// all-MiniLM-L6-v2 (BERT).
    #[value(name = "minilm-l6")]
    MiniLmL6,
    /// bge-base-en-v1.5 (BERT).
    #[value(name = "bge-base")]
    BgeBase,
    /// bge-large-en-v1.5 (BERT).
    #[value(name = "bge-large")]
    BgeLarge,
    /// XLM-RoBERTa-base's sizes in BERT's architecture.
    #[value(name = "xlm-r-base")]
    XlmRBase,
    /// ModernBERT-base: a window of 128 tokens in two of three layers.
    #[value(name = "modernbert-base")]
    ModernBertBase,
    /// nomic-embed-text-v1.5 (Nomic BERT).
    #[value(name = "nomic-v1.5")]
    NomicV15,
    /// EmbeddingGemma-300m (Gemma 3 without a mask): a window of 512 tokens in five of six layers.
    #[value(name = "embeddinggemma-300m")]
    EmbeddingGemma300m,
}

/// The family whose config and tensor names a shape uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Llama,
    Qwen3,
    Bert,
    ModernBert,
    Nomic,
    Gemma,
}

/// The sizes that decide the cost of a forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) hidden: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) intermediate: usize,
    pub(crate) vocab: usize,
    /// Matrices of the feed-forward block: up and down, and a gate if any.
    pub(crate) feed_forward: usize,
}

impl Sizes {
    /// Multiply-adds of the linear layers for one row, times two.
    pub(crate) fn linear_flops(&self) -> f64 {
        let attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads);
        (2 * self.layers * (attention + self.feed_forward * self.hidden * self.intermediate)) as f64
    }
}

impl Sizes {
    /// Operations of a forward pass of `rows` rows and `pairs` query-key pairs.
    pub(crate) fn flops(&self, rows: usize, pairs: u64) -> f64 {
        self.linear_flops() * rows as f64 + (4 * self.layers * self.heads * self.head_dim) as f64 * pairs as f64
    }
}

impl Shape {
    pub(crate) fn sizes(self) -> Sizes {
        let sizes = |hidden, layers, heads, kv_heads, head_dim, intermediate, vocab| Sizes {
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab,
            feed_forward: if self.family() == Family::Bert { 2 } else { 3 },
        };
        match self {
            Self::SmolLm2_135m | Self::Qwen3_135m => sizes(576, 30, 9, 3, 64, 1536, 49_152),
            Self::Qwen3_0_6b => sizes(1024, 28, 16, 8, 128, 3072, 151_936),
            Self::Qwen3_4b => sizes(2560, 36, 32, 8, 128, 9728, 151_936),
            Self::Qwen3_8b => sizes(4096, 36, 32, 8, 128, 12_288, 151_936),
            Self::MiniLmL6 => sizes(384, 6, 12, 12, 32, 1536, 30_522),
            Self::BgeBase => sizes(768, 12, 12, 12, 64, 3072, 30_522),
            Self::BgeLarge => sizes(1024, 24, 16, 16, 64, 4096, 30_522),
            Self::XlmRBase => sizes(768, 12, 12, 12, 64, 3072, 250_002),
            Self::ModernBertBase => sizes(768, 22, 12, 12, 64, 1152, 50_368),
            Self::NomicV15 => sizes(768, 12, 12, 12, 64, 3072, 30_528),
            Self::EmbeddingGemma300m => sizes(768, 24, 3, 1, 256, 1152, 262_144),
        }
    }

    fn family(self) -> Family {
        match self {
            Self::SmolLm2_135m => Family::Llama,
            Self::Qwen3_135m | Self::Qwen3_0_6b | Self::Qwen3_4b | Self::Qwen3_8b => Family::Qwen3,
            Self::MiniLmL6 | Self::BgeBase | Self::BgeLarge | Self::XlmRBase => Family::Bert,
            Self::ModernBertBase => Family::ModernBert,
            Self::NomicV15 => Family::Nomic,
            Self::EmbeddingGemma300m => Family::Gemma,
        }
    }

    /// Full attention: every token sees all others.
    pub(crate) fn is_encoder(self) -> bool {
        !matches!(self.family(), Family::Llama | Family::Qwen3)
    }

    /// The same shape with another number of layers or vocabulary size, if given.
    pub(crate) fn config(self, sizes: Sizes) -> Value {
        if let Some(config) = self.newer_config(sizes) {
            return config;
        }
        if self.family() == Family::Bert {
            return json!({
                "architectures": ["BertModel"],
                "hidden_act": "gelu",
                "hidden_size": sizes.hidden,
                "intermediate_size": sizes.intermediate,
                "layer_norm_eps": 1e-12,
                "max_position_embeddings": 512,
                "model_type": "bert",
                "num_attention_heads": sizes.heads,
                "num_hidden_layers": sizes.layers,
                "type_vocab_size": 2,
                "vocab_size": sizes.vocab,
            });
        }
        let (model_type, architecture) =
            if self.family() == Family::Qwen3 { ("qwen3", "Qwen3Model") } else { ("llama", "LlamaModel") };
        json!({
            "architectures": [architecture],
            "attention_bias": false,
            "head_dim": sizes.head_dim,
            "hidden_act": "silu",
            "hidden_size": sizes.hidden,
            "intermediate_size": sizes.intermediate,
            "max_position_embeddings": 32_768,
            "model_type": model_type,
            "num_attention_heads": sizes.heads,
            "num_hidden_layers": sizes.layers,
            "num_key_value_heads": sizes.kv_heads,
            "rms_norm_eps": 1e-6,
            "rope_scaling": null,
            "rope_theta": 1_000_000,
            "tie_word_embeddings": true,
            "torch_dtype": "bfloat16",
            "use_sliding_window": false,
            "vocab_size": sizes.vocab,
        })
    }

    /// The config of a family with sliding windows or with its own keys.
    fn newer_config(self, sizes: Sizes) -> Option<Value> {
        let Sizes { hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, .. } = sizes;
        Some(match self.family() {
            Family::Llama | Family::Qwen3 | Family::Bert => return None,
            Family::ModernBert => json!({
                "architectures": ["ModernBertModel"], "model_type": "modernbert", "hidden_activation": "gelu",
                "hidden_size": hidden, "intermediate_size": intermediate, "num_attention_heads": heads,
                "num_hidden_layers": layers, "vocab_size": vocab, "norm_eps": 1e-5, "local_attention": 128,
                "global_attn_every_n_layers": 3, "max_position_embeddings": 8192,
            }),
            Family::Nomic => json!({
                "architectures": ["NomicBertModel"], "model_type": "nomic_bert", "activation_function": "swiglu",
                "n_embd": hidden, "n_inner": intermediate, "n_head": heads, "n_layer": layers, "vocab_size": vocab,
                "layer_norm_epsilon": 1e-12, "rotary_emb_base": 1000, "n_positions": 8192, "type_vocab_size": 2,
            }),
            Family::Gemma => json!({
                "architectures": ["Gemma3TextModel"], "model_type": "gemma3_text", "head_dim": head_dim,
                "hidden_activation": "gelu_pytorch_tanh", "hidden_size": hidden, "intermediate_size": intermediate,
                "num_attention_heads": heads, "num_key_value_heads": kv_heads, "num_hidden_layers": layers,
                "vocab_size": vocab, "rms_norm_eps": 1e-6, "query_pre_attn_scalar": head_dim, "sliding_window": 512,
                "_sliding_window_pattern": 6, "use_bidirectional_attention": true, "max_position_embeddings": 2048,
            }),
        })
    }

    /// Names and shapes of all tensors, in the order they are written.
    pub(crate) fn tensors(self, sizes: Sizes) -> Vec<(String, Vec<usize>)> {
        match self.family() {
            Family::Bert => return encoder_tensors(sizes),
            Family::ModernBert => return modernbert_tensors(sizes),
            Family::Nomic => return nomic_tensors(sizes),
            Family::Llama | Family::Qwen3 | Family::Gemma => {}
        }
        let family = self.family();
        let Sizes { hidden, layers, heads, kv_heads, head_dim, intermediate, vocab, .. } = sizes;
        let mut tensors = vec![("embed_tokens.weight".to_owned(), vec![vocab, hidden])];
        for i in 0..layers {
            let mut add = |name: &str, shape: &[usize]| tensors.push((format!("layers.{i}.{name}"), shape.to_vec()));
            add("input_layernorm.weight", &[hidden]);
            add("self_attn.q_proj.weight", &[heads * head_dim, hidden]);
            add("self_attn.k_proj.weight", &[kv_heads * head_dim, hidden]);
            add("self_attn.v_proj.weight", &[kv_heads * head_dim, hidden]);
            if family == Family::Gemma {
                add("pre_feedforward_layernorm.weight", &[hidden]);
                add("post_feedforward_layernorm.weight", &[hidden]);
            }
            if family != Family::Llama {
                add("self_attn.q_norm.weight", &[head_dim]);
                add("self_attn.k_norm.weight", &[head_dim]);
            }
            add("self_attn.o_proj.weight", &[hidden, heads * head_dim]);
            add("post_attention_layernorm.weight", &[hidden]);
            add("mlp.gate_proj.weight", &[intermediate, hidden]);
            add("mlp.up_proj.weight", &[intermediate, hidden]);
            add("mlp.down_proj.weight", &[hidden, intermediate]);
        }
        tensors.push(("norm.weight".to_owned(), vec![hidden]));
        tensors
    }
}

fn modernbert_tensors(sizes: Sizes) -> Vec<(String, Vec<usize>)> {
    let Sizes { hidden, layers, intermediate, vocab, .. } = sizes;
    let mut tensors = vec![
        ("embeddings.tok_embeddings.weight".to_owned(), vec![vocab, hidden]),
        ("embeddings.norm.weight".to_owned(), vec![hidden]),
    ];
    for i in 0..layers {
        let mut add = |name: &str, shape: &[usize]| tensors.push((format!("layers.{i}.{name}.weight"), shape.to_vec()));
        if i > 0 {
            add("attn_norm", &[hidden]);
        }
        add("attn.Wqkv", &[3 * hidden, hidden]);
        add("attn.Wo", &[hidden, hidden]);
        add("mlp_norm", &[hidden]);
        add("mlp.Wi", &[2 * intermediate, hidden]);
        add("mlp.Wo", &[hidden, intermediate]);
    }
    tensors.push(("final_norm.weight".to_owned(), vec![hidden]));
    tensors
}

fn nomic_tensors(sizes: Sizes) -> Vec<(String, Vec<usize>)> {
    let Sizes { hidden, layers, intermediate, vocab, .. } = sizes;
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| tensors.push((name, shape.to_vec()));
    add("embeddings.word_embeddings.weight".to_owned(), &[vocab, hidden]);
    add("embeddings.token_type_embeddings.weight".to_owned(), &[2, hidden]);
    let norms = (0..layers).flat_map(|i| [1, 2].map(|norm| format!("encoder.layers.{i}.norm{norm}")));
    for norm in norms.chain(["emb_ln".to_owned()]) {
        add(format!("{norm}.weight"), &[hidden]);
        add(format!("{norm}.bias"), &[hidden]);
    }
    for i in 0..layers {
        let layer = format!("encoder.layers.{i}");
        add(format!("{layer}.attn.Wqkv.weight"), &[3 * hidden, hidden]);
        add(format!("{layer}.attn.out_proj.weight"), &[hidden, hidden]);
        add(format!("{layer}.mlp.fc11.weight"), &[intermediate, hidden]);
        add(format!("{layer}.mlp.fc12.weight"), &[intermediate, hidden]);
        add(format!("{layer}.mlp.fc2.weight"), &[hidden, intermediate]);
    }
    tensors
}

fn encoder_tensors(sizes: Sizes) -> Vec<(String, Vec<usize>)> {
    let Sizes { hidden, layers, intermediate, vocab, .. } = sizes;
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| tensors.push((name, shape.to_vec()));
    for (name, rows) in [("word", vocab), ("position", 512), ("token_type", 2)] {
        add(format!("embeddings.{name}_embeddings.weight"), &[rows, hidden]);
    }
    for kind in ["weight", "bias"] {
        add(format!("embeddings.LayerNorm.{kind}"), &[hidden]);
    }
    for i in 0..layers {
        for (name, out, width) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", intermediate, hidden),
            ("output.dense", hidden, intermediate),
        ] {
            add(format!("encoder.layer.{i}.{name}.weight"), &[out, width]);
            add(format!("encoder.layer.{i}.{name}.bias"), &[out]);
        }
        for name in ["attention.output.LayerNorm", "output.LayerNorm"] {
            for kind in ["weight", "bias"] {
                add(format!("encoder.layer.{i}.{name}.{kind}"), &[hidden]);
            }
        }
    }
    tensors
}
