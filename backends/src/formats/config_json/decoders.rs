//! Decoders in `config.json`.

use super::common::{FILE, check_musts, refuse_unsupported};
use super::decoder_families::{AttentionBias, Family, HEADS, Mark, Rope, VARIANTS, Variant, Window};
use crate::LoadError;
use crate::config::poolings;
use crate::config::{
    AttentionConfig, ClassifierHead, DECODER_HEAD, EmbeddingsConfig, FeedForwardConfig, MaskConfig, NormConfig,
    PositionsConfig, TensorNames, TransformerConfig,
};
use crate::formats::families::{Base, Rotary, activation, rope, windows};
use crate::json::Fields;

/// The names that `architectures` may have.
pub(super) fn known_classes(family: &Family) -> Vec<String> {
    let variants = VARIANTS.iter().filter(|variant| variant.model_type == family.model_type);
    let classes = variants.filter_map(|variant| match variant.mark {
        Mark::Class(class) => Some(class.to_owned()),
        Mark::Code(_) => None,
    });
    HEADS.iter().map(|head| format!("{}{head}", family.prefix)).chain(classes).collect()
}

/// Reads the config of a decoder.
///
/// # Errors
/// One of its features is not supported; a field is missing, malformed or out of range.
pub(super) fn read(
    fields: &Fields<'_>,
    family: &Family,
    architectures: &[String],
) -> Result<TransformerConfig, LoadError> {
    let code = fields.object("auto_map")?.map(|map| map.optional::<String>("AutoModel")).transpose()?.flatten();
    let is_said = |variant: &&Variant| match variant.mark {
        Mark::Class(class) => architectures.iter().any(|found| found == class),
        Mark::Code(class) => code.as_deref().and_then(|code| code.rsplit("--").next()) == Some(class),
    };
    let variant = VARIANTS.iter().filter(|variant| variant.model_type == family.model_type).find(is_said);
    let mask = mask(fields, family, variant)?;
    // Without the mask, the code that checkpoints of causal families bring is what lifts it.
    let own_code = family.own_code || mask == MaskConfig::Full;
    refuse_unsupported(fields, own_code.then_some(family.prefix))?;
    refuse_other_decoders(fields, family)?;

    let num_heads = fields.required("num_attention_heads")?;
    let hidden_size = fields.required("hidden_size")?;
    let num_layers = fields.required("num_hidden_layers")?;
    let bias = fields.or("attention_bias", false)?;
    let from_config = family.attention_bias == AttentionBias::FromConfig && bias;
    let mlp_bias = family.mlp_bias && fields.or("mlp_bias", false)?;
    let projection = variant.and_then(|variant| variant.projection.as_ref());
    let config = TransformerConfig {
        model_type: family.model_type.to_owned(),
        vocab_size: fields.required("vocab_size")?,
        hidden_size,
        output_size: match projection {
            Some(projection) => fields.required(projection.width)?,
            None => hidden_size,
        },
        feed_forward: FeedForwardConfig {
            intermediate_size: fields.required("intermediate_size")?,
            input_bias: mlp_bias,
            output_bias: mlp_bias,
            gated: true,
            activation: family.activation.2,
            experts: None,
        },
        num_layers,
        attention: AttentionConfig {
            num_heads,
            num_kv_heads: num_kv_heads(fields, family, num_heads)?,
            head_dim: head_dim(fields, family, hidden_size, num_heads)?,
            qkv_bias: family.attention_bias == AttentionBias::Qkv || from_config,
            output_bias: from_config,
            qk_norm: family.qk_norm,
            qk_width_norm: false,
            scale: scale(fields, family)?,
            mask,
            distance_bias: None,
        },
        norm: NormConfig {
            kind: family.norm,
            placement: family.placement,
            first_attention: true,
            eps: fields.or("rms_norm_eps", 1e-6)? as f32,
        },
        embeddings: EmbeddingsConfig {
            size: hidden_size,
            token_types: 0,
            norm: false,
            scale: if family.scaled_embeddings { (hidden_size as f32).sqrt() } else { 1.0 },
        },
        positions: PositionsConfig::Rotary(rope::read(
            fields,
            match family.rope {
                Rope::One { default } => Rotary::OneBase {
                    base: Base { key: "rope_theta", default },
                    kinds: &["default", "linear", "llama3"],
                },
                Rope::Two { full, windowed } => Rotary::TwoBases { full, windowed },
            },
        )?),
        sliding_windows: vec![],
        tie_word_embeddings: fields.or("tie_word_embeddings", family.tied)?,
        max_position_embeddings: fields.required("max_position_embeddings")?,
        names: match projection {
            Some(projection) => TensorNames { output_projection: projection.name, ..family.names },
            None => family.names,
        },
        classifier: classifier(fields, mask)?,
        adapters: None,
    };
    config.validate(FILE)?;
    // Validated before, because this allocates by the number of layers.
    let sliding_windows = sliding_windows(fields, family, mask, num_layers)?;
    Ok(TransformerConfig { sliding_windows, ..config })
}

