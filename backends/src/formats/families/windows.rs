//! Sliding windows of layers in `config.json`.

use super::family::Windows;
use crate::config::MaskConfig;
use crate::error::LoadError;
use crate::json::Fields;
use std::ops::Range;

const LAYER_TYPES: &str = "layer_types";
const WINDOW: &str = "sliding_window";
const LOCAL: &str = "local_attention";

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
    let types = match windows {
        Windows::Never => return Ok(vec![None; num_layers]),
        Windows::AllOrNone => {
            let window = fields.get(WINDOW).map(|_| size(fields)).transpose()?;
            return Ok(vec![window.map(one_sided); num_layers]);
        }
        _ => by_type(fields, num_layers)?,
    };
    let (slides, window) = match windows {
        Windows::AllLayers(default) => {
            let has_window = fields.get(WINDOW).is_some() || !fields.mentions(WINDOW);
            let slides = types.unwrap_or_else(|| vec![has_window; num_layers]);
            let is_needed = fields.mentions(WINDOW) && slides.contains(&true);
            (slides, one_sided(if is_needed { size(fields)? } else { default }))
        }
        Windows::Local => {
            let slides = types.map_or_else(|| periodic(fields, "global_attn_every_n_layers", 3, 0..num_layers), Ok)?;
            let window = two_sided(fields, LOCAL, 128)?;
            // In transformers 5 the field replaces the other one.
            match fields.optional::<usize>(WINDOW)? {
                Some(side) if side.checked_add(1) != Some(window) => {
                    let supported = format!("half of `{LOCAL}`");
                    return Err(fields.unsupported(WINDOW, &side.to_string(), supported));
                }
                _ => (slides, window),
            }
        }
        Windows::Alternating => {
            let pattern = "sliding_window_pattern";
            let slides = types.map_or_else(|| periodic(fields, pattern, 6, 1..num_layers + 1), Ok)?;
            (slides, if is_full { two_sided(fields, WINDOW, 512)? } else { size(fields)? })
        }
        Windows::EverySecond => {
            let slides = types.unwrap_or_else(|| (0..num_layers).map(|layer| layer % 2 == 0).collect());
            (slides, one_sided(size(fields)?))
        }
        _ => match some_layers(fields, types, num_layers)? {
            slides if slides.contains(&true) => (slides, one_sided(size(fields)?)),
            slides => (slides, 0),
        },
    };
    Ok(slides.into_iter().map(|slides| slides.then_some(window)).collect())
}

/// Layers with a window: all but those whose number is a multiple of a field.
fn periodic(fields: &Fields<'_>, name: &str, default: usize, layers: Range<usize>) -> Result<Vec<bool>, LoadError> {
    let every = above_0(fields, name, default)?;
    Ok(layers.map(|layer| layer % every != 0).collect())
}

/// Layers of Qwen with a window: by layer type, or from a given layer on.
fn some_layers(fields: &Fields<'_>, types: Option<Vec<bool>>, num_layers: usize) -> Result<Vec<bool>, LoadError> {
    match (types, fields.or("use_sliding_window", false)?) {
        (Some(slides), false) if slides.contains(&true) => {
            Err(fields.problem(LAYER_TYPES, "has sliding_attention, but `use_sliding_window` is not true"))
        }
        (Some(slides), _) => Ok(slides),
        (None, true) => {
            let first: usize = fields.required("max_window_layers")?;
            Ok((0..num_layers).map(|layer| layer >= first).collect())
        }
        (None, false) => Ok(vec![false; num_layers]),
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
