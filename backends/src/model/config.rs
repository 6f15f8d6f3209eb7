//! `config.json` to [`DecoderConfig`]: the families' differences as data.

pub(crate) use super::rope::{RopeConfig, RopeScaling};
use crate::LoadError;
use crate::json::Fields;
use serde_json::Value;

/// The file that the config is read from, for messages.
const FILE: &str = "config.json";

/// Everything that decides how a decoder of the family computes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DecoderConfig {
    /// `qwen3`, `qwen2`, `llama` or `mistral`; for display, nothing branches on it.
    pub(crate) model_type: String,
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) num_layers: usize,
    pub(crate) num_heads: usize,
    pub(crate) num_kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) rms_norm_eps: f32,
    pub(crate) rope: RopeConfig,
    /// The q, k and v projections have biases.
    pub(crate) qkv_bias: bool,
    /// The output projection of attention has a bias.
    pub(crate) o_bias: bool,
    /// The projections of the MLP have biases.
    pub(crate) mlp_bias: bool,
    /// Queries and keys are normalised per head before RoPE.
    pub(crate) qk_norm: bool,
    /// How many positions each layer sees back, itself included; `None` sees all. `[num_layers]`
    pub(crate) sliding_windows: Vec<Option<usize>>,
    /// The language model's head is the embedding matrix.
    pub(crate) tie_word_embeddings: bool,
    pub(crate) max_position_embeddings: usize,
}

/// What sets one family apart from the others.
struct Family {
    model_type: &'static str,
    /// What `architectures` begin with.
    prefix: &'static str,
    qk_norm: bool,
    attention_bias: AttentionBias,
    /// `mlp_bias` of the config is honoured.
    mlp_bias: bool,
    /// When the config has none; otherwise `hidden_size / num_attention_heads`.
    default_head_dim: Option<usize>,
    default_rope_theta: Option<f64>,
    window: Window,
}

/// Which attention projections have biases.
#[derive(PartialEq)]
enum AttentionBias {
    Never,
    /// q, k and v always, o never.
    Qkv,
    /// All four or none, as `attention_bias` says.
    FromConfig,
}

/// Where a family's sliding windows come from.
enum Window {
    Never,
    /// `sliding_window` for all layers; with this value where the config has no such field.
    AllLayers {
        default: usize,
    },
    /// `layer_types`, or `use_sliding_window` from layer `max_window_layers` on.
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
        default_rope_theta: None,
        window: Window::AllLayers { default: 4096 },
    },
];

/// What `architectures` may end with.
const HEADS: [&str; 3] = ["Model", "ForCausalLM", "ForSequenceClassification"];

