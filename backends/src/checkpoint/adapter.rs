//! The LoRA adapter in a model's folder, which transformers loads with the model.

use super::capabilities::head::HeadSource;
use super::task_adapters;
use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::Weights;
use crate::formats::lora::{self, AdaptedFiles, LoraConfig};
use crate::source::ModelFiles;

/// The tensors of the files, changed by the adapter in the same folder if there is one, or by the adapters of tasks,
/// and warnings about them.
///
/// # Errors
/// As for [`ModelFiles::weights`]; an adapter is malformed, or needs an unsupported feature.
pub(super) fn weights(
    files: &ModelFiles,
    config: &TransformerConfig,
) -> Result<(Option<Weights>, Vec<String>), LoadError> {
    if let Some(adapters) = config.adapters.as_ref().filter(|adapters| !adapters.of_tables) {
        return task_adapters::weights(files, &adapters.names);
    }
    let Some(config) = files.read(lora::CONFIG)? else { return Ok((files.weights()?, vec![])) };
    let config = LoraConfig::read(&config)?;
    let Some(base) = files.tensors("")? else { return Ok((None, vec![])) };
    let adapter = match files.tensors_of(&lora::TENSORS)? {
        Some(adapter) => adapter,
        None if files.is_remote() => {
            let warning = "the tensors of the LoRA adapter were not checked";
            return Ok((Some(Weights::Files(base)), vec![warning.to_owned()]));
        }
        None => {
            let [(preferred, _), (other, _)] = lora::TENSORS;
            return Err(files.missing(preferred, &format!(" nor {other}, whose adapter {} describes", lora::CONFIG)));
        }
    };
    let adapted = AdaptedFiles::new(base, adapter, &config)?;
    let (modules, replaced) = adapted.counts();
    tracing::info!(modules, replaced, "a LoRA adapter is merged into the weights");
    let warnings = files.adapter_base().into_iter().chain(adapted.warnings()).collect();
    Ok((Some(Weights::Adapted(Box::new(adapted))), warnings))
}

/// A warning that the adapter of a classifier is used without one.
pub(super) fn other_task(head: &HeadSource, weights: &Weights) -> Option<String> {
    let has_classifier = matches!(weights, Weights::Adapted(files) if files.has_classifier());
    let is_classifier = matches!(head, HeadSource::Classifier { .. } | HeadSource::TokenClassifier { .. });
    (has_classifier && !is_classifier).then(|| {
        format!(
            "`task_type` of {} says that the adapter was trained with a classifier, which is not used: `architectures` of config.json \
             names none; --task classify uses the classifier in the files",
            lora::CONFIG
        )
    })
}

/// Refuses a change of a reranker's embeddings that are also its head, or of that head: peft changes only one of the
/// two.
///
/// # Errors
/// There is such a change.
pub(super) fn check_head(head: &HeadSource, is_tied: bool, weights: Option<&Weights>) -> Result<(), LoadError> {
    match (head, weights) {
        (HeadSource::TokenRows(_), Some(Weights::Adapted(files))) if is_tied && files.changes_embeddings() => {
            let supported = "adapters of other modules; or the adapter merged into the weights";
            let what = "a change of the embeddings or `lm_head` of a reranker whose head the embeddings are";
            Err(LoadError::unsupported(lora::CONFIG, what, supported))
        }
        _ => Ok(()),
    }
}
