//! The positions of a family.

use super::family::{Family, Positions};
use super::settings::Settings;
use super::{disentangled, rope};
use crate::config::{DistanceBias, LearnedPositions, PositionsConfig, RelativeBuckets};
use crate::error::LoadError;
use crate::json::Fields;

/// The positions and the tokens of the longest input.
///
/// # Errors
/// A setting is missing, malformed or not supported.
pub(super) fn read(
    settings: &impl Settings,
    family: &Family,
    head_dim: usize,
) -> Result<(PositionsConfig, usize), LoadError> {
    let key = &family.keys.max_positions;
    let rows = settings.required(key)?;
    let fields = settings.json();
    let padding_id = match family.positions {
        Positions::FromZero => None,
        Positions::AfterPadding => Some(fields.or("pad_token_id", 1)?),
        Positions::AfterOne => Some(1),
        Positions::Alibi | Positions::None => return Ok((PositionsConfig::Biases, rows)),
        Positions::Disentangled => return Ok((disentangled::read(fields, rows)?, rows)),
        Positions::Rotary(rotary) => {
            let mut rotary = settings.rotary(rotary, head_dim)?;
            if family.query_growth {
                rotary.query_growth = Some(rope::query_growth(fields)?);
            }
            let longest = match family.scaled_beyond {
                Some((factor, trained)) if fields.get(factor).is_some() => rows.min(fields.or(trained, 2048)?),
                _ => rows,
            };
            return Ok((PositionsConfig::Rotary(rotary), longest));
        }
    };
    let positions = match settings.table_rows(family.names.positions)? {
        // Converters to GGUF leave out the rows before the first token's.
        Some(rows) => LearnedPositions { rows, padding_id: None },
        None => LearnedPositions { rows, padding_id },
    };
    match positions.max_input_length() {
        0 => Err(settings.problem(key, &format!("is {rows}, which leaves no row for a token"))),
        longest => Ok((PositionsConfig::Learned(positions), longest.min(rows))),
    }
}

/// Biases of scores by distance.
///
/// # Errors
/// Their number is out of range.
pub(super) fn distance_bias(fields: &Fields<'_>, family: &Family) -> Result<Option<DistanceBias>, LoadError> {
    const NAME: &str = "relative_attention_num_buckets";
    if matches!(family.positions, Positions::Alibi) {
        return Ok(Some(DistanceBias::Alibi));
    }
    if !family.relative_attention_bias {
        return Ok(None);
    }
    let rows = fields.or(NAME, RelativeBuckets::COUNT)?;
    if !(RelativeBuckets::COUNT..=4096).contains(&rows) {
        return Err(fields.problem(NAME, &format!("must be from {} to 4096, it is {rows}", RelativeBuckets::COUNT)));
    }
    Ok(Some(DistanceBias::Buckets(RelativeBuckets { rows })))
}
