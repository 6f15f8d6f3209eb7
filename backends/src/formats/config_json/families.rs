//! Families of models: the differences between them as rows of data.

use crate::LoadError;
use crate::json::Fields;

/// Name of the config, for messages.
pub(super) const FILE: &str = "config.json";

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

const FAMILIES: [Family; 4] = [
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
const HEADS: [&str; 3] = ["Model", "ForCausalLM", "ForSequenceClassification"];

/// The family of a config.
///
/// # Errors
/// It is not supported, or the config is malformed.
pub(super) fn family(fields: &Fields<'_>) -> Result<&'static Family, LoadError> {
    let architectures: Vec<String> = fields.or("architectures", vec![])?;
    let model_type: String = fields.required("model_type")?;
    let Some(family) = FAMILIES.iter().find(|family| family.model_type == model_type) else {
        let what = match architectures.first() {
            Some(architecture) => format!("architecture {architecture} (`model_type` \"{model_type}\")"),
            None => format!("`model_type` \"{model_type}\""),
        };
        return Err(LoadError::unsupported(FILE, what, FAMILIES.map(|family| family.model_type).join(", ")));
    };
    let known = HEADS.map(|head| format!("{}{head}", family.prefix));
    match architectures.iter().find(|architecture| !known.contains(architecture)) {
        Some(other) => Err(LoadError::unsupported(FILE, format!("architecture {other}"), known.join(", "))),
        None => Ok(family),
    }
}
