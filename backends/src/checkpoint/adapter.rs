//! The LoRA adapter in a model's folder, which transformers loads with the model.

use super::capabilities::head::HeadSource;
use crate::error::{LoadError, printable};
use crate::formats::Weights;
use crate::formats::lora::{self, AdaptedFiles, LoraConfig};
use crate::json::shown;
use crate::source::ModelFiles;

/// The tensors of the files with the changes of the adapter in the same folder, if there is one, and warnings about it.
///
/// # Errors
/// As for [`ModelFiles::weights`]; the adapter is malformed, or needs an unsupported feature.
pub(super) fn weights(files: &ModelFiles) -> Result<(Option<Weights>, Vec<String>), LoadError> {
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
    let alone = files.adapter_base().map(|(name, folder)| {
        let name = shown(&name.into());
        let folder = printable(folder.display().to_string());
        format!("the model's folder has only a LoRA adapter; its base {name} is read from {folder}")
    });
    let warnings = alone.into_iter().chain(adapted.warnings()).collect();
    Ok((Some(Weights::Adapted(Box::new(adapted))), warnings))
}

/// Refuses a change of the embeddings of a reranker whose head they are, or of that head: peft changes only one of them.
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
