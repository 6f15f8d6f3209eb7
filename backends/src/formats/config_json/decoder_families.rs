//! Families of decoders: the differences between them as rows of data.

use crate::config::{MaskConfig, NormKind, Placement, TensorNames, names};
use crate::formats::families::Must;
use prefold_kernels::Activation;

/// One family.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// Prefix of `architectures`.
    pub(super) prefix: &'static str,
    /// The mask, unless a field of the config or the architecture lifts it.
    pub(super) mask: MaskConfig,
    pub(super) norm: NormKind,
    pub(super) placement: Placement,
    pub(super) qk_norm: bool,
    pub(super) attention_bias: AttentionBias,
    /// The config's `mlp_bias` is supported.
    pub(super) mlp_bias: bool,
    /// The field of the activation and the only one that the family has.
    pub(super) activation: (&'static str, &'static str, Activation),
    /// Default of `head_dim`; if absent, `hidden_size / num_attention_heads`.
    pub(super) default_head_dim: Option<usize>,
    /// `num_key_value_heads` may be missing and is then `num_attention_heads`. Other families have a fixed default, which no
    /// real checkpoint relies on.
    pub(super) optional_kv_heads: bool,
    pub(super) rope: Rope,
    pub(super) window: Window,
    /// Embeddings are multiplied by the root of `hidden_size`.
    pub(super) scaled_embeddings: bool,
    /// Scores are divided by the root of this field instead of that of the head's width.
    pub(super) query_scalar: Option<&'static str>,
    /// Default of `tie_word_embeddings`.
    pub(super) tied: bool,
    /// Checkpoints bring Python code, which computes what this row says.
    pub(super) own_code: bool,
    /// Fields that must have one value where they are present.
    pub(super) musts: &'static [&'static [(&'static str, Must)]],
    pub(super) names: TensorNames,
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

/// The bases of the rotations.
pub(super) enum Rope {
    /// One for all layers; its default.
    One { default: Option<f64> },
    /// One for layers without a window and one for those with a window: fields and defaults.
    Two { full: (&'static str, f64), windowed: (&'static str, f64) },
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
    /// All layers but every so many, by `layer_types` or `_sliding_window_pattern`; without a causal mask half of the window is on
    /// either side.
    Alternating,
}

/// Decoders that were trained without the causal mask, and say so by the name of their class or by the code that they bring.
pub(super) struct Variant {
    pub(super) model_type: &'static str,
    pub(super) mark: Mark,
    /// The projection of the final states to a width that a field says, where there is one.
    pub(super) projection: Option<Projection>,
}

/// The mark of a variant.
pub(super) enum Mark {
    /// One of `architectures`.
    Class(&'static str),
    /// The class that `AutoModel` is in `auto_map`, which attends to all tokens.
    Code(&'static str),
}

/// A projection after the last norm.
pub(super) struct Projection {
    pub(super) width: &'static str,
    pub(super) name: &'static str,
}

/// Fields of decoders that no family here computes.
const MUSTS: &[(&str, Must)] =
    &[("use_mrope", Must::Bool(false)), ("use_qk_norm", Must::Bool(false)), ("qk_layernorm", Must::Bool(false))];

const LLAMA: Family = Family {
    model_type: "llama",
    prefix: "Llama",
    mask: MaskConfig::Causal,
    norm: NormKind::Rms,
    placement: Placement::Before,
    qk_norm: false,
    attention_bias: AttentionBias::FromConfig,
    mlp_bias: true,
    activation: ("hidden_act", "silu", Activation::Silu),
    default_head_dim: None,
    optional_kv_heads: true,
    rope: Rope::One { default: Some(10_000.0) },
    window: Window::Never,
    scaled_embeddings: false,
    query_scalar: None,
    tied: false,
    own_code: false,
    musts: &[MUSTS],
    names: names::DECODER,
};

pub(super) const FAMILIES: [Family; 6] = [
    Family {
        model_type: "qwen3",
        prefix: "Qwen3",
        qk_norm: true,
        mlp_bias: false,
        default_head_dim: Some(128),
        optional_kv_heads: false,
        rope: Rope::One { default: None },
        window: Window::SomeLayers,
        ..LLAMA
    },
    Family {
        model_type: "qwen2",
        prefix: "Qwen2",
        attention_bias: AttentionBias::Qkv,
        mlp_bias: false,
        optional_kv_heads: false,
        rope: Rope::One { default: None },
        window: Window::SomeLayers,
        ..LLAMA
    },
    LLAMA,
    Family {
        model_type: "mistral",
        prefix: "Mistral",
        attention_bias: AttentionBias::Never,
        mlp_bias: false,
        optional_kv_heads: false,
        rope: Rope::One { default: None },
        window: Window::AllLayers { default: 4096 },
        ..LLAMA
    },
    // NVIDIA's: Llama without the mask.
    Family {
        model_type: "llama_bidirec",
        prefix: "LlamaBidirectional",
        mask: MaskConfig::Full,
        own_code: true,
        ..LLAMA
    },
    Family {
        model_type: "gemma3_text",
        prefix: "Gemma3",
        norm: NormKind::RmsPlusOne,
        placement: Placement::Around,
        qk_norm: true,
        mlp_bias: false,
        activation: ("hidden_activation", "gelu_pytorch_tanh", Activation::GeluTanh),
        default_head_dim: Some(256),
        optional_kv_heads: false,
        rope: Rope::Two { full: ("rope_theta", 1_000_000.0), windowed: ("rope_local_base_freq", 10_000.0) },
        window: Window::Alternating,
        scaled_embeddings: true,
        query_scalar: Some("query_pre_attn_scalar"),
        tied: true,
        musts: &[
            MUSTS,
            &[("attn_logit_softcapping", Must::Absent("null")), ("final_logit_softcapping", Must::Absent("null"))],
        ],
        names: names::GEMMA3,
        ..LLAMA
    },
];

/// Suffixes of `architectures`.
pub(super) const HEADS: [&str; 4] = ["Model", "TextModel", "ForCausalLM", "ForSequenceClassification"];

pub(super) const VARIANTS: [Variant; 2] = [
    // voyage-4-nano.
    Variant {
        model_type: "qwen3",
        mark: Mark::Class("Qwen3BidirectionalModel"),
        projection: Some(Projection { width: "num_labels", name: "linear" }),
    },
    // gte-Qwen2 and what was trained from it, stella_en_1.5B among them.
    Variant { model_type: "qwen2", mark: Mark::Code("modeling_qwen.Qwen2Model"), projection: None },
];
