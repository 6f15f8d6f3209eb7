//! The reader of all families.

use super::family::{Family, Positions, Rotary, Rule, Width};
use super::feed_forward::activation;
use super::labels::label_count;
use super::settings::{Settings, first_of};
use super::{adapters, convolutions, feed_forward, positions, softcaps, windows};
use crate::config::{
    AttentionConfig, ClassifierHead, EmbeddingsConfig, MaskConfig, NormConfig, NormKind, PositionsConfig,
    TransformerConfig, poolings,
};
use crate::error::LoadError;
use crate::json::{Fields, shown};
use prefold_core::Pooling;
use prefold_kernels::Activation;
use serde_json::Value;

/// Reads the description of a transformer.
///
/// # Errors
/// A setting is missing, malformed, out of range or not supported.
pub(crate) fn read(settings: &impl Settings, family: &Family) -> Result<TransformerConfig, LoadError> {
    let config = describe(settings, family)?;
    config.validate(settings.file())?;
    // Validated before, because this allocates by the number of layers.
    let convolution_layers = convolutions::layers(settings.json(), &config)?;
    let sliding_windows = windows::read(settings.json(), family.windows, config.attention.mask, config.num_layers)?;
    Ok(TransformerConfig { sliding_windows, convolution_layers, ..config })
}

/// The description of a transformer without its windows, whose sizes may be impossible.
///
/// # Errors
/// A setting is missing, malformed or not supported.
pub(crate) fn describe(settings: &impl Settings, family: &Family) -> Result<TransformerConfig, LoadError> {
    let (fields, keys) = (settings.json(), family.keys);
    let hidden_size = settings.required(&keys.hidden_size)?;
    let num_heads = settings.required(&keys.num_heads)?;
    let head_dim = head_dim(settings, family, hidden_size, num_heads)?;
    let (positions, max_position_embeddings) = positions::read(settings, family, head_dim)?;
    let attention = attention(settings, family, [num_heads, head_dim], &positions)?;
    Ok(TransformerConfig {
        model_type: family.model_type.to_owned(),
        vocab_size: settings.table_rows(family.names.words)?.map_or_else(|| fields.required("vocab_size"), Ok)?,
        hidden_size,
        output_size: match family.output_projection {
            Some(Width::Labels) => label_count(fields)?,
            None => hidden_size,
        },
        num_layers: settings.required(&keys.num_layers)?,
        norm: norm(settings, family)?,
        embeddings: embeddings(settings, family, hidden_size)?,
        attention,
        feed_forward: feed_forward::read(settings, family)?,
        positions,
        convolutions: if family.convolutions { Some(convolutions::read(fields)?) } else { None },
        convolution_layers: vec![],
        sliding_windows: vec![],
        tie_word_embeddings: is_tied(settings, family)?,
        logit_softcap: softcaps::of_logits(fields, family)?,
        max_position_embeddings,
        names: family.names,
        classifier: classifier(settings, family, attention.mask)?,
        adapters: adapters::read(fields, family.adapters)?,
    })
}

/// Field that lifts a causal mask.
pub(in crate::formats) const BIDIRECTIONAL: &str = "use_bidirectional_attention";

/// The mask: the family's, unless a field says that the model was trained without it.
///
/// # Errors
/// The field is of another type.
pub(crate) fn mask(settings: &impl Settings, family: &Family) -> Result<MaskConfig, LoadError> {
    let fields = settings.json();
    match family.mask {
        // Some encoders of transformers 5 become causal by it.
        MaskConfig::Full if fields.or("is_causal", false)? => {
            Err(fields.unsupported("is_causal", "true", "false in models without a causal mask"))
        }
        MaskConfig::Causal if !fields.or("is_causal", true)? => Ok(MaskConfig::Full),
        MaskConfig::Causal if fields.or(BIDIRECTIONAL, false)? => Ok(MaskConfig::Full),
        mask => Ok(mask),
    }
}

/// A warning about a mask that transformers' own class of the family keeps. The code of published checkpoints lifts it.
///
/// # Errors
/// A field is of another type.
pub(in crate::formats) fn kept_mask(fields: &Fields<'_>, family: &Family) -> Result<Option<String>, LoadError> {
    let is_lifted = family.mask == MaskConfig::Causal && fields.or(BIDIRECTIONAL, false)?;
    let is_known = family.bidirectional_field || !fields.or("is_causal", true)? || fields.get("auto_map").is_some();
    Ok((is_lifted && !is_known).then(|| {
        let class = family.prefix;
        format!("`{BIDIRECTIONAL}` lifts the causal mask; transformers ignores it in its {class} classes (`is_causal`: false is clear)")
    }))
}

