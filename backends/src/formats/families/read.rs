//! The reader of all families and formats.

use super::family::{ClassifierFields, Family, Windows};
use super::feed_forward::activation;
use super::settings::Settings;
use super::{adapters, feed_forward, positions, windows};
use crate::LoadError;
use crate::config::poolings;
use crate::config::{
    AttentionConfig, ClassifierHead, EmbeddingsConfig, MaskConfig, NormConfig, NormKind, PositionsConfig,
    TransformerConfig,
};
use crate::json::Fields;
use prefold_kernels::Activation;

/// Reads the description of a transformer.
///
/// # Errors
/// A setting is missing, malformed, out of range or not supported.
pub(crate) fn read(settings: &impl Settings, family: &Family) -> Result<TransformerConfig, LoadError> {
    let (fields, keys) = (settings.json(), family.keys);
    let hidden_size = settings.required(&keys.hidden_size)?;
    let num_layers = settings.required(&keys.num_layers)?;
    let (positions, max_position_embeddings) = positions::read(settings, family)?;
    let config = TransformerConfig {
        model_type: family.model_type.to_owned(),
        vocab_size: settings.required(&keys.vocab_size)?,
        hidden_size,
        output_size: hidden_size,
        num_layers,
        norm: norm(settings, family)?,
        embeddings: embeddings(settings, family, hidden_size)?,
        attention: attention(settings, family, hidden_size, &positions)?,
        feed_forward: feed_forward::read(settings, family)?,
        positions,
        sliding_windows: vec![],
        tie_word_embeddings: true,
        max_position_embeddings,
        names: family.names,
        classifier: classifier(fields, family)?,
        adapters: if family.adapters { adapters::read(fields)? } else { None },
    };
    config.validate("config.json")?;
    // Validated before, because this allocates by the number of layers.
    let sliding_windows = match family.windows {
        Windows::Never => vec![None; num_layers],
        Windows::Local => windows::local_attention(fields, num_layers)?,
    };
    Ok(TransformerConfig { sliding_windows, ..config })
}

fn norm(settings: &impl Settings, family: &Family) -> Result<NormConfig, LoadError> {
    let kind = if settings.decide(family.biases.norm)? { NormKind::Layer } else { NormKind::LayerUnbiased };
    let eps = settings.f64(&family.keys.norm_eps)?.unwrap_or(family.norm_eps);
    let (placement, first_attention) = (family.placement, family.first_attention_norm);
    Ok(NormConfig { kind, placement, first_attention, eps: eps as f32 })
}

fn embeddings(settings: &impl Settings, family: &Family, hidden_size: usize) -> Result<EmbeddingsConfig, LoadError> {
    const SIZE: &str = "embedding_size";
    let size = if family.projected_embeddings { settings.json().or(SIZE, hidden_size)? } else { hidden_size };
    if size > hidden_size {
        let supported = format!("up to `hidden_size`, {hidden_size}");
        return Err(settings.json().unsupported(SIZE, &size.to_string(), supported));
    }
    let token_types = match family.token_types {
        Some(default) => settings.usize(&family.keys.token_types)?.unwrap_or(default),
        None => 0,
    };
    Ok(EmbeddingsConfig { size, token_types, norm: true, scale: 1.0 })
}

fn attention(
    settings: &impl Settings,
    family: &Family,
    hidden_size: usize,
    positions: &PositionsConfig,
) -> Result<AttentionConfig, LoadError> {
    let keys = family.keys;
    let num_heads = settings.required(&keys.num_heads)?;
    if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
        let problem =
            format!("({hidden_size}) must be a multiple of `{}` ({num_heads})", settings.name(&keys.num_heads));
        return Err(settings.problem(&keys.hidden_size, &problem));
    }
    let head_dim = hidden_size / num_heads;
    Ok(AttentionConfig {
        num_heads,
        num_kv_heads: num_heads,
        head_dim,
        qkv_bias: settings.decide(family.biases.qkv)?,
        output_bias: settings.decide(family.biases.attention_output)?,
        qk_norm: false,
        qk_width_norm: family.qk_width_norm,
        scale: match positions {
            PositionsConfig::Disentangled(it) => Some(1.0 / ((head_dim * it.terms()) as f32).sqrt()),
            _ => None,
        },
        mask: MaskConfig::Full,
        distance_bias: positions::distance_bias(settings.json(), family)?,
    })
}

/// The head of classifiers, with the pooling and the activation that the config names.
fn classifier(fields: &Fields<'_>, family: &Family) -> Result<ClassifierHead, LoadError> {
    let head = family.classifier;
    let Some(ClassifierFields { pooling, poolings, activation: field }) = family.classifier_fields else {
        return Ok(head);
    };
    let activation = activation(fields, field, Activation::Gelu)?;
    let pooling = poolings::read(fields, pooling, poolings)?.unwrap_or(head.pooling);
    Ok(ClassifierHead { pooling, activation: Some(activation), ..head })
}
