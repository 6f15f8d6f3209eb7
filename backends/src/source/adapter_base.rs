//! Base model of a LoRA adapter (`adapter_config.json`), found as transformers finds it: a folder with `config.json` is its own base, another
//! folder or a repository on the hub has the base that the adapter's config names.

use super::folder::only_gguf;
use super::hub::{self, FileSet};
use super::names::max_bytes;
use crate::disk;
use crate::error::LoadError;
use crate::formats::TensorFormat;
use crate::formats::lora::{CONFIG, TENSORS};
use crate::json::{Fields, parse_json};
use crate::options::{HubModel, LoadOptions, ModelSource};
use std::path::{Path, PathBuf};

const BASE: &str = "base_model_name_or_path";
/// Maximum bytes of the base's name.
const MAX_NAME: usize = 4096;

/// An adapter's base.
#[derive(Debug, Clone)]
pub(super) struct Base {
    pub(super) name: String,
    pub(super) folder: PathBuf,
    /// The adapter's repository has a model of its own, which is not read.
    pub(super) replaces: bool,
}

impl Base {
    /// The base of the adapter in a folder, which is downloaded from the hub if the config names a repository; `None` if the folder is its own
    /// base, or has no adapter. A folder on disk may name another folder; a repository on the hub may not.
    ///
    /// # Errors
    /// The config is malformed or names no base, or the base is not available; or the model is a GGUF file.
    pub(super) fn of(folder: &Path, options: &LoadOptions, files: FileSet) -> Result<Option<Self>, LoadError> {
        let is_local = matches!(options.source, ModelSource::Path(_));
        let has_model = folder.join("config.json").exists();
        if !folder.is_dir() || is_local && has_model {
            return Ok(None);
        }
        let Some(bytes) = disk::read(&folder.join(CONFIG), max_bytes(CONFIG))? else { return Ok(None) };
        if let Some(gguf) = only_gguf(folder)? {
            let name = gguf.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let supported = "an adapter beside safetensors; without the adapter, give the path of the .gguf file";
            return Err(LoadError::unsupported(CONFIG, format!("a LoRA adapter beside `{name}`"), supported));
        }
        let config = parse_json(CONFIG, &bytes)?;
        let fields = Fields::new(CONFIG, &config)?;
        let name: String = fields.required(BASE)?;
        if name.len() > MAX_NAME {
            return Err(fields.problem(BASE, &format!("has {} bytes, the limit is {MAX_NAME}", name.len())));
        }
        let local = PathBuf::from(&name);
        if is_local && local.is_dir() {
            return Ok(Some(Self { name, folder: local, replaces: false }));
        }
        let hub = match &options.source {
            ModelSource::Hub(hub) => Some(hub),
            ModelSource::Path(_) | ModelSource::Embedded(_) => options.base.as_ref(),
        };
        let Some(hub) = hub.filter(|_| is_hub_id(&name)) else {
            let kinds = if is_local { "neither a folder nor a repository" } else { "no repository" };
            let problem = format!("\"{name}\" is {kinds} that can be downloaded");
            return Err(fields.problem(BASE, &format!("names the adapter's base: {problem}")));
        };
        let base = HubModel { id: name.clone(), revision: fields.optional("revision")?, ..hub.clone() };
        let of_base = |error| LoadError::SubModel {
            sub_model: "a LoRA adapter, whose base is needed".to_owned(),
            source: Box::new(error),
        };
        let folder = hub::download(&base, None, files).map_err(of_base)?;
        Ok(Some(Self { name, folder, replaces: has_model }))
    }

    /// `true` for a file at the top that is the base's even if the adapter's repository has one, too.
    pub(super) fn has_instead(&self, name: &str) -> bool {
        let is_adapters = TENSORS.iter().any(|(adapter, _)| *adapter == name);
        let is_index = TensorFormat::ALL.iter().any(|format| format.index() == name);
        let is_model = name == "config.json" || is_index || TensorFormat::of_file(name).is_some() && !is_adapters;
        self.replaces && is_model && !name.contains('/')
    }
}

/// `true` for `organisation/name` in the characters that the hub allows.
fn is_hub_id(id: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_name = |name: &str| (1..=96).contains(&name.len()) && name.chars().all(is_allowed) && !name.starts_with('.');
    id.split_once('/').is_some_and(|(organisation, name)| is_name(organisation) && is_name(name))
}

#[cfg(test)]
mod tests {
    use super::is_hub_id;

    #[test]
    fn ids_of_repositories_are_no_paths() {
        assert!(["a/b", "A-1/b_c.d", &format!("a/{}", "x".repeat(96))].into_iter().all(is_hub_id));
        let long = format!("a/{}", "x".repeat(97));
        for other in ["b", "/b", "a/", "a/b/c", "../b", "a/..", "a/.b", "a/b c", "a/b%2f", "a\\/b", &long] {
            assert!(!is_hub_id(other), "{other}");
        }
    }
}