/// Warnings about settings in the published code's spelling, which transformers' own class does not read, with another value than there.
pub(in crate::formats) fn older_spellings(fields: &Fields<'_>, family: &Family) -> impl Iterator<Item = String> {
    let pooling = match family.classifier_pooling {
        Some((&[newer, older], _)) => Some((newer, older, Value::from(poolings::LATE))),
        _ => None,
    };
    let epsilon = match *family.keys.norm_eps.json {
        [older @ "layer_norm_epsilon", newer] => Some((newer, older, Value::from(family.norm_eps))),
        _ => None,
    };
    let activation = match *family.keys.activation.json {
        [older @ "activation_function", newer] => Some((newer, older, Value::from("silu"))),
        _ => None,
    };
    let length = match *family.keys.max_positions.json {
        [older @ "n_positions", newer] => Some((newer, older, Value::from(2048))),
        _ => None,
    };
    let has_newer_base = fields.get("rope_parameters").is_some_and(|rope| rope.get("rope_theta").is_some());
    let base = match family.positions {
        Positions::Rotary(Rotary::OneBase { key, own_default: Some(default), .. }) if !has_newer_base => {
            Some(("rope_theta", key, Value::from(default)))
        }
        _ => None,
    };
    // The published code may come with the model.
    let has_code = fields.get("auto_map").is_some();
    let found = pooling.into_iter().chain(epsilon).chain(activation).chain(length).chain(base);
    found.filter(move |_| !has_code).filter_map(|(newer, older, default)| {
        let is_other = |value: &Value| !is_same(&ungated(value), &ungated(fields.get(newer).unwrap_or(&default)));
        let value = fields.get(older).filter(|&value| is_other(value))?;
        let value = shown(value);
        Some(format!("`{older}` {value} is followed, as in the published code; transformers reads only `{newer}`"))
    })
}

/// `true` for equal values, whatever the spelling of their numbers.
pub(in crate::formats) fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.is_number() && one.as_f64() == other.as_f64()
}

/// The activation of a gate in the spelling of transformers, any other value as it is.
fn ungated(value: &Value) -> Value {
    match value.as_str() {
        Some("swiglu") => "silu".into(),
        Some("geglu") => "gelu".into(),
        _ => value.clone(),
    }
}

/// `true` if the embedding matrix is the language model's head too.
fn is_tied(settings: &impl Settings, family: &Family) -> Result<bool, LoadError> {
    match (family.tie_word_embeddings, settings.has_tensor("lm_head.weight")) {
        (Rule::Field(..), Some(has_head)) => Ok(!has_head),
        (rule, _) => settings.decide(rule, ""),
    }
}

fn norm(settings: &impl Settings, family: &Family) -> Result<NormConfig, LoadError> {
    let bias = format!("{}{}.bias", family.names.layer(0), family.names.feed_forward_norm);
    let kind = match family.norm {
        NormKind::LayerNorm if !settings.decide(family.biases.norm, &bias)? => NormKind::LayerNormNoBias,
        kind => kind,
    };
    let key = &family.keys.norm_eps;
    let eps = settings.f64(key)?.or(settings.has_defaults().then_some(family.norm_eps));
    let eps = eps.ok_or_else(|| settings.problem(key, "is missing"))?;
    let (placement, first_attention) = (family.norm_placement, family.first_attention_norm);
    Ok(NormConfig { kind, placement, first_attention, eps: eps as f32 })
}

fn embeddings(settings: &impl Settings, family: &Family, hidden_size: usize) -> Result<EmbeddingsConfig, LoadError> {
    const SIZE: &str = "embedding_size";
    let size = if family.projected_embeddings { settings.json().or(SIZE, hidden_size)? } else { hidden_size };
    if size > hidden_size {
        let supported = format!("up to `hidden_size`, {hidden_size}");
        return Err(settings.json().unsupported(SIZE, &size.to_string(), supported));
    }
    let table = family.names.token_types;
    let token_types = match (family.token_types, settings.has_tensor(&format!("{table}.weight"))) {
        (None, _) | (_, Some(false)) => 0,
        (Some(_), Some(true)) => settings.table_rows(table)?.unwrap_or(0),
        (Some(default), None) => settings.json().or("type_vocab_size", default)?,
    };
    let scale = if family.scale_embeddings { (hidden_size as f32).sqrt() } else { 1.0 };
    Ok(EmbeddingsConfig { size, token_types, norm: !family.names.embedding_norm.is_empty(), scale })
}

