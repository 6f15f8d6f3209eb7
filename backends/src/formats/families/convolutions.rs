//! Short convolutions in `config.json`, as LFM2 has them.

use crate::config::{ConvolutionConfig, TransformerConfig};
use crate::error::LoadError;
use crate::json::Fields;

/// Maximum neighbours of a token; models have three.
const MAX_KERNEL: usize = 8;

/// Reads the settings of all convolutions.
///
/// # Errors
/// A field is malformed or out of range.
pub(super) fn read(fields: &Fields<'_>) -> Result<ConvolutionConfig, LoadError> {
    const KERNEL: &str = "conv_L_cache";
    match fields.or(KERNEL, 3)? {
        kernel @ 1..=MAX_KERNEL => Ok(ConvolutionConfig { kernel, bias: fields.or("conv_bias", false)? }),
        other => Err(fields.problem(KERNEL, &format!("must be from 1 to {MAX_KERNEL}, it is {other}"))),
    }
}

/// `true` for each layer with a convolution; empty in models without. All layers have attention if no field says so.
///
/// # Errors
/// A field is malformed, or says something else of a layer.
pub(super) fn layers(fields: &Fields<'_>, config: &TransformerConfig) -> Result<Vec<bool>, LoadError> {
    const TYPES: &str = "layer_types";
    if config.convolutions.is_none() {
        return Ok(vec![]);
    }
    let num_layers = config.num_layers;
    let Some(types) = fields.optional::<Vec<String>>(TYPES)? else {
        let attention = fields.optional::<Vec<usize>>("full_attn_idxs")?;
        let has_attention = |layer| attention.as_ref().is_none_or(|layers| layers.contains(&layer));
        return Ok((0..num_layers).map(|layer| !has_attention(layer)).collect());
    };
    if types.len() != num_layers {
        let problem = format!("has {} entries, `num_hidden_layers` is {num_layers}", types.len());
        return Err(fields.problem(TYPES, &problem));
    }
    let layers = types.iter().map(|layer_type| match layer_type.as_str() {
        "conv" => Ok(true),
        "full_attention" => Ok(false),
        other => Err(fields.unsupported(TYPES, &format!("\"{other}\""), "conv, full_attention")),
    });
    layers.collect()
}

/// The width of the feed-forward block of a file that says `width`, unless `block_auto_adjust_ff_dim` is false: two thirds of it, times
/// `block_ffn_dim_multiplier`, rounded up to a multiple of `block_multiple_of`.
///
/// # Errors
/// A field is malformed or out of range.
pub(super) fn adjusted(fields: &Fields<'_>, width: usize) -> Result<usize, LoadError> {
    const MULTIPLE: &str = "block_multiple_of";
    const FACTOR: &str = "block_ffn_dim_multiplier";
    if !fields.or("block_auto_adjust_ff_dim", true)? {
        return Ok(width);
    }
    let multiple: usize = match fields.or(MULTIPLE, 256)? {
        multiple @ 1..=0x10_0000 => multiple,
        other => return Err(fields.problem(MULTIPLE, &format!("must be from 1 to 1048576, it is {other}"))),
    };
    let width = width.saturating_mul(2) / 3;
    // Null leaves the width as it is, without rounding.
    if fields.mentions(FACTOR) && fields.get(FACTOR).is_none() {
        return Ok(width);
    }
    match fields.or::<f64>(FACTOR, 1.0)? {
        factor if factor > 0.0 && factor <= 1024.0 => {
            Ok(((factor * width as f64) as usize).checked_next_multiple_of(multiple).unwrap_or(usize::MAX))
        }
        other => Err(fields.problem(FACTOR, &format!("must be above 0 and at most 1024, it is {other}"))),
    }
}
