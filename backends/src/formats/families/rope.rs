//! Rotary embedding in `config.json`, in both spellings.

use super::family::{Rotary, UNSCALED};
use crate::config::{QueryGrowth, RopeConfig, RopeScaling, RotaryConfig, Yarn};
use crate::error::LoadError;
use crate::json::{Fields, shown};

/// The base of rotations: its field outside of the object of the scaling, and its defaults without and with such an object.
#[derive(Clone, Copy)]
struct Base {
    key: &'static str,
    /// Its name in transformers, where the published code has another.
    otherwise: &'static str,
    default: Option<f64>,
    in_object: Option<f64>,
}

/// Reads the rotations of a family.
///
/// # Errors
/// Fields are missing, malformed or contradict each other, or the family does not know the kind of scaling.
pub(super) fn read(config: &Fields<'_>, rotary: Rotary) -> Result<RotaryConfig, LoadError> {
    match rotary {
        Rotary::OneBase { key, default, own_default, kinds } => {
            let in_object = own_default.or(default);
            // The default of the published code, where it comes with the model.
            let default = if config.get("auto_map").is_some() { default } else { in_object };
            let base = Base { key, otherwise: THETA, default, in_object };
            Ok(one_base(config, base, kinds)?.into())
        }
        Rotary::TwoBases { full, windowed, scales_full_alone } => two_bases(config, full, windowed, scales_full_alone),
    }
}

/// Either spelling: `rope_parameters`, or the field of the base with `rope_scaling`.
fn one_base(config: &Fields<'_>, base: Base, kinds: &[&str]) -> Result<RopeConfig, LoadError> {
    let newer = config.object("rope_parameters")?;
    let older = config.object("rope_scaling")?;
    let rope = match (&newer, &older) {
        (Some(newer), Some(older)) => {
            let rope = parse(config, newer, base, kinds)?;
            // transformers reads the older alone, with the base outside of it or the default.
            if parse(config, older, base, kinds)? != rope {
                return Err(config.problem("rope_parameters", "and `rope_scaling` contradict each other"));
            }
            rope
        }
        (Some(newer), None) => parse(config, newer, base, kinds)?,
        (None, Some(older)) => parse(config, older, base, kinds)?,
        (None, None) => RopeConfig { theta: theta(config, None, base)?, scaling: RopeScaling::None },
    };
    partial_rotary(config)?;
    Ok(rope)
}