fn attention(
    settings: &impl Settings,
    family: &Family,
    [num_heads, head_dim]: [usize; 2],
    positions: &PositionsConfig,
) -> Result<AttentionConfig, LoadError> {
    let (layer, names) = (family.names.layer(0), &family.names);
    let decide = |rule: Rule, tensor: &str| settings.decide(rule, &format!("{layer}{tensor}"));
    Ok(AttentionConfig {
        num_heads,
        num_kv_heads: num_kv_heads(settings, family, num_heads)?,
        head_dim,
        qkv_bias: decide(family.biases.qkv, &format!("{}.bias", names.q))?,
        output_bias: decide(family.biases.attention_output, &format!("{}.bias", names.output))?,
        qk_norm: decide(family.qk_norm, &format!("{}.weight", names.q_norm))?,
        qk_width_norm: family.qk_width_norm,
        scale: scale(settings, family, head_dim, positions)?,
        mask: mask(settings, family)?,
        softcap: softcaps::of_scores(settings.json(), family)?,
        distance_bias: positions::distance_bias(settings.json(), family)?,
    })
}

fn num_kv_heads(settings: &impl Settings, family: &Family, num_heads: usize) -> Result<usize, LoadError> {
    let key = &family.keys.num_kv_heads;
    let is_null = || key.json.iter().any(|name| settings.json().mentions(name));
    match settings.usize(key)? {
        None if family.optional_kv_heads || !settings.has_defaults() || is_null() => Ok(num_heads),
        num_kv_heads => num_kv_heads.ok_or_else(|| settings.problem(key, "is missing")),
    }
}

fn head_dim(
    settings: &impl Settings,
    family: &Family,
    hidden_size: usize,
    num_heads: usize,
) -> Result<usize, LoadError> {
    let (keys, default) = (family.keys, family.default_head_dim.filter(|_| settings.has_defaults()));
    if let Some(head_dim) = settings.usize(&keys.head_dim)?.or(default) {
        return Ok(head_dim);
    }
    if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
        let num_heads = format!("`{}` ({num_heads})", settings.name(&keys.num_heads));
        return Err(settings.problem(&keys.hidden_size, &format!("({hidden_size}) must be a multiple of {num_heads}")));
    }
    Ok(hidden_size / num_heads)
}

/// The factor on the scores, where it is not one over the root of `head_dim`.
fn scale(
    settings: &impl Settings,
    family: &Family,
    head_dim: usize,
    positions: &PositionsConfig,
) -> Result<Option<f32>, LoadError> {
    if family.unscaled_scores {
        return Ok(Some(1.0));
    }
    if let PositionsConfig::Disentangled(positions) = positions {
        return Ok(Some(1.0 / ((head_dim * positions.terms()) as f32).sqrt()));
    }
    // The factor on queries and keys is one on their products.
    let factor = match positions {
        PositionsConfig::Rotary(rotary) => rotary.full.attention_factor().powi(2),
        _ => 1.0,
    };
    let (Some(name), fields) = (family.query_pre_attn_scalar, settings.json()) else {
        return Ok((factor != 1.0).then(|| (factor / (head_dim as f64).sqrt()) as f32));
    };
    match fields.required::<f64>(name)? {
        scalar if scalar > 0.0 => Ok(Some((factor * scalar.powf(-0.5)) as f32)),
        scalar => Err(fields.problem(name, &format!("must be above 0, it is {scalar}"))),
    }
}

/// The head of classifiers, with the pooling and the activation that the config names.
fn classifier(settings: &impl Settings, family: &Family, mask: MaskConfig) -> Result<ClassifierHead, LoadError> {
    let (head, fields) = (family.classifier, settings.json());
    let (mut pooling, mut late) = (head.pooling, head.late);
    // transformers' own classes of causal families pool the last token, whatever the mask and the config.
    let is_full = family.mask == MaskConfig::Full || (mask == MaskConfig::Full && fields.get("auto_map").is_some());
    if let (Some((spellings, known)), true) = (family.classifier_pooling, is_full) {
        let field = first_of(fields, spellings);
        let mut named = spellings.iter().filter_map(|name| fields.get(name));
        // The published code reads the older spelling, transformers the newer one.
        if let (Some(newer), Some(older)) = (named.next(), named.next())
            && newer != older
        {
            return Err(fields.problem(field, &format!("and `{}` contradict each other", spellings[1])));
        }
        if let Some(named) = poolings::read(fields, field, known)? {
            (pooling, late) = (named, fields.or(field, String::new())? == poolings::LATE);
        }
    }
    let padding = match pooling {
        Pooling::LastToken if !is_full => fields.optional::<i64>("pad_token_id")?,
        _ => None,
    };
    let padding = padding.and_then(|id| u32::try_from(id).ok());
    let activation =
        family.classifier_activation.map(|field| activation(fields, field, Activation::Gelu)).transpose()?;
    let biased = family.classifier_bias.map(|field| fields.or(field, false)).transpose()?.unwrap_or(head.biased);
    Ok(ClassifierHead { pooling, padding, late, biased, activation, ..head })
}