impl DecoderConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// The architecture, or anything that it asks for, is not supported; a field is missing, malformed
    /// or out of range.
    pub(crate) fn from_json(value: &Value) -> Result<Self, LoadError> {
        let fields = Fields::new(FILE, value)?;
        let family = family(&fields)?;
        refuse_unsupported(&fields, family)?;

        let num_heads = fields.required("num_attention_heads")?;
        let hidden_size = fields.required("hidden_size")?;
        let num_layers = fields.required("num_hidden_layers")?;
        let bias = fields.or("attention_bias", false)?;
        let from_config = family.attention_bias == AttentionBias::FromConfig && bias;
        let config = Self {
            model_type: family.model_type.to_owned(),
            vocab_size: fields.required("vocab_size")?,
            hidden_size,
            intermediate_size: fields.required("intermediate_size")?,
            num_layers,
            num_heads,
            num_kv_heads: num_kv_heads(&fields, family, num_heads)?,
            head_dim: head_dim(&fields, family, hidden_size, num_heads)?,
            rms_norm_eps: fields.or("rms_norm_eps", 1e-6)? as f32,
            rope: RopeConfig::from_fields(&fields, family.default_rope_theta)?,
            qkv_bias: family.attention_bias == AttentionBias::Qkv || from_config,
            o_bias: from_config,
            mlp_bias: family.mlp_bias && fields.or("mlp_bias", false)?,
            qk_norm: family.qk_norm,
            sliding_windows: vec![],
            tie_word_embeddings: fields.or("tie_word_embeddings", false)?,
            max_position_embeddings: fields.required("max_position_embeddings")?,
        };
        config.validate(FILE)?;
        // After the check of `num_layers`: this allocates by it.
        let sliding_windows = sliding_windows(&fields, family, num_layers)?;
        Ok(Self { sliding_windows, ..config })
    }

    /// Checks that the sizes are possible and fit each other.
    ///
    /// # Errors
    /// One does not; `file` is named.
    pub(crate) fn validate(&self, file: &str) -> Result<(), LoadError> {
        // Far above any model, low enough that products of any three stay below 2^63.
        let sizes = [
            ("vocab_size", self.vocab_size, 1 << 24),
            ("hidden_size", self.hidden_size, 1 << 18),
            ("intermediate_size", self.intermediate_size, 1 << 20),
            ("num_hidden_layers", self.num_layers, 1 << 12),
            ("num_attention_heads", self.num_heads, 1 << 12),
            ("num_key_value_heads", self.num_kv_heads, 1 << 12),
            ("head_dim", self.head_dim, 1 << 12),
            ("max_position_embeddings", self.max_position_embeddings, 1 << 31),
        ];
        for (name, value, limit) in sizes {
            if value == 0 || value > limit {
                return Err(LoadError::invalid(file, format!("`{name}` must be from 1 to {limit}, it is {value}")));
            }
        }
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            let (heads, kv_heads) = (self.num_heads, self.num_kv_heads);
            let problem =
                format!("`num_attention_heads` ({heads}) must be a multiple of `num_key_value_heads` ({kv_heads})");
            return Err(LoadError::invalid(file, problem));
        }
        if !self.head_dim.is_multiple_of(2) {
            return Err(LoadError::invalid(file, format!("`head_dim` must be even, it is {}", self.head_dim)));
        }
        if !(self.rms_norm_eps > 0.0 && self.rms_norm_eps < 1.0) {
            let problem = format!("`rms_norm_eps` must be between 0 and 1, it is {}", self.rms_norm_eps);
            return Err(LoadError::invalid(file, problem));
        }
        Ok(())
    }

    /// Checks that a table of the rotations of `positions` positions is possible.
    ///
    /// # Errors
    /// It is not; `file` is named.
    pub(crate) fn check_positions(&self, file: &str, positions: usize) -> Result<(), LoadError> {
        // A million positions of 128 components are half of this.
        const MAX_TABLE: usize = 1 << 28;
        let head_dim = self.head_dim;
        if positions.saturating_mul(head_dim) > MAX_TABLE {
            let problem = format!(
                "the longest input ({positions} tokens of `max_position_embeddings`) times `head_dim` ({head_dim}) \
                 must be at most {MAX_TABLE}"
            );
            return Err(LoadError::invalid(file, problem));
        }
        if !self.rope.is_finite(head_dim, positions) {
            let problem =
                format!("`rope_theta` ({}) and the scaling of RoPE make angles without a value", self.rope.theta);
            return Err(LoadError::invalid(file, problem));
        }
        Ok(())
    }
}

/// The names of the families, for messages.
pub(crate) fn supported_model_types() -> String {
    FAMILIES.map(|family| family.model_type).join(", ")
}