/// The rotations of layers without and with a window, in either spelling: a set for each of the layer types in
/// `rope_parameters`, or two fields. Each pair is a field and its default. `rope_scaling` applies to layers without a window, and
/// unless `scales_full_alone` to those with one.
fn two_bases(
    config: &Fields<'_>,
    full: (&'static str, f64),
    windowed: (&'static str, f64),
    scales_full_alone: bool,
) -> Result<RotaryConfig, LoadError> {
    let sets = config.object("rope_parameters")?;
    // An older `rope_scaling` means other layers in one family than in another.
    let has_sets = sets.iter().any(|sets| sets.entries().any(|(_, set)| set.is_object()));
    if has_sets && config.object("rope_scaling")?.is_some_and(|scaling| scaling.entries().next().is_some()) {
        let both = "and `rope_parameters` with sets for types of layers";
        return Err(config.unsupported("rope_scaling", both, "one of the two"));
    }
    let one = |layer_type: &str, is_scaled: bool, (key, default): (&'static str, f64)| {
        let base = Base { key, otherwise: key, default: Some(default), in_object: Some(default) };
        match sets.as_ref().map(|sets| sets.object(layer_type)).transpose()?.flatten() {
            Some(set) => parse(config, &set, base, UNSCALED),
            None => match config.object("rope_scaling")?.filter(|_| is_scaled) {
                Some(scaling) => parse(config, &scaling, base, UNSCALED),
                None => Ok(RopeConfig { theta: theta(config, None, base)?, scaling: RopeScaling::None }),
            },
        }
    };
    let full = one("full_attention", true, full)?;
    // Null means that windowed layers have no base of their own, as transformers 4 reads ModernBERT's.
    let is_null = config.mentions(windowed.0) && config.get(windowed.0).is_none();
    let default = if is_null { full.theta } else { windowed.1 };
    let windowed = one("sliding_attention", !scales_full_alone, (windowed.0, default))?;
    Ok(RotaryConfig { full, windowed, query_growth: None })
}

fn parse(config: &Fields<'_>, rope: &Fields<'_>, base: Base, kinds: &[&str]) -> Result<RopeConfig, LoadError> {
    if let Some((name, _)) = rope.entries().find(|(_, value)| value.is_object()) {
        return Err(rope.unsupported(name, "(RoPE parameters per layer type)", "one set for all layers"));
    }
    partial_rotary(rope)?;
    let kind = match kind(rope)? {
        None if rope.mentions("factor") => return Err(rope.problem("rope_type", "is missing")),
        None => "default".to_owned(),
        Some(kind) => kind,
    };
    let scaling = match kind.as_str() {
        other if !kinds.contains(&other) => {
            return Err(rope.unsupported("rope_type", &format!("\"{other}\""), kinds.join(", ")));
        }
        "linear" => RopeScaling::Linear { factor: positive(rope, "factor")? },
        "llama3" => parse_llama3(config, rope)?,
        "yarn" => parse_yarn(config, rope)?,
        // It has an effect only on inputs longer than `max_position_embeddings`, which are not served.
        "dynamic" => positive(rope, "factor").map(|_| RopeScaling::None)?,
        "ntk" => parse_ntk(rope)?,
        _ => RopeScaling::None,
    };
    Ok(RopeConfig { theta: theta(config, Some(rope), base)?, scaling })
}

/// The kind of scaling, in either spelling.
fn kind(rope: &Fields<'_>) -> Result<Option<String>, LoadError> {
    match rope.optional("rope_type")? {
        Some(kind) => Ok(Some(kind)),
        None => rope.optional("type"),
    }
}

/// The kind of Alibaba-NLP's `new` models; `mixed_b` would be another one.
fn parse_ntk(rope: &Fields<'_>) -> Result<RopeScaling, LoadError> {
    match rope.get("mixed_b") {
        None => Ok(RopeScaling::Ntk { factor: positive(rope, "factor")? }),
        Some(value) => Err(rope.unsupported("mixed_b", &shown(value), "null")),
    }
}

/// The growth of queries, in the parameters of RoPE. The class of such a model has no default for its fields.
///
/// # Errors
/// A field is missing, malformed or out of range.
pub(super) fn query_growth(config: &Fields<'_>) -> Result<QueryGrowth, LoadError> {
    /// Limit far above any model.
    const MAX_BETA: f64 = 1024.0;
    let rope = match config.object("rope_parameters")? {
        Some(rope) => rope,
        None => {
            let older = config.object("rope_scaling")?;
            older.ok_or_else(|| config.problem("rope_parameters", "is missing"))?
        }
    };
    // Rotations with a length of their own change the parameters before queries are scaled.
    let has_length = matches!(kind(&rope)?.as_deref(), Some("yarn" | "llama3"));
    let every = match config.optional::<usize>(ORIGINAL)?.filter(|_| has_length) {
        Some(every) => every,
        None => rope.required(ORIGINAL)?,
    };
    match (rope.required::<f64>(BETA)?, every) {
        (_, 0) => Err(rope.problem(ORIGINAL, "must be above 0")),
        (beta, every) if (0.0..=MAX_BETA).contains(&beta) => Ok(QueryGrowth { beta, every }),
        (beta, _) => Err(rope.problem(BETA, &format!("must be from 0 to {MAX_BETA}, it is {beta}"))),
    }
}

/// The base in transformers.
const THETA: &str = "rope_theta";

/// The field of the growth of queries.
const BETA: &str = "llama_4_scaling_beta";

/// The length that the model was trained on before the scaling.
const ORIGINAL: &str = "original_max_position_embeddings";

/// The model's longest input.
const LENGTH: &str = "max_position_embeddings";

/// The length before the scaling. The field outside of the object has priority, as when transformers makes the rotations.
fn original(config: &Fields<'_>, rope: &Fields<'_>) -> Result<usize, LoadError> {
    match (config.optional(ORIGINAL)?, rope.optional(ORIGINAL)?) {
        (Some(0), _) | (None, Some(0)) => Err(rope.problem(ORIGINAL, "must be above 0")),
        (Some(original), _) | (None, Some(original)) => Ok(original),
        (None, None) => config.required(LENGTH),
    }
}

fn parse_llama3(config: &Fields<'_>, rope: &Fields<'_>) -> Result<RopeScaling, LoadError> {
    let original = original(config, rope)?;
    let (low, high) = (positive(rope, "low_freq_factor")?, positive(rope, "high_freq_factor")?);
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

/// The settings of transformers, with its defaults (`_compute_yarn_parameters`).
fn parse_yarn(config: &Fields<'_>, rope: &Fields<'_>) -> Result<RopeScaling, LoadError> {
    let original = original(config, rope)?;
    let factor = match rope.optional::<f64>("factor")? {
        Some(_) => positive(rope, "factor")?,
        None => positive(config, LENGTH)? / original as f64,
    };
    let mscale = |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    let scales = [rope.or("mscale", 0.0)?, rope.or("mscale_all_dim", 0.0)?];
    let attention_factor = match rope.optional::<f64>("attention_factor")? {
        Some(_) => positive(rope, "attention_factor")?,
        None if !scales.contains(&0.0) => mscale(scales[0]) / mscale(scales[1]),
        None => mscale(1.0),
    };
    let beta = |name: &str, default: f64| match rope.or(name, 0.0)? {
        0.0 => Ok(default),
        _ => positive(rope, name),
    };
    let yarn = Yarn {
        factor,
        attention_factor,
        beta_fast: beta("beta_fast", 32.0)?,
        beta_slow: beta("beta_slow", 1.0)?,
        original_max_position_embeddings: original,
        truncate: rope.or("truncate", true)?,
    };
    if yarn.beta_fast < yarn.beta_slow {
        return Err(rope.problem("beta_fast", "must be at least `beta_slow`"));
    }
    Ok(RopeScaling::Yarn(yarn))
}

fn theta(config: &Fields<'_>, rope: Option<&Fields<'_>>, base: Base) -> Result<f64, LoadError> {
    let places = rope.map(|rope| (rope, THETA)).into_iter().chain([(config, base.key), (config, base.otherwise)]);
    for (fields, name) in places {
        if fields.get(name).is_some() {
            return positive(fields, name);
        }
    }
    let default = if rope.is_some() { base.in_object } else { base.default };
    default.ok_or_else(|| config.problem(base.key, "is missing"))
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
