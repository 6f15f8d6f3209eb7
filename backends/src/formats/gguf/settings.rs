//! The settings of a model in a GGUF file: its metadata, and the presence and shapes of its tensors.

use super::file::GgufFile;
use super::names::Naming;
use crate::config::{RopeConfig, RopeScaling, RotaryConfig};
use crate::error::LoadError;
use crate::formats::families::{Key, Rotary, Settings};
use crate::json::Fields;

/// The settings of a model.
#[derive(Debug)]
pub(super) struct Metadata<'a> {
    pub(super) file: &'a GgufFile,
    pub(super) architecture: &'a str,
    pub(super) naming: Naming,
    /// The settings under the names of `config.json`.
    pub(super) json: Fields<'a>,
}

impl Metadata<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }
}

impl Settings for Metadata<'_> {
    fn json(&self) -> &Fields<'_> {
        &self.json
    }

    fn has_defaults(&self) -> bool {
        false
    }

    fn has_tensor(&self, name: &str) -> Option<bool> {
        Some(self.naming.gguf_name(name).is_some_and(|name| self.file.tensor(&name).is_some()))
    }

    fn table_rows(&self, name: &str) -> Result<Option<usize>, LoadError> {
        let name = format!("{name}.weight");
        self.file.rows(&self.naming.gguf_name(&name).unwrap_or(name)).map(Some)
    }

    fn name(&self, key: &Key) -> String {
        self.key(key.gguf)
    }

    fn usize(&self, key: &Key) -> Result<Option<usize>, LoadError> {
        if key.gguf.is_empty() { Ok(None) } else { self.file.usize(&self.name(key)) }
    }

    fn f64(&self, key: &Key) -> Result<Option<f64>, LoadError> {
        let value = self.file.f64(&self.name(key))?;
        match key.gguf_otherwise {
            otherwise if value.is_none() && !otherwise.is_empty() => self.file.f64(&self.key(otherwise)),
            _ => Ok(value),
        }
    }

    fn problem(&self, key: &Key, problem: &str) -> LoadError {
        LoadError::invalid(self.file.name(), format!("metadata `{}` {problem}", self.name(key)))
    }

    fn rotary(&self, rotary: Rotary, head_dim: usize) -> Result<RotaryConfig, LoadError> {
        match rotary {
            Rotary::OneBase { default, .. } => Ok(self.file.rope(self.architecture, default, head_dim)?.into()),
            Rotary::TwoBases { full, windowed, .. } => {
                let full = self.file.rope(self.architecture, Some(full.1), head_dim)?;
                let base = format!("{}.rope.freq_base_swa", self.architecture);
                let theta = self.file.rope_base(&base, Some(windowed.1))?;
                let is_scaled = self.file.family()?.gguf.is_some_and(|gguf| gguf.scales_windows);
                let scaling = match full.scaling {
                    RopeScaling::Linear { factor } if is_scaled => RopeScaling::Linear { factor },
                    _ => RopeScaling::None,
                };
                Ok(RotaryConfig { full, windowed: RopeConfig { theta, scaling }, query_growth: None })
            }
        }
    }
}

impl GgufFile {
    /// The base of RoPE.
    fn rope_base(&self, key: &str, default: Option<f64>) -> Result<f64, LoadError> {
        match self.f64(key)? {
            Some(theta) if theta > 0.0 => Ok(theta),
            Some(theta) => Err(self.wrong(key, &format!("above 0, it is {theta}"))),
            None => default.ok_or_else(|| self.lacks(key)),
        }
    }

    /// RoPE of all layers; `default` is the default base.
    fn rope(&self, architecture: &str, default: Option<f64>, head_dim: usize) -> Result<RopeConfig, LoadError> {
        let key = |name: &str| format!("{architecture}.rope.{name}");
        let theta = self.rope_base(&key("freq_base"), default)?;
        if let Some(rotated) = self.usize(&key("dimension_count"))?.filter(|&rotated| rotated != head_dim) {
            let what = format!("`{}` {rotated} of {head_dim}", key("dimension_count"));
            return Err(LoadError::unsupported(self.name(), what, "RoPE on all components"));
        }
        let scaling = match (self.tensor("rope_freqs.weight").is_some(), self.rope_scaling(architecture)?) {
            (false, scaling) => scaling,
            (true, RopeScaling::None) => self.rope_factors(head_dim)?,
            (true, _) => {
                return Err(LoadError::unsupported(self.name(), "`rope_freqs.weight` with scaling", "one of the two"));
            }
        };
        Ok(RopeConfig { theta, scaling })
    }

    /// The scaling in the metadata. As in llama.cpp, a file without a type has linear scaling; `scale_linear` is the older name of
    /// the factor.
    fn rope_scaling(&self, architecture: &str) -> Result<RopeScaling, LoadError> {
        let key = |name: &str| format!("{architecture}.rope.{name}");
        let refused = |key: &str, value: String, supported: &str| {
            Err(LoadError::unsupported(self.name(), format!("`{key}` {value}"), supported))
        };
        let attention = key("scaling.attn_factor");
        if let Some(factor) = self.f64(&attention)?.filter(|&factor| factor != 1.0) {
            return refused(&attention, factor.to_string(), "1");
        }
        let kind = key("scaling.type");
        match self.str(&kind)? {
            Some("none") => return Ok(RopeScaling::None),
            None | Some("linear") => {}
            Some(other) => return refused(&kind, format!("\"{other}\""), "none, linear"),
        }
        for name in ["scaling.factor", "scale_linear"].map(key) {
            match self.f64(&name)? {
                None => {}
                Some(0.0 | 1.0) => return Ok(RopeScaling::None),
                Some(factor) if factor > 0.0 => return Ok(RopeScaling::Linear { factor }),
                Some(factor) => return Err(self.wrong(&name, &format!("from 0 up, it is {factor}"))),
            }
        }
        Ok(RopeScaling::None)
    }

    fn rope_factors(&self, head_dim: usize) -> Result<RopeScaling, LoadError> {
        let name = "rope_freqs.weight";
        let factors: Vec<f32> = self.read(name, &[head_dim / 2])?;
        if factors.iter().all(|&factor| factor.is_finite() && factor > 0.0) {
            Ok(RopeScaling::Factors(factors))
        } else {
            Err(LoadError::invalid(self.name(), format!("tensor `{name}` must have values above 0")))
        }
    }
}
