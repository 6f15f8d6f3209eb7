//! The tensors of a checkpoint: whether all are there, in the shapes that its config says.

use super::head::HeadSource;
use crate::LoadError;
use crate::config::TransformerConfig;
use crate::formats::Weights;

/// Checks the tensors of the transformer and of a classifier's head by the headers of the files; no values are read.
///
/// # Errors
/// A tensor is missing or has another shape.
pub(super) fn check(config: &TransformerConfig, head: &HeadSource, weights: &Weights) -> Result<(), LoadError> {
    config.try_each_tensor(|(name, shape)| weights.check(&name, &shape))?;
    let (layers, num_labels) = match head {
        HeadSource::Classifier { num_labels } => (config.classifier.layers, *num_labels),
        HeadSource::TokenClassifier { num_labels } => (config.classifier.of_tokens, *num_labels),
        HeadSource::Dense { .. } | HeadSource::TokenRows(_) => return Ok(()),
    };
    let mut tensors = config.head_tensors(layers, num_labels).into_iter();
    tensors.try_for_each(|(name, shape)| weights.check(&name, &shape))
}
