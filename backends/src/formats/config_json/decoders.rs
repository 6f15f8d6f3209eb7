//! Decoders in `config.json`.

use super::common::{FILE, activation, refuse_unsupported};
use super::decoder_families::{AttentionBias, Family, Window};
use super::rope;
use crate::LoadError;
use crate::config::{
    AttentionConfig, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, MaskConfig, NormConfig, NormKind, Placement,
    PositionsConfig, TransformerConfig, names,
};
use crate::json::Fields;
use prefold_kernels::Activation;

/// Reads the config of a decoder.
///
/// # Errors
/// One of its features is not supported; a field is missing, malformed or out of range.
pub(super) fn read(fields: &Fields<'_>, family: &Family) -> Result<TransformerConfig, LoadError> {
    refuse_unsupported(fields)?;
    refuse_other_decoders(fields, family)?;

    let num_heads = fields.required("num_attention_heads")?;
    let hidden_size = fields.required("hidden_size")?;
    let num_layers = fields.required("num_hidden_layers")?;
    let bias = fields.or("attention_bias", false)?;
    let from_config = family.attention_bias == AttentionBias::FromConfig && bias;
    let config = TransformerConfig {
        model_type: family.model_type.to_owned(),
        vocab_size: fields.required("vocab_size")?,
        hidden_size,
        feed_forward: FeedForwardConfig {
            intermediate_size: fields.required("intermediate_size")?,
            bias: family.mlp_bias && fields.or("mlp_bias", false)?,
            gated: true,
            activation: Activation::Silu,
        },
        num_layers,
        attention: AttentionConfig {
            num_heads,
            num_kv_heads: num_kv_heads(fields, family, num_heads)?,
            head_dim: head_dim(fields, family, hidden_size, num_heads)?,
            qkv_bias: family.attention_bias == AttentionBias::Qkv || from_config,
            output_bias: from_config,
            qk_norm: family.qk_norm,
            mask: MaskConfig::Causal,
            relative_bias: None,
        },
        norm: NormConfig {
            kind: NormKind::Rms,
            placement: Placement::Before,
            eps: fields.or("rms_norm_eps", 1e-6)? as f32,
        },
        embeddings: EmbeddingsConfig { size: hidden_size, token_types: 0, norm: false },
        positions: PositionsConfig::Rotary(rope::read(fields, family.default_rope_theta)?),
        sliding_windows: vec![],
        tie_word_embeddings: fields.or("tie_word_embeddings", false)?,
        max_position_embeddings: fields.required("max_position_embeddings")?,
        names: names::DECODER,
        classifier: DECODER_HEAD,
    };
    config.validate(FILE)?;
    // Validated before, because this allocates by the number of layers.
    let sliding_windows = sliding_windows(fields, family, num_layers)?;
    Ok(TransformerConfig { sliding_windows, ..config })
}

/// Refuses features of decoders that would change the computation and are not supported.
fn refuse_other_decoders(fields: &Fields<'_>, family: &Family) -> Result<(), LoadError> {
    if activation(fields, "hidden_act", Activation::Silu)? != Activation::Silu {
        let found: String = fields.or("hidden_act", String::new())?;
        return Err(fields.unsupported("hidden_act", &format!("\"{found}\""), "silu"));
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
        None if family.optional_kv_heads || fields.mentions(name) => Ok(num_heads),
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