fn family(fields: &Fields<'_>) -> Result<&'static Family, LoadError> {
    let architectures: Vec<String> = fields.or("architectures", vec![])?;
    let model_type: String = fields.required("model_type")?;
    let Some(family) = FAMILIES.iter().find(|family| family.model_type == model_type) else {
        let what = match architectures.first() {
            Some(architecture) => format!("architecture {architecture} (`model_type` \"{model_type}\")"),
            None => format!("`model_type` \"{model_type}\""),
        };
        return Err(LoadError::unsupported(FILE, what, supported_model_types()));
    };
    let known = HEADS.map(|head| format!("{}{head}", family.prefix));
    match architectures.iter().find(|architecture| !known.contains(architecture)) {
        Some(other) => Err(LoadError::unsupported(FILE, format!("architecture {other}"), known.join(", "))),
        None => Ok(family),
    }
}

/// Refuses what would change the computation and is not implemented.
fn refuse_unsupported(fields: &Fields<'_>, family: &Family) -> Result<(), LoadError> {
    let activation: String = fields.or("hidden_act", "silu".to_owned())?;
    if activation != "silu" {
        return Err(fields.unsupported("hidden_act", &format!("\"{activation}\""), "silu"));
    }
    if let Some(quantization) = fields.object("quantization_config")? {
        let method: String = quantization.or("quant_method", "unnamed".to_owned())?;
        let supported = "weights in float32, float16 or bfloat16, or a GGUF file";
        return Err(fields.unsupported("quantization_config", &format!("({method})"), supported));
    }
    // Only classes named AutoModel... bring code for the model itself.
    let custom = fields.object("auto_map")?.and_then(|map| map.entries().find(|(k, _)| k.starts_with("AutoModel")));
    if let Some((_, code)) = custom {
        let supported = "the checkpoint brings Python code of its own, which is not run";
        return Err(fields.unsupported("auto_map", &format!("({code})"), supported));
    }
    let must_be_false = ["use_bidirectional_attention", "use_mrope", "use_qk_norm", "qk_layernorm"];
    for name in must_be_false {
        if fields.or(name, false)? {
            return Err(fields.unsupported(name, "true", "false"));
        }
    }
    if !fields.or("is_causal", true)? {
        return Err(fields.unsupported("is_causal", "false", "causal attention only"));
    }
    if !family.mlp_bias && fields.or("mlp_bias", false)? {
        return Err(fields.unsupported("mlp_bias", "true", "llama only"));
    }
    if family.attention_bias == AttentionBias::Never && fields.or("attention_bias", false)? {
        return Err(fields.unsupported("attention_bias", "true", format!("{} has no biases", family.model_type)));
    }
    Ok(())
}

fn num_kv_heads(fields: &Fields<'_>, family: &Family, num_heads: usize) -> Result<usize, LoadError> {
    let name = "num_key_value_heads";
    match fields.optional(name)? {
        Some(num_kv_heads) => Ok(num_kv_heads),
        // The other families have a default that is a fixed number, which no real checkpoint relies on.
        None if family.model_type == "llama" || fields.mentions(name) => Ok(num_heads),
        None => Err(fields.problem(name, "is missing")),
    }
}

fn head_dim(fields: &Fields<'_>, family: &Family, hidden_size: usize, num_heads: usize) -> Result<usize, LoadError> {
    if let Some(head_dim) = fields.optional("head_dim")?.or(family.default_head_dim) {
        return Ok(head_dim);
    }
    if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
        let problem = format!("({hidden_size}) must be a multiple of `num_attention_heads` ({num_heads})");
        return Err(fields.problem("hidden_size", &problem));
    }
    Ok(hidden_size / num_heads)
}

/// The window of each layer. `[num_layers]`
fn sliding_windows(fields: &Fields<'_>, family: &Family, num_layers: usize) -> Result<Vec<Option<usize>>, LoadError> {
    match family.window {
        Window::Never => Ok(vec![None; num_layers]),
        Window::AllLayers { .. } if fields.get("sliding_window").is_some() => {
            Ok(vec![Some(window_size(fields)?); num_layers])
        }
        Window::AllLayers { .. } if fields.mentions("sliding_window") => Ok(vec![None; num_layers]),
        Window::AllLayers { default } => Ok(vec![Some(default); num_layers]),
        Window::SomeLayers => {
            let slides = match fields.optional::<Vec<String>>("layer_types")? {
                Some(layer_types) => slides_by_type(fields, &layer_types, num_layers)?,
                None if fields.or("use_sliding_window", false)? => {
                    let first: usize = fields.required("max_window_layers")?;
                    (0..num_layers).map(|layer| layer >= first).collect()
                }
                None => vec![false; num_layers],
            };
            if !slides.contains(&true) {
                return Ok(vec![None; num_layers]);
            }
            if !fields.or("use_sliding_window", false)? {
                return Err(
                    fields.problem("layer_types", "has sliding_attention, but `use_sliding_window` is not true")
                );
            }
            let size = window_size(fields)?;
            Ok(slides.into_iter().map(|slides| slides.then_some(size)).collect())
        }
    }
}

fn slides_by_type(fields: &Fields<'_>, layer_types: &[String], num_layers: usize) -> Result<Vec<bool>, LoadError> {
    if layer_types.len() != num_layers {
        let problem = format!("has {} entries, `num_hidden_layers` is {num_layers}", layer_types.len());
        return Err(fields.problem("layer_types", &problem));
    }
    let slides = layer_types.iter().map(|layer_type| match layer_type.as_str() {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        other => Err(fields.unsupported("layer_types", &format!("\"{other}\""), "full_attention, sliding_attention")),
    });
    slides.collect()
}

fn window_size(fields: &Fields<'_>) -> Result<usize, LoadError> {
    match fields.required("sliding_window")? {
        0 => Err(fields.problem("sliding_window", "must be above 0")),
        size => Ok(size),
    }
}
