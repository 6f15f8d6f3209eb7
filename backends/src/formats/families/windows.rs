//! Windows of layers in `config.json`.

use super::settings::first_of;
use crate::LoadError;
use crate::json::Fields;

const LAYER_TYPES: &str = "layer_types";

/// Windows of ModernBERT: `local_attention` tokens around a token, but in every `global_attn_every_n_layers`th layer from the
/// first on, or where `layer_types` says so. `[num_layers]`
pub(crate) fn local_attention(fields: &Fields<'_>, num_layers: usize) -> Result<Vec<Option<usize>>, LoadError> {
    let is_local: Vec<bool> = match fields.optional::<Vec<String>>(LAYER_TYPES)? {
        Some(types) => slides_by_type(fields, &types, num_layers)?,
        None => match fields.or("global_attn_every_n_layers", 3)? {
            0 => return Err(fields.problem("global_attn_every_n_layers", "must be above 0")),
            every => (0..num_layers).map(|layer| layer % every != 0).collect(),
        },
    };
    let window = two_sided(fields, "local_attention", 128)?;
    Ok(is_local.into_iter().map(|is_local| is_local.then_some(window)).collect())
}

/// Layers with a window of Gemma 3: all but every `_sliding_window_pattern`th, or those of `layer_types`. `[num_layers]`
pub(crate) fn alternating(fields: &Fields<'_>, num_layers: usize) -> Result<Vec<bool>, LoadError> {
    const PATTERN: [&str; 2] = ["_sliding_window_pattern", "sliding_window_pattern"];
    if let Some(types) = fields.optional::<Vec<String>>(LAYER_TYPES)? {
        return slides_by_type(fields, &types, num_layers);
    }
    let name = first_of(fields, &PATTERN);
    match fields.or(name, 6)? {
        0 => Err(fields.problem(name, "must be above 0")),
        every => Ok((1..=num_layers).map(|layer| layer % every != 0).collect()),
    }
}

/// The window of a layer that sees half of the field's tokens on either side.
pub(crate) fn two_sided(fields: &Fields<'_>, name: &str, default: usize) -> Result<usize, LoadError> {
    match fields.or(name, default)? {
        0 => Err(fields.problem(name, "must be above 0")),
        // A window counts the token itself.
        tokens => Ok(tokens / 2 + 1),
    }
}

/// `true` for each layer of the type `sliding_attention`.
pub(crate) fn slides_by_type(
    fields: &Fields<'_>,
    layer_types: &[String],
    num_layers: usize,
) -> Result<Vec<bool>, LoadError> {
    if layer_types.len() != num_layers {
        let problem = format!("has {} entries, `num_hidden_layers` is {num_layers}", layer_types.len());
        return Err(fields.problem(LAYER_TYPES, &problem));
    }
    let slides = layer_types.iter().map(|layer_type| match layer_type.as_str() {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        other => Err(fields.unsupported(LAYER_TYPES, &format!("\"{other}\""), "full_attention, sliding_attention")),
    });
    slides.collect()
}

/// `sliding_window`.
pub(crate) fn size(fields: &Fields<'_>) -> Result<usize, LoadError> {
    match fields.required("sliding_window")? {
        0 => Err(fields.problem("sliding_window", "must be above 0")),
        size => Ok(size),
    }
}
