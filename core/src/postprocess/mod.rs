//! Postprocessing of raw outputs: normalisation, scores, entities.

pub(crate) mod aggregation;
mod char_index;
pub(crate) mod entities;

use crate::capabilities::sigmoid;
use crate::error::BackendError;
use crate::outputs::{Output, OutputKind, Values};
use crate::response::{RerankScore, TokenVectors};
use std::num::NonZero;

/// Scales to unit length; a zero vector is unchanged.
pub(crate) fn normalize(vector: &mut [f32]) {
    let norm = dot(vector, vector).sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / norm) as f32);
    }
}

impl TokenVectors {
    /// Scales each vector to unit length.
    pub fn normalize(&mut self) {
        self.rows_mut().for_each(normalize);
    }
}

/// Cosine similarity; 0 if one of the vectors is zero.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if norms > 0.0 { (dot(a, b) / norms) as f32 } else { 0.0 }
}

/// Dot product in f64, where products of finite f32 values cannot overflow.
fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Score of a document from the logit of a single-label classifier, or from a reranker's logits `[no, yes]`.
pub(crate) fn rerank_score(output: Output) -> Result<RerankScore, BackendError> {
    let raw = match logits(output)?[..] {
        [logit] => logit,
        [no, yes] => yes - no,
        ref other => return Err(BackendError::Contract(format!("{} logits for a score", other.len()))),
    };
    // Logits are finite, but their difference need not be.
    if !raw.is_finite() {
        let problem = format!("the difference of two logits is {raw}");
        // Logits are float32, whatever the model's type.
        return Err(BackendError::NotFinite { problem, dtype: "float32" });
    }
    Ok(RerankScore { raw, score: sigmoid(raw) })
}

/// The logits of a sequence, one for each label or token of the head.
///
/// # Errors
/// The backend returned another output.
pub(crate) fn logits(mut output: Output) -> Result<Vec<f32>, BackendError> {
    let logits = output.take(OutputKind::Logits).map(|values| values.data);
    logits.ok_or_else(|| BackendError::Contract("logits were expected".to_owned()))
}

/// A pooled vector of `dim` values.
pub(crate) fn embedding(mut output: Output, dim: usize) -> Result<Vec<f32>, BackendError> {
    let vector = output.take(OutputKind::Embedding).map(|values| values.data).filter(|vector| vector.len() == dim);
    vector.ok_or_else(|| BackendError::Contract(format!("a vector of {dim} values was expected")))
}

/// A vector for each token.
pub(crate) fn token_vectors(mut output: Output) -> Result<TokenVectors, BackendError> {
    let of_tokens = output
        .take(OutputKind::Tokens)
        .and_then(|Values { data, dim }| NonZero::new(dim).map(|dim| TokenVectors::new(data, dim)));
    of_tokens.ok_or_else(|| BackendError::Contract("one row for each token was expected".to_owned()))
}

#[cfg(test)]
#[path = "../tests/postprocess.rs"]
mod tests;