/// The mask: the family's, unless the architecture or a field of the config says that the model was trained without one.
fn mask(fields: &Fields<'_>, family: &Family, variant: Option<&Variant>) -> Result<MaskConfig, LoadError> {
    let is_lifted = !fields.or("is_causal", true)? || fields.or("use_bidirectional_attention", false)?;
    Ok(if is_lifted || variant.is_some() { MaskConfig::Full } else { family.mask })
}

/// Refuses features of decoders that would change the computation and are not supported.
fn refuse_other_decoders(fields: &Fields<'_>, family: &Family) -> Result<(), LoadError> {
    let (key, name, only) = family.activation;
    if activation(fields, key, only)? != only {
        let found: String = fields.or(key, String::new())?;
        return Err(fields.unsupported(key, &format!("\"{found}\""), name));
    }
    check_musts(fields, family.musts)?;
    if !family.mlp_bias && fields.or("mlp_bias", false)? {
        return Err(fields.unsupported("mlp_bias", "true", "llama only"));
    }
    if family.attention_bias == AttentionBias::Never && fields.or("attention_bias", false)? {
        return Err(fields.unsupported("attention_bias", "true", format!("{} has no biases", family.model_type)));
    }
    Ok(())
}

/// The factor on the scores, where it does not follow from the heads' width.
fn scale(fields: &Fields<'_>, family: &Family) -> Result<Option<f32>, LoadError> {
    let Some(name) = family.query_scalar else { return Ok(None) };
    match fields.optional::<f64>(name)? {
        Some(scalar) if scalar > 0.0 => Ok(Some(scalar.powf(-0.5) as f32)),
        Some(scalar) => Err(fields.problem(name, &format!("must be above 0, it is {scalar}"))),
        None => Err(fields.problem(name, "is missing")),
    }
}

/// The head of classifiers: at the last token, or without a mask as `pooling` says.
fn classifier(fields: &Fields<'_>, mask: MaskConfig) -> Result<ClassifierHead, LoadError> {
    let named = match mask {
        MaskConfig::Causal => None,
        MaskConfig::Full => poolings::read(fields, "pooling", poolings::OF_CONFIG)?,
    };
    let pooling = named.unwrap_or(DECODER_HEAD.pooling);
    Ok(ClassifierHead { pooling, ..DECODER_HEAD })
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
fn sliding_windows(
    fields: &Fields<'_>,
    family: &Family,
    mask: MaskConfig,
    num_layers: usize,
) -> Result<Vec<Option<usize>>, LoadError> {
    // With a mask the field counts the token itself, as a window here does; without one, the tokens on either side.
    let window = |size: usize| size + usize::from(mask == MaskConfig::Full);
    match family.window {
        Window::Never => Ok(vec![None; num_layers]),
        Window::AllLayers { .. } if fields.get("sliding_window").is_some() => {
            Ok(vec![Some(window(windows::size(fields)?)); num_layers])
        }
        Window::AllLayers { .. } if fields.mentions("sliding_window") => Ok(vec![None; num_layers]),
        Window::AllLayers { default } => Ok(vec![Some(window(default)); num_layers]),
        Window::SomeLayers => some_layers(fields, num_layers, window),
        Window::Alternating => {
            let window = match mask {
                MaskConfig::Causal => windows::size(fields)?,
                MaskConfig::Full => windows::two_sided(fields, "sliding_window", 512)?,
            };
            let slides = windows::alternating(fields, num_layers)?;
            Ok(slides.into_iter().map(|slides| slides.then_some(window)).collect())
        }
    }
}

/// Windows in the layers of a type, or in those from one on.
fn some_layers(
    fields: &Fields<'_>,
    num_layers: usize,
    window: impl Fn(usize) -> usize,
) -> Result<Vec<Option<usize>>, LoadError> {
    let slides = match fields.optional::<Vec<String>>("layer_types")? {
        Some(layer_types) => windows::slides_by_type(fields, &layer_types, num_layers)?,
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
        return Err(fields.problem("layer_types", "has sliding_attention, but `use_sliding_window` is not true"));
    }
    let window = window(windows::size(fields)?);
    Ok(slides.into_iter().map(|slides| slides.then_some(window)).collect())
}
