//! LoRA adapters of tasks in folders of their own, as in jina-embeddings-v5.

use crate::config::TransformerConfig;
use crate::error::LoadError;
use crate::formats::Weights;
use crate::formats::lora::{self, FilesByTask, LoraConfig};
use crate::source::ModelFiles;

/// Reads rank and scale of the adapters of tasks that have folders of their own.
///
/// # Errors
/// A config is missing or malformed, needs an unsupported feature, or differs from the first.
pub(super) fn complete(files: &ModelFiles, config: &mut TransformerConfig) -> Result<(), LoadError> {
    let Some(adapters) = config.adapters.as_mut().filter(|adapters| !adapters.of_tables) else { return Ok(()) };
    let mut first = None;
    for name in &adapters.names {
        let file = format!("{}{}", lora::folder_of_task(name), lora::CONFIG);
        let bytes = files.read(&file)?.ok_or_else(|| files.missing(&file, ""))?;
        let found = LoraConfig::read(&bytes)?.uniform()?;
        if *first.get_or_insert(found) != found {
            return Err(LoadError::unsupported(&file, "another rank or scale", "one rank and scale for all adapters"));
        }
    }
    if let Some((rank, scale)) = first {
        (adapters.rank, adapters.scale) = (rank, scale);
    }
    Ok(())
}

/// The tensors of the files with the adapter of each task, and warnings about them.
///
/// # Errors
/// An adapter is missing or malformed.
pub(super) fn weights(files: &ModelFiles, names: &[String]) -> Result<(Option<Weights>, Vec<String>), LoadError> {
    let Some(base) = files.tensors("")? else { return Ok((None, vec![])) };
    let (mut adapters, mut warnings) = (Vec::new(), Vec::new());
    if files.is_remote() {
        warnings.push("the tensors of the LoRA adapters were not checked".to_owned());
    } else {
        for name in names {
            let folder = lora::folder_of_task(name);
            let paths = lora::TENSORS.map(|(file, format)| (format!("{folder}{file}"), format));
            let paths: Vec<_> = paths.iter().map(|(path, format)| (path.as_str(), *format)).collect();
            let found = files.tensors_of(&paths)?;
            adapters.push(found.ok_or_else(|| files.missing(paths[0].0, ", which `task_names` names"))?);
        }
    }
    Ok((Some(Weights::ByTask(Box::new(FilesByTask::new(base, adapters)?))), warnings))
}
