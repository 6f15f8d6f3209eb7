//! Rotary position embedding: base frequencies and their scaling.

use crate::LoadError;
use crate::json::Fields;
use std::f64::consts::PI;

/// How positions become angles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RopeConfig {
    /// Base of the geometric series of frequencies.
    pub(crate) theta: f64,
    /// How the frequencies are stretched for longer contexts.
    pub(crate) scaling: RopeScaling,
}

/// How frequencies are stretched.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RopeScaling {
    /// They are not.
    None,
    /// Every frequency divided by `factor`.
    Linear { factor: f64 },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, those between interpolated.
    Llama3 { factor: f64, low_freq_factor: f64, high_freq_factor: f64, original_max_position_embeddings: usize },
    /// A divisor for each frequency, as GGUF's `rope_freqs.weight` holds them. `[head_dim / 2]`
    Factors(Vec<f32>),
}

impl RopeConfig {
    /// Angle per position of each pair of components, `[head_dim / 2]`, after scaling.
    pub(crate) fn inverse_frequencies(&self, head_dim: usize) -> Vec<f64> {
        let base = (0..head_dim / 2).map(|i| self.theta.powf(-((2 * i) as f64) / head_dim as f64));
        match &self.scaling {
            RopeScaling::None => base.collect(),
            RopeScaling::Linear { factor } => base.map(|f| f / factor).collect(),
            RopeScaling::Factors(divisors) => base.zip(divisors).map(|(f, &d)| f / f64::from(d)).collect(),
            &RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: original,
            } => base.map(|f| llama3(f, factor, low_freq_factor, high_freq_factor, original as f64)).collect(),
        }
    }

    /// Whether every pair of components has an angle at every position.
    pub(crate) fn is_finite(&self, head_dim: usize, positions: usize) -> bool {
        self.inverse_frequencies(head_dim).into_iter().all(|frequency| (frequency * positions as f64).is_finite())
    }

    /// Reads either spelling: `rope_parameters`, or `rope_theta` with `rope_scaling`.
    ///
    /// # Errors
    /// Fields are missing, malformed or contradict each other, or the type of scaling is not known.
    pub(crate) fn from_fields(config: &Fields<'_>, default_theta: Option<f64>) -> Result<Self, LoadError> {
        let newer = config.object("rope_parameters")?;
        let older = config.object("rope_scaling")?;
        let rope = match (&newer, &older) {
            (Some(newer), Some(older)) => {
                let rope = Self::parse(config, newer, default_theta)?;
                if Self::parse(config, older, Some(rope.theta))? != rope {
                    return Err(config.problem("rope_parameters", "and `rope_scaling` contradict each other"));
                }
                rope
            }
            (Some(newer), None) => Self::parse(config, newer, default_theta)?,
            (None, Some(older)) => Self::parse(config, older, default_theta)?,
            (None, None) => Self { theta: theta(config, None, default_theta)?, scaling: RopeScaling::None },
        };
        partial_rotary(config)?;
        Ok(rope)
    }

    fn parse(config: &Fields<'_>, rope: &Fields<'_>, default_theta: Option<f64>) -> Result<Self, LoadError> {
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
            Some("llama3") => Self::parse_llama3(config, rope)?,
            Some(other) => {
                return Err(rope.unsupported("rope_type", &format!("\"{other}\""), "default, linear, llama3"));
            }
        };
        Ok(Self { theta: theta(config, Some(rope), default_theta)?, scaling })
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
}

/// Wavelengths longer than `original / low` are stretched, those shorter than `original / high` kept.
fn llama3(frequency: f64, factor: f64, low: f64, high: f64, original: f64) -> f64 {
    let wavelength = 2.0 * PI / frequency;
    if wavelength > original / low {
        frequency / factor
    } else if wavelength < original / high {
        frequency
    } else {
        let smooth = (original / wavelength - low) / (high - low);
        (1.0 - smooth) * frequency / factor + smooth * frequency
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(scaling: RopeScaling) -> Vec<f64> {
        RopeConfig { theta: 500_000.0, scaling }.inverse_frequencies(16)
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= 1e-6 * expected, "{found} is not {expected}");
        }
    }

    #[test]
    fn plain_linear_and_divided_frequencies() {
        let plain = frequencies(RopeScaling::None);
        // 500000^(-2i/16)
        assert_close(&plain[..3], &[1.0, 0.193_922_745, 0.037_606_031]);
        let linear: Vec<f64> = plain.iter().map(|f| f / 4.0).collect();
        assert_close(&frequencies(RopeScaling::Linear { factor: 4.0 }), &linear);
        let divisors: Vec<f32> = (1..=8).map(|i| i as f32).collect();
        let divided: Vec<f64> = plain.iter().zip(&divisors).map(|(f, &d)| f / f64::from(d)).collect();
        assert_close(&frequencies(RopeScaling::Factors(divisors)), &divided);
    }

    #[test]
    fn llama3_frequencies_are_those_of_transformers() {
        let scaled = frequencies(RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_max_position_embeddings: 64,
        });
        // transformers' ROPE_INIT_FUNCTIONS["llama3"] on the config of tests/fixtures/llama-tiny.
        assert_close(
            &scaled,
            &[
                1.000000000e+00,
                7.940300918e-02,
                4.700753866e-03,
                9.115830922e-04,
                1.767766953e-04,
                3.428102196e-05,
                6.647869871e-06,
                1.289173172e-06,
            ],
        );
    }
}
