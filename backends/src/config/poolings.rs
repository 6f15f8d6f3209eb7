//! Names of poolings in files.

use crate::LoadError;
use crate::json::Fields;
use prefold_core::Pooling;

/// A pooling by its names.
#[derive(Debug)]
pub(crate) struct PoolingNames {
    pub(crate) pooling: Pooling,
    /// In `pooling_mode` of sentence-transformers, then the spellings of other files.
    pub(crate) names: &'static [&'static str],
    /// The older spelling of sentence-transformers: a boolean for each pooling.
    pub(crate) flag: &'static str,
    /// `pooling_type` of GGUF, 0 for none.
    pub(crate) gguf: usize,
}

const fn row(pooling: Pooling, names: &'static [&'static str], flag: &'static str, gguf: usize) -> PoolingNames {
    PoolingNames { pooling, names, flag, gguf }
}

/// The mean of logits instead of states.
pub(crate) const LATE: &str = "late";

/// All poolings, in the order in which sentence-transformers joins the vectors of those whose flags are set.
pub(crate) const POOLINGS: [PoolingNames; 6] = [
    row(Pooling::Cls, &["cls", "bos"], "pooling_mode_cls_token", 2),
    row(Pooling::Max, &["max"], "pooling_mode_max_tokens", 0),
    row(Pooling::Mean, &["mean", "avg", LATE], "pooling_mode_mean_tokens", 1),
    row(Pooling::MeanSqrtLen, &["mean_sqrt_len_tokens"], "pooling_mode_mean_sqrt_len_tokens", 0),
    row(Pooling::WeightedMean, &["weightedmean"], "pooling_mode_weightedmean_tokens", 0),
    row(Pooling::LastToken, &["lasttoken", "last"], "pooling_mode_lasttoken", 3),
];

/// The names that `pooling` of `config.json` may have.
pub(crate) const OF_CONFIG: &[&str] = &["avg", "mean", "cls", "last"];

/// The pooling of a name, if it is one of `known` in this place.
pub(crate) fn pooling(name: &str, known: &[&str]) -> Option<Pooling> {
    let row = POOLINGS.iter().filter(|_| known.contains(&name)).find(|row| row.names.contains(&name));
    row.map(|row| row.pooling)
}

/// The pooling that a field names, where it names one of `known`.
///
/// # Errors
/// It is no string, or another name.
pub(crate) fn read(fields: &Fields<'_>, field: &str, known: &[&str]) -> Result<Option<Pooling>, LoadError> {
    let Some(name) = fields.optional::<String>(field)? else { return Ok(None) };
    match pooling(&name, known) {
        Some(pooling) => Ok(Some(pooling)),
        None => Err(fields.unsupported(field, &format!("\"{name}\""), known.join(", "))),
    }
}
