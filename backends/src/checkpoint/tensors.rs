//! Check that all tensors of a checkpoint are present in the config's shapes.

use super::capabilities::head::HeadSource;
use crate::config::adapters::{FIRST, first_factor};
use crate::config::{HeadName, TransformerConfig};
use crate::error::LoadError;
use crate::formats::Weights;

/// Checks the tensors of the transformer and of a classifier's head by the headers of the files; no values are read.
///
/// # Errors
/// A tensor is missing or has another shape.
pub(super) fn check(config: &TransformerConfig, head: &HeadSource, weights: &Weights) -> Result<(), LoadError> {
    let mut adapted = 0;
    config.try_each_tensor(|(name, shape)| {
        adapted += usize::from(name.ends_with(FIRST));
        weights.check(&name, &shape)
    })?;
    if let Weights::ByTask(files) = weights {
        files.check_count(adapted)?;
    }
    let (layers, num_labels) = layers_of(config, head);
    let last = layers.last().map_or("", |layer| layer.name);
    let mut tensors = config.head_tensors(layers, num_labels).into_iter();
    tensors.try_for_each(|(name, shape)| {
        weights.check(&name, &shape).map_err(|error| match name.strip_prefix(last) {
            Some(".weight" | ".bias") if !matches!(weights, Weights::Gguf(_)) => of_labels(error, num_labels),
            _ => error,
        })
    })
}

/// `true` if a language model's head is its embeddings. As in transformers 5, the config is not followed where the files have a head of its own.
pub(super) fn is_tied(config: &TransformerConfig, weights: Option<&Weights>) -> bool {
    config.tie_word_embeddings && weights.is_none_or(|weights| !weights.contains("lm_head.weight"))
}

/// The layers of a classifier's head and its labels; none of other heads.
fn layers_of(config: &TransformerConfig, head: &HeadSource) -> (&'static [HeadName], usize) {
    match *head {
        HeadSource::Classifier { num_labels } => (config.classifier.layers, num_labels),
        HeadSource::TokenClassifier { num_labels } => (config.classifier.of_tokens, num_labels),
        HeadSource::Dense { .. } | HeadSource::TokenRows(_) => (&[], 0),
    }
}

/// Names of the tensors of the head, except dense modules.
pub(super) fn of_head(config: &TransformerConfig, head: &HeadSource) -> Vec<String> {
    let (layers, num_labels) = layers_of(config, head);
    let tensors = config.head_tensors(layers, num_labels).into_iter().map(|(name, _)| name);
    let is_prompted = matches!(head, HeadSource::TokenRows(_)) && !config.tie_word_embeddings;
    tensors.chain(is_prompted.then(|| "lm_head.weight".to_owned())).collect()
}

/// Replaces a shape error of a tensor with one row per label: names both the number of rows and of labels.
fn of_labels(error: LoadError, num_labels: usize) -> LoadError {
    match error {
        LoadError::TensorShape { file, name, expected, found }
            if found.len() == expected.len() && found[1..] == expected[1..] =>
        {
            let rows = found[0];
            let labels = format!("config.json names {num_labels} (`id2label`, `num_labels`; 2 where it has neither)");
            LoadError::invalid(file, format!("tensor `{name}` has {rows} rows, one for each label, but {labels}"))
        }
        other => other,
    }
}

/// A warning about adapters in the weights that the config does not declare. The model runs without adapters, as jina-embeddings-v3
/// does without a task.
pub(super) fn unused_adapters(config: &TransformerConfig, weights: &Weights) -> Option<String> {
    let typical = config.typical_weight();
    let factor = first_factor(typical.strip_suffix(".weight")?);
    let is_unused = config.adapters.is_none() && weights.contains(&factor);
    is_unused.then(|| {
        format!("the files have adapters (`{factor}`), but `lora_adaptations` names none; no request uses them")
    })
}
