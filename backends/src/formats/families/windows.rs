//! Sliding windows of layers in `config.json`.

use super::family::Windows;
use super::settings::first_of;
use crate::LoadError;
use crate::config::MaskConfig;
use crate::json::Fields;

const LAYER_TYPES: &str = "layer_types";
const WINDOW: &str = "sliding_window";
const USE_WINDOW: &str = "use_sliding_window";

/// The window of each layer. `[num_layers]`
///
/// # Errors
/// A field is missing, malformed or not supported.
pub(super) fn read(
    fields: &Fields<'_>,
    windows: Windows,
    mask: MaskConfig,
    num_layers: usize,
) -> Result<Vec<Option<usize>>, LoadError> {
    let is_full = mask == MaskConfig::Full;
    // With a mask the field counts the token itself, as a window here does; without one, the tokens on either side.
    let one_sided = |window: usize| window + usize::from(is_full);
    let slides = match windows {
        Windows::Never => return Ok(vec![None; num_layers]),
        Windows::AllLayers { default } => {
            let window = match fields.mentions(WINDOW) {
                false => Some(default),
                true if fields.get(WINDOW).is_none() => None,
                true => Some(size(fields)?),
            };
            return Ok(vec![window.map(one_sided); num_layers]);
        }
        Windows::SomeLayers => some_layers(fields, num_layers)?,
        Windows::Alternating => alternating(fields, num_layers)?,
        Windows::Local => local(fields, num_layers)?,
    };
    let window = match windows {
        Windows::SomeLayers if !slides.contains(&true) => return Ok(vec![None; num_layers]),
        Windows::Local => two_sided(fields, "local_attention", 128)?,
        Windows::Alternating if is_full => two_sided(fields, WINDOW, 512)?,
        Windows::Alternating => size(fields)?,
        _ => one_sided(size(fields)?),
    };
    Ok(slides.into_iter().map(|slides| slides.then_some(window)).collect())
}

/// Layers of ModernBERT with a window: all but every `global_attn_every_n_layers`th from the first on, or those of `layer_types`.
fn local(fields: &Fields<'_>, num_layers: usize) -> Result<Vec<bool>, LoadError> {
    match by_type(fields, num_layers)? {
        Some(slides) => Ok(slides),
        None => {
            let every = above_0(fields, "global_attn_every_n_layers", 3)?;
            Ok((0..num_layers).map(|layer| layer % every != 0).collect())
        }
    }
}

/// Layers of Gemma 3 with a window: all but every `_sliding_window_pattern`th, or those of `layer_types`.
fn alternating(fields: &Fields<'_>, num_layers: usize) -> Result<Vec<bool>, LoadError> {
    match by_type(fields, num_layers)? {
        Some(slides) => Ok(slides),
        None => {
            let every = above_0(fields, first_of(fields, &["_sliding_window_pattern", "sliding_window_pattern"]), 6)?;
            Ok((1..=num_layers).map(|layer| layer % every != 0).collect())
        }
    }
}

/// Layers of Qwen with a window: those of `layer_types`, or those from one on.
fn some_layers(fields: &Fields<'_>, num_layers: usize) -> Result<Vec<bool>, LoadError> {
    let uses_windows = fields.or(USE_WINDOW, false)?;
    match by_type(fields, num_layers)? {
        Some(slides) if slides.contains(&true) && !uses_windows => {
            Err(fields.problem(LAYER_TYPES, "has sliding_attention, but `use_sliding_window` is not true"))
        }
        Some(slides) => Ok(slides),
        None if uses_windows => {
            let first: usize = fields.required("max_window_layers")?;
            Ok((0..num_layers).map(|layer| layer >= first).collect())
        }
        None => Ok(vec![false; num_layers]),
    }
}

/// `true` for each layer of the type `sliding_attention`, where the file has types.
fn by_type(fields: &Fields<'_>, num_layers: usize) -> Result<Option<Vec<bool>>, LoadError> {
    let Some(layer_types) = fields.optional::<Vec<String>>(LAYER_TYPES)? else { return Ok(None) };
    if layer_types.len() != num_layers {
        let problem = format!("has {} entries, `num_hidden_layers` is {num_layers}", layer_types.len());
        return Err(fields.problem(LAYER_TYPES, &problem));
    }
    let slides = layer_types.iter().map(|layer_type| match layer_type.as_str() {
        "full_attention" => Ok(false),
        "sliding_attention" => Ok(true),
        other => Err(fields.unsupported(LAYER_TYPES, &format!("\"{other}\""), "full_attention, sliding_attention")),
    });
    slides.collect::<Result<_, _>>().map(Some)
}

/// The window of a layer that sees half of the field's tokens on either side. A window counts the token itself.
fn two_sided(fields: &Fields<'_>, name: &str, default: usize) -> Result<usize, LoadError> {
    Ok(above_0(fields, name, default)? / 2 + 1)
}

/// `sliding_window`.
fn size(fields: &Fields<'_>) -> Result<usize, LoadError> {
    above_0(fields, WINDOW, fields.required(WINDOW)?)
}

fn above_0(fields: &Fields<'_>, name: &str, default: usize) -> Result<usize, LoadError> {
    match fields.or(name, default)? {
        0 => Err(fields.problem(name, "must be above 0")),
        value => Ok(value),
    }
}
