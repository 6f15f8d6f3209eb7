//! Bounds of attention scores and of logits in `config.json`, each `bound * tanh(value / bound)`.

use super::family::Family;
use crate::error::LoadError;
use crate::json::Fields;

/// The bound of attention scores; `None` for no bound.
///
/// # Errors
/// The field is not a positive number.
pub(super) fn of_scores(fields: &Fields<'_>, family: &Family) -> Result<Option<f32>, LoadError> {
    read(fields, family, "attn_logit_softcapping", 50.0)
}

/// The bound of the language model's logits; `None` for no bound.
///
/// # Errors
/// The field is not a positive number.
pub(super) fn of_logits(fields: &Fields<'_>, family: &Family) -> Result<Option<f32>, LoadError> {
    read(fields, family, "final_logit_softcapping", 30.0)
}

/// A bound: the default of the class if the field is missing, none if it is null.
fn read(fields: &Fields<'_>, family: &Family, name: &str, default: f64) -> Result<Option<f32>, LoadError> {
    /// Limits far from any model's bound, within which neither the bound nor its inverse overflows.
    const LIMITS: std::ops::RangeInclusive<f64> = 1e-3..=1e6;
    if !family.softcaps || fields.mentions(name) && fields.get(name).is_none() {
        return Ok(None);
    }
    match fields.or(name, default)? {
        bound if LIMITS.contains(&bound) => Ok(Some(bound as f32)),
        bound => Err(fields.problem(name, &format!("must be from 0.001 to 1000000, it is {bound}"))),
    }
}
