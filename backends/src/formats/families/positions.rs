//! The positions of a family.

use super::family::{Family, Positions};
use super::settings::Settings;
use super::{disentangled, rope};
use crate::config::{DistanceBias, LearnedPositions, PositionsConfig, RelativeBuckets};
use crate::error::LoadError;
use crate::json::Fields;

/// Tokens of the longest input of models whose positions allow any, unless their files give a length: a bound on tables by distance.
const ANY_LENGTH: usize = 1 << 15;

/// Maximum rows of a table of biases by distance.
const MAX_BUCKETS: usize = 4096;

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
    let rows = match family.positions {
        Positions::Relative => ANY_LENGTH,
        _ => settings.required(key)?,
    };
    let fields = settings.json();
    let padding_id = match family.positions {
        Positions::FromZero => None,
        Positions::AfterPadding => Some(fields.or("pad_token_id", 1)?),
        Positions::AfterOne => Some(1),
        Positions::Alibi | Positions::Relative | Positions::None => return Ok((PositionsConfig::Biases, rows)),
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

/// Field of the number of buckets of distances.
const BUCKETS: &str = "relative_attention_num_buckets";

/// Biases of scores by distance.
///
/// # Errors
/// The number of buckets or their farthest distance is out of range.
pub(super) fn distance_bias(fields: &Fields<'_>, family: &Family) -> Result<Option<DistanceBias>, LoadError> {
    if matches!(family.positions, Positions::Alibi) {
        return Ok(Some(DistanceBias::Alibi));
    }
    let Some(relative) = family.relative_attention else { return Ok(None) };
    let buckets = match relative.max_distance {
        None => RelativeBuckets { rows: rows(fields)?, ..RelativeBuckets::DEFAULT },
        Some(name) => buckets(fields, name)?,
    };
    Ok(Some(if relative.per_layer { DistanceBias::LayerBuckets(buckets) } else { DistanceBias::Buckets(buckets) }))
}

/// The rows of a table with the default buckets, and more that are not read.
fn rows(fields: &Fields<'_>) -> Result<usize, LoadError> {
    let least = RelativeBuckets::DEFAULT.rows;
    match fields.or(BUCKETS, least)? {
        rows if (least..=MAX_BUCKETS).contains(&rows) => Ok(rows),
        rows => Err(fields.problem(BUCKETS, &format!("must be from {least} to {MAX_BUCKETS}, it is {rows}"))),
    }
}

/// Buckets that the config says, with the field of the distance from which all distances share a bucket.
fn buckets(fields: &Fields<'_>, max_distance: &str) -> Result<RelativeBuckets, LoadError> {
    let buckets = match fields.or(BUCKETS, RelativeBuckets::DEFAULT.buckets)? {
        buckets @ 4..=MAX_BUCKETS if buckets.is_multiple_of(4) => buckets,
        buckets => {
            let limits = format!("must be a multiple of 4 from 4 to {MAX_BUCKETS}, it is {buckets}");
            return Err(fields.problem(BUCKETS, &limits));
        }
    };
    match fields.or(max_distance, RelativeBuckets::DEFAULT.max_distance)? {
        farthest if farthest > buckets / 4 && farthest <= ANY_LENGTH => {
            Ok(RelativeBuckets { rows: buckets, buckets, max_distance: farthest })
        }
        farthest => {
            let limits = format!("must be above a quarter of `{BUCKETS}` and at most {ANY_LENGTH}, it is {farthest}");
            Err(fields.problem(max_distance, &limits))
        }
    }
}
