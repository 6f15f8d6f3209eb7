//! Encoders in `config.json`.

use super::common::{FILE, activation, refuse_unsupported};
use super::encoder_families::{Family, Positions};
use crate::LoadError;
use crate::config::{
    AttentionConfig, EmbeddingsConfig, FeedForwardConfig, LearnedPositions, MaskConfig, NormConfig, NormKind,
    Placement, PositionsConfig, RelativeBuckets, TransformerConfig,
};
use crate::json::Fields;
use prefold_kernels::Activation;

/// MPNet's distance from which all distances are alike, which no config says.
const MAX_DISTANCE: usize = 128;

/// Reads the config of an encoder.
///
/// # Errors
/// One of its features is not supported; a field is missing, malformed or out of range.
pub(super) fn read(fields: &Fields<'_>, family: &Family) -> Result<TransformerConfig, LoadError> {
    refuse_unsupported(fields)?;
    refuse_other_encoders(fields)?;
    let keys = family.keys;
    let (hidden_size, num_heads) = (fields.required(keys.hidden_size)?, fields.required(keys.num_heads)?);
    let num_layers = fields.required(keys.num_layers)?;
    let positions = positions(fields, family)?;
    let config = TransformerConfig {
        model_type: family.model_type.to_owned(),
        vocab_size: fields.required("vocab_size")?,
        hidden_size,
        num_layers,
        norm: NormConfig {
            kind: NormKind::Layer,
            placement: Placement::After,
            eps: fields.or("layer_norm_eps", family.norm_eps)? as f32,
        },
        embeddings: EmbeddingsConfig {
            size: embedding_size(fields, family, hidden_size)?,
            token_types: if family.token_types { fields.or("type_vocab_size", 2)? } else { 0 },
            norm: true,
        },
        attention: AttentionConfig {
            num_heads,
            num_kv_heads: num_heads,
            head_dim: head_dim(fields, family, hidden_size, num_heads)?,
            qkv_bias: true,
            output_bias: true,
            qk_norm: false,
            mask: MaskConfig::Full,
            relative_bias: relative_bias(fields, family)?,
        },
        feed_forward: FeedForwardConfig {
            intermediate_size: fields.required(keys.intermediate_size)?,
            bias: true,
            gated: false,
            activation: activation(fields, keys.activation, Activation::Gelu)?,
        },
        positions: PositionsConfig::Learned(positions),
        sliding_windows: vec![],
        tie_word_embeddings: true,
        max_position_embeddings: positions.max_input_length(),
        names: family.names,
        classifier: family.classifier,
    };
    config.validate(FILE)?;
    // Validated before, because this allocates by the number of layers.
    Ok(TransformerConfig { sliding_windows: vec![None; num_layers], ..config })
}

/// Refuses features of encoders that would change the computation and are not supported.
fn refuse_other_encoders(fields: &Fields<'_>) -> Result<(), LoadError> {
    let kind: String = fields.or("position_embedding_type", "absolute".to_owned())?;
    if kind != "absolute" {
        return Err(fields.unsupported("position_embedding_type", &format!("\"{kind}\""), "absolute"));
    }
    for name in ["is_decoder", "add_cross_attention"] {
        if fields.or(name, false)? {
            return Err(fields.unsupported(name, "true", "false"));
        }
    }
    match fields.object("adapters")? {
        Some(_) => Err(fields.unsupported("adapters", "", "weights with the adapters merged into them")),
        None => Ok(()),
    }
}

fn positions(fields: &Fields<'_>, family: &Family) -> Result<LearnedPositions, LoadError> {
    let padding_id = match family.positions {
        Positions::FromZero => None,
        Positions::AfterPadding => Some(fields.or("pad_token_id", 1)?),
        Positions::AfterOne => Some(1),
    };
    let positions = LearnedPositions { rows: fields.required("max_position_embeddings")?, padding_id };
    match positions.max_input_length() {
        0 => {
            let problem = format!("is {}, which leaves no row for a token", positions.rows);
            Err(fields.problem("max_position_embeddings", &problem))
        }
        _ => Ok(positions),
    }
}

fn embedding_size(fields: &Fields<'_>, family: &Family, hidden_size: usize) -> Result<usize, LoadError> {
    const NAME: &str = "embedding_size";
    if !family.projected_embeddings {
        return Ok(hidden_size);
    }
    match fields.or(NAME, hidden_size)? {
        size if size <= hidden_size => Ok(size),
        size => Err(fields.unsupported(NAME, &size.to_string(), format!("up to `hidden_size`, {hidden_size}"))),
    }
}

fn head_dim(fields: &Fields<'_>, family: &Family, hidden_size: usize, num_heads: usize) -> Result<usize, LoadError> {
    if num_heads == 0 || !hidden_size.is_multiple_of(num_heads) {
        let problem = format!("({hidden_size}) must be a multiple of `{}` ({num_heads})", family.keys.num_heads);
        return Err(fields.problem(family.keys.hidden_size, &problem));
    }
    Ok(hidden_size / num_heads)
}

fn relative_bias(fields: &Fields<'_>, family: &Family) -> Result<Option<RelativeBuckets>, LoadError> {
    const NAME: &str = "relative_attention_num_buckets";
    if !family.relative_bias {
        return Ok(None);
    }
    match fields.or(NAME, 32)? {
        buckets @ 4..=4096 if buckets % 4 == 0 => Ok(Some(RelativeBuckets { buckets, max_distance: MAX_DISTANCE })),
        buckets => Err(fields.problem(NAME, &format!("must be a multiple of 4 from 4 to 4096, it is {buckets}"))),
    }
}
