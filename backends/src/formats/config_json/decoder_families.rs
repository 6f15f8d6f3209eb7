//! Families of decoders: the differences between them as rows of data.

/// One family.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// Prefix of `architectures`.
    pub(super) prefix: &'static str,
    pub(super) qk_norm: bool,
    pub(super) attention_bias: AttentionBias,
    /// The config's `mlp_bias` is supported.
    pub(super) mlp_bias: bool,
    /// Default of `head_dim`; if absent, `hidden_size / num_attention_heads`.
    pub(super) default_head_dim: Option<usize>,
    /// `num_key_value_heads` may be missing and is then `num_attention_heads`. Other families have a fixed default, which no
    /// real checkpoint relies on.
    pub(super) optional_kv_heads: bool,
    pub(super) default_rope_theta: Option<f64>,
    pub(super) window: Window,
}

/// Biases of the attention projections.
#[derive(PartialEq)]
pub(super) enum AttentionBias {
    Never,
    /// Always q, k and v, never the output.
    Qkv,
    /// All or none, by `attention_bias`.
    FromConfig,
}

/// Source of a family's sliding windows.
pub(super) enum Window {
    Never,
    /// `sliding_window` for all layers; `default` if the config lacks it.
    AllLayers {
        default: usize,
    },
    /// `layer_types`, or with `use_sliding_window` the layers from `max_window_layers` on.
    SomeLayers,
}

pub(super) const FAMILIES: [Family; 4] = [
    Family {
        model_type: "qwen3",
        prefix: "Qwen3",
        qk_norm: true,
        attention_bias: AttentionBias::FromConfig,
        mlp_bias: false,
        default_head_dim: Some(128),
        optional_kv_heads: false,
        default_rope_theta: None,
        window: Window::SomeLayers,
    },
    Family {
        model_type: "qwen2",
        prefix: "Qwen2",
        qk_norm: false,
        attention_bias: AttentionBias::Qkv,
        mlp_bias: false,
        default_head_dim: None,
        optional_kv_heads: false,
        default_rope_theta: None,
        window: Window::SomeLayers,
    },
    Family {
        model_type: "llama",
        prefix: "Llama",
        qk_norm: false,
        attention_bias: AttentionBias::FromConfig,
        mlp_bias: true,
        default_head_dim: None,
        optional_kv_heads: true,
        default_rope_theta: Some(10_000.0),
        window: Window::Never,
    },
    Family {
        model_type: "mistral",
        prefix: "Mistral",
        qk_norm: false,
        attention_bias: AttentionBias::Never,
        mlp_bias: false,
        default_head_dim: None,
        optional_kv_heads: false,
        default_rope_theta: None,
        window: Window::AllLayers { default: 4096 },
    },
];

/// Suffixes of `architectures`.
pub(super) const HEADS: [&str; 3] = ["Model", "ForCausalLM", "ForSequenceClassification"];
