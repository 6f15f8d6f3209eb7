//! Names of poolings in files.

use crate::error::LoadError;
use crate::json::Fields;
use prefold_core::Pooling;

/// A pooling by its names.
#[derive(Debug)]
pub(crate) struct PoolingNames {
    pub(crate) pooling: Pooling,
    /// The value of `pooling_mode` in sentence-transformers, then the spellings of other files.
    pub(crate) names: &'static [&'static str],
    /// The boolean field in older files of sentence-transformers.
    pub(crate) flag: &'static str,
    /// `pooling_type` of GGUF, 0 for none.
    pub(crate) gguf: usize,
}

const fn row(pooling: Pooling, names: &'static [&'static str], flag: &'static str, gguf: usize) -> PoolingNames {
    PoolingNames { pooling, names, flag, gguf }
}

/// The mean of logits instead of states.
pub(crate) const LATE: &str = "late";

/// All poolings, in the order in which sentence-transformers concatenates their vectors if several flags are set.
pub(crate) const POOLINGS: [PoolingNames; 6] = [
    row(Pooling::Cls, &["cls", "bos"], "pooling_mode_cls_token", 2),
    row(Pooling::Max, &["max"], "pooling_mode_max_tokens", 0),
    row(Pooling::Mean, &["mean", "avg", LATE], "pooling_mode_mean_tokens", 1),
    row(Pooling::MeanSqrtLen, &["mean_sqrt_len_tokens"], "pooling_mode_mean_sqrt_len_tokens", 0),
    row(Pooling::WeightedMean, &["weightedmean"], "pooling_mode_weightedmean_tokens", 0),
    row(Pooling::LastToken, &["lasttoken", "last"], "pooling_mode_lasttoken", 3),
];

/// The supported values of `pooling` in `config.json`.
pub(crate) const OF_CONFIG: &[&str] = &["avg", "mean", "cls", "last"];

/// The name of a pooling in `--pooling`.
pub(crate) fn flag(pooling: Pooling) -> String {
    pooling.to_string().replace('_', "-")
}

/// The pooling of a name, if the name is one of `known`.
pub(crate) fn pooling(name: &str, known: &[&str]) -> Option<Pooling> {
    let row = POOLINGS.iter().filter(|_| known.contains(&name)).find(|row| row.names.contains(&name));
    row.map(|row| row.pooling)
}

/// The pooling that a field names; `None` if the field is absent.
///
/// # Errors
/// The value is not a string, or not one of `known`.
pub(crate) fn read(fields: &Fields<'_>, field: &str, known: &[&str]) -> Result<Option<Pooling>, LoadError> {
    let Some(name) = fields.optional::<String>(field)? else { return Ok(None) };
    match pooling(&name, known) {
        Some(pooling) => Ok(Some(pooling)),
        None => Err(fields.unsupported(field, &format!("\"{name}\""), known.join(", "))),
    }
}
