//! Rotary embedding in `config.json`, in both spellings.

use crate::LoadError;
use crate::config::{RopeConfig, RopeScaling};
use crate::json::Fields;

/// Reads either spelling: `rope_parameters`, or `rope_theta` with `rope_scaling`.
///
/// # Errors
/// Fields are missing, malformed or contradict each other, or the type of scaling is not known.
pub(super) fn read(config: &Fields<'_>, default_theta: Option<f64>) -> Result<RopeConfig, LoadError> {
    let newer = config.object("rope_parameters")?;
    let older = config.object("rope_scaling")?;
    let rope = match (&newer, &older) {
        (Some(newer), Some(older)) => {
            let rope = parse(config, newer, default_theta)?;
            if parse(config, older, Some(rope.theta))? != rope {
                return Err(config.problem("rope_parameters", "and `rope_scaling` contradict each other"));
            }
            rope
        }
        (Some(newer), None) => parse(config, newer, default_theta)?,
        (None, Some(older)) => parse(config, older, default_theta)?,
        (None, None) => RopeConfig { theta: theta(config, None, default_theta)?, scaling: RopeScaling::None },
    };
    partial_rotary(config)?;
    Ok(rope)
}

fn parse(config: &Fields<'_>, rope: &Fields<'_>, default_theta: Option<f64>) -> Result<RopeConfig, LoadError> {
    if let Some((name, _)) = rope.entries().find(|(_, value)| value.is_object()) {
        return Err(rope.unsupported(name, "(RoPE parameters per layer type)", "one set for all layers"));
    }
    partial_rotary(rope)?;
    let kind = match rope.optional::<String>("rope_type")? {
        Some(kind) => Some(kind),
        None => rope.optional::<String>("type")?,
    };
    let scaling = match kind.as_deref() {
        None if rope.mentions("factor") => return Err(rope.problem("rope_type", "is missing")),
        None | Some("default") => RopeScaling::None,
        Some("linear") => RopeScaling::Linear { factor: positive(rope, "factor")? },
        Some("llama3") => parse_llama3(config, rope)?,
        Some(other) => {
            return Err(rope.unsupported("rope_type", &format!("\"{other}\""), "default, linear, llama3"));
        }
    };
    Ok(RopeConfig { theta: theta(config, Some(rope), default_theta)?, scaling })
}

fn parse_llama3(config: &Fields<'_>, rope: &Fields<'_>) -> Result<RopeScaling, LoadError> {
    let name = "original_max_position_embeddings";
    let original = match rope.optional::<usize>(name)? {
        Some(original) => original,
        None => config.optional(name)?.ok_or_else(|| rope.problem(name, "is missing"))?,
    };
    let (low, high) = (positive(rope, "low_freq_factor")?, positive(rope, "high_freq_factor")?);
    if original == 0 {
        return Err(rope.problem(name, "must be above 0"));
    }
    if low >= high {
        return Err(rope.problem("low_freq_factor", &format!("({low}) must be below `high_freq_factor` ({high})")));
    }
    Ok(RopeScaling::Llama3 {
        factor: positive(rope, "factor")?,
        low_freq_factor: low,
        high_freq_factor: high,
        original_max_position_embeddings: original,
    })
}

fn theta(config: &Fields<'_>, rope: Option<&Fields<'_>>, default: Option<f64>) -> Result<f64, LoadError> {
    for fields in rope.into_iter().chain([config]) {
        if fields.get("rope_theta").is_some() {
            return positive(fields, "rope_theta");
        }
    }
    default.ok_or_else(|| config.problem("rope_theta", "is missing"))
}

fn positive(fields: &Fields<'_>, name: &str) -> Result<f64, LoadError> {
    let value: f64 = fields.required(name)?;
    if value > 0.0 { Ok(value) } else { Err(fields.problem(name, &format!("must be above 0, it is {value}"))) }
}

fn partial_rotary(fields: &Fields<'_>) -> Result<(), LoadError> {
    match fields.or("partial_rotary_factor", 1.0)? {
        1.0 => Ok(()),
        other => Err(fields.unsupported("partial_rotary_factor", &other.to_string(), "1: every component is rotated")),
    }
}
