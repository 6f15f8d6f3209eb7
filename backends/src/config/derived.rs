//! Tables that are computed at load from numbers of the config. No file bounds their size, so it is checked here.

use super::{DistanceBias, PositionsConfig, RotaryConfig, TransformerConfig};
use crate::error::LoadError;

/// Maximum values of all computed tables of a model: a gigabyte, as for a RoPE cache of two million positions of 128 components.
const MAX_VALUES: usize = 1 << 28;

impl TransformerConfig {
    /// Values of the tables for inputs of up to `positions` tokens: RoPE caches, biases by distance, and relative position embeddings
    /// projected by each layer.
    pub(crate) fn derived_values(&self, positions: usize) -> u64 {
        let product = |factors: &[usize]| factors.iter().fold(1_u64, |product, &it| product.saturating_mul(it as u64));
        let attention = &self.attention;
        let of_positions = match &self.positions {
            PositionsConfig::Rotary(rotary) => {
                let bases = if rotary.full == rotary.windowed { 1 } else { 2 };
                let kinds = if rotary.growth_within(positions).is_some() { 2 } else { 1 };
                product(&[bases, kinds, positions, attention.head_dim])
            }
            PositionsConfig::Disentangled(it) => {
                let projected = product(&[it.terms() - 1, it.rows(), attention.num_heads, attention.head_dim]);
                // Plus the row index of each distance.
                projected.saturating_mul(self.num_layers as u64).saturating_add(product(&[2, positions]))
            }
            PositionsConfig::Learned(_) | PositionsConfig::Biases => 0,
        };
        let biases = match attention.distance_bias {
            None => 0,
            Some(DistanceBias::Buckets(_) | DistanceBias::Alibi) => product(&[2, positions, attention.num_heads]),
            Some(DistanceBias::LayerBuckets(_)) => product(&[2, positions, attention.num_heads, self.num_layers]),
        };
        of_positions.saturating_add(biases)
    }

    /// Checks that tables for `positions` positions are possible.
    ///
    /// # Errors
    /// One is impossible, or they are too large; the error names `file`.
    pub(crate) fn check_positions(&self, file: &str, positions: usize) -> Result<(), LoadError> {
        let is_by_distance =
            self.attention.distance_bias.is_some() || matches!(self.positions, PositionsConfig::Disentangled(_));
        if is_by_distance && positions.saturating_mul(self.attention.num_heads) > MAX_VALUES {
            let problem = format!(
                "the longest input ({positions} tokens) times the heads ({}) must be at most {MAX_VALUES}",
                self.attention.num_heads
            );
            return Err(LoadError::invalid(file, problem));
        }
        let PositionsConfig::Rotary(RotaryConfig { full, windowed, .. }) = &self.positions else {
            return check_derived(file, [(self, positions)].into_iter());
        };
        let head_dim = self.attention.head_dim;
        if positions.saturating_mul(head_dim) > MAX_VALUES {
            let problem = format!(
                "the longest input ({positions} tokens of `max_position_embeddings`) times `head_dim` ({head_dim}) \
                 must be at most {MAX_VALUES}"
            );
            return Err(LoadError::invalid(file, problem));
        }
        if let Some(rope) = [full, windowed].into_iter().find(|rope| !rope.is_finite(head_dim, positions)) {
            let problem = format!("`rope_theta` ({}) and the RoPE scaling give angles that are not finite", rope.theta);
            return Err(LoadError::invalid(file, problem));
        }
        check_derived(file, [(self, positions)].into_iter())
    }
}

/// Checks the tables of all sub-models together, each with the tokens of its longest input.
///
/// # Errors
/// They are too large; the error names `file`.
pub(crate) fn check_derived<'a>(
    file: &str,
    models: impl Iterator<Item = (&'a TransformerConfig, usize)>,
) -> Result<(), LoadError> {
    let values = models.map(|(config, positions)| config.derived_values(positions)).fold(0, u64::saturating_add);
    if values <= MAX_VALUES as u64 {
        return Ok(());
    }
    let problem = format!(
        "the longest input, the heads and the layers need tables of positions and distances of {values} values, \
         the limit is {MAX_VALUES}"
    );
    Err(LoadError::invalid(file, problem))
}
