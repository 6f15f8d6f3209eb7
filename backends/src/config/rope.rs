//! Rotary position embedding: base frequencies and their scaling.

use std::f64::consts::PI;

/// Rotary embedding: from positions to angles.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RopeConfig {
    /// Base of the geometric series of frequencies.
    pub(crate) theta: f64,
    /// Scaling of the frequencies for longer contexts.
    pub(crate) scaling: RopeScaling,
}

/// Scaling of frequencies.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RopeScaling {
    /// No scaling.
    None,
    /// Every frequency divided by `factor`.
    Linear { factor: f64 },
    /// The base times `factor`, and every frequency divided by `factor^(2 / head_dim)`: Alibaba-NLP/new-impl's
    /// `NTKScalingRotaryEmbedding`, at all lengths.
    Ntk { factor: f64 },
    /// Llama 3: low frequencies divided by `factor`, high ones kept, those between interpolated.
    Llama3 { factor: f64, low_freq_factor: f64, high_freq_factor: f64, original_max_position_embeddings: usize },
    /// YaRN ([arXiv 2309.00071](https://arxiv.org/abs/2309.00071)): low frequencies divided by `factor`, high ones kept, those between
    /// interpolated; queries and keys are multiplied by `attention_factor`.
    Yarn(Yarn),
    /// A divisor for each frequency, from GGUF's `rope_freqs.weight`. `[head_dim / 2]`
    Factors(Vec<f32>),
}

/// Settings of YaRN.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Yarn {
    pub(crate) factor: f64,
    pub(crate) attention_factor: f64,
    /// Rotations over the original length from which frequencies are kept, and up to which they are divided.
    pub(crate) beta_fast: f64,
    pub(crate) beta_slow: f64,
    pub(crate) original_max_position_embeddings: usize,
    /// The ends of the interpolated range are whole numbers.
    pub(crate) truncate: bool,
}

impl RopeConfig {
    /// Factor on queries and on keys.
    pub(crate) fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn(yarn) => yarn.attention_factor,
            _ => 1.0,
        }
    }

    /// Angle per position of each pair of components after scaling, `[head_dim / 2]`.
    pub(crate) fn inverse_frequencies(&self, head_dim: usize) -> Vec<f64> {
        let theta = match self.scaling {
            RopeScaling::Ntk { factor } => self.theta * factor,
            _ => self.theta,
        };
        let base = (0..head_dim / 2).map(|i| theta.powf(-((2 * i) as f64) / head_dim as f64));
        match &self.scaling {
            RopeScaling::None => base.collect(),
            RopeScaling::Linear { factor } => base.map(|f| f / factor).collect(),
            RopeScaling::Ntk { factor } => base.map(|f| f / factor.powf(2.0 / head_dim as f64)).collect(),
            RopeScaling::Yarn(yarn) => yarn.scaled(self.theta, head_dim, base),
            RopeScaling::Factors(divisors) => base.zip(divisors).map(|(f, &d)| f / f64::from(d)).collect(),
            &RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_max_position_embeddings: original,
            } => base.map(|f| llama3(f, factor, low_freq_factor, high_freq_factor, original as f64)).collect(),
        }
    }

    /// `true` if every pair of components has a finite angle at every position.
    pub(crate) fn is_finite(&self, head_dim: usize, positions: usize) -> bool {
        self.inverse_frequencies(head_dim).into_iter().all(|frequency| (frequency * positions as f64).is_finite())
    }
}

impl Yarn {
    /// The frequencies of `head_dim / 2` pairs of components.
    fn scaled(&self, theta: f64, head_dim: usize, frequencies: impl Iterator<Item = f64>) -> Vec<f64> {
        let dim = head_dim as f64;
        let pair = |rotations: f64| {
            let length = self.original_max_position_embeddings as f64;
            dim * (length / (rotations * 2.0 * PI)).ln() / (2.0 * theta.ln())
        };
        let (mut low, mut high) = (pair(self.beta_fast), pair(self.beta_slow));
        if self.truncate {
            (low, high) = (low.floor(), high.ceil());
        }
        (low, high) = (low.max(0.0), high.min(dim - 1.0));
        if low == high {
            high += 0.001;
        }
        let scaled = |(i, frequency): (usize, f64)| {
            let divided = ((i as f64 - low) / (high - low)).clamp(0.0, 1.0);
            frequency / self.factor * divided + frequency * (1.0 - divided)
        };
        frequencies.enumerate().map(scaled).collect()
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
        // (500000 * 4)^(-2i/16) / 4^(2/16)
        assert_close(&frequencies(RopeScaling::Ntk { factor: 4.0 })[..2], &[0.840_896_415, 0.137_124_088]);
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

    #[test]
    fn yarn_frequencies_are_those_of_transformers() {
        let yarn = Yarn {
            factor: 4.0,
            attention_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_max_position_embeddings: 32768,
            truncate: true,
        };
        // transformers' ROPE_INIT_FUNCTIONS["yarn"] with these settings.
        let of = |yarn| RopeConfig { theta: 1e6, scaling: RopeScaling::Yarn(yarn) }.inverse_frequencies(16);
        assert_close(
            &of(yarn),
            &[1.0, 0.177827941, 0.0316227766, 0.00421755994, 0.0005, 4.445698525e-05, 7.90569415e-06, 1.405853313e-06],
        );
        let whole = Yarn { truncate: false, beta_fast: 16.0, beta_slow: 2.0, ..yarn };
        assert_close(&of(whole)[2..5], &[0.0316227766, 0.005623413252, 0.000595679896]);
    }
}
