//! Disentangled attention in `config.json`, as DeBERTa v2 and v3 have it.

use crate::config::{DisentangledConfig, PositionsConfig};
use crate::error::LoadError;
use crate::json::Fields;
use serde_json::Value;

/// Maximum rows of relative position embeddings; far above any model.
const MAX_SPAN: usize = 1 << 16;

/// Reads the settings of relative position embeddings; `max_positions` is the default maximum distance.
///
/// # Errors
/// A field is malformed or out of range, or one of its values is not supported.
pub(super) fn read(fields: &Fields<'_>, max_positions: usize) -> Result<PositionsConfig, LoadError> {
    // Negative numbers and 0 are the absence of both.
    let positive = |name: &str| {
        let value = fields.or::<i64>(name, -1)?;
        Ok::<_, LoadError>(usize::try_from(value).ok().filter(|&value| value > 0))
    };
    let farthest = positive("max_relative_positions")?.unwrap_or(max_positions);
    let buckets = positive("position_buckets")?;
    let span = buckets.unwrap_or(farthest);
    if !(2..=MAX_SPAN).contains(&span) {
        let name = if buckets.is_some() { "position_buckets" } else { "max_relative_positions" };
        return Err(fields.problem(name, &format!("must be from 2 to {MAX_SPAN}, it is {span}")));
    }
    let terms = terms(fields)?;
    let has = |term: &str| terms.iter().any(|it| it == term);
    if let Some(other) = terms.iter().find(|term| !["c2p", "p2c"].contains(&term.as_str())) {
        return Err(fields.unsupported("pos_att_type", &format!("\"{other}\""), "c2p, p2c"));
    }
    let norm_rel_ebd = match fields.or("norm_rel_ebd", "none".to_owned())?.to_lowercase().as_str() {
        "layer_norm" => true,
        "none" => false,
        other => return Err(fields.unsupported("norm_rel_ebd", &format!("\"{other}\""), "layer_norm, none")),
    };
    let config = DisentangledConfig {
        span,
        log_beyond: buckets.map(|_| farthest),
        c2p: has("c2p"),
        p2c: has("p2c"),
        share_att_key: fields.or("share_att_key", false)?,
        norm_rel_ebd,
    };
    if buckets.is_some() {
        let middle = span / 2;
        let first = middle as isize;
        if farthest <= middle + 1 || config.row(first + 1) > config.row(first) + 1 {
            let problem = format!("({farthest}) must be at least twice `position_buckets` ({span})");
            return Err(fields.problem("max_relative_positions", &problem));
        }
    }
    Ok(PositionsConfig::Disentangled(config))
}

/// Position terms of the scores, in addition to the content term: a list, or names separated by `|`.
fn terms(fields: &Fields<'_>) -> Result<Vec<String>, LoadError> {
    let names: Vec<String> = match fields.get("pos_att_type") {
        None => vec![],
        Some(Value::Array(_)) => fields.required("pos_att_type")?,
        Some(_) => fields.required::<String>("pos_att_type")?.split('|').map(str::to_owned).collect(),
    };
    Ok(names.into_iter().map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect())
}
