//! Folders of a repository: that of the model, and those of the modules.

use super::{Download, Listing, MODULES, read_json};
use crate::LoadError;
use crate::json::Fields;
use crate::source::names::check_inside;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

impl Download<'_> {
    /// The folder of the tokenizer and the tensors, with a slash at its end: the top, empty, or that of a table of vectors beside no
    /// `config.json`; `None` where the files are of no model in named tensors.
    pub(super) async fn model_folder(&self, listing: &Listing) -> Result<Option<String>, LoadError> {
        if listing.files.contains("config.json") {
            return Ok(Some(String::new()));
        }
        // Nothing is downloaded in vain: the folder has a tokenizer.
        let has_folder = listing.files.iter().any(|file| file.ends_with("/tokenizer.json"));
        if !has_folder || !listing.files.contains(MODULES) {
            return Ok(None);
        }
        let snapshot = self.fetch(listing, MODULES).await?;
        let Some(Value::Array(modules)) = read_json(&snapshot, MODULES)? else { return Ok(None) };
        let Some(first) = modules.first() else { return Ok(None) };
        let first = Fields::new(MODULES, first)?;
        let (kind, path): (String, String) = (first.or("type", String::new())?, first.or("path", String::new())?);
        let folder = check_inside(path.trim_end_matches('/'))?;
        Ok(kind.ends_with(".StaticEmbedding").then(|| match folder {
            "" | "." => String::new(),
            folder => format!("{folder}/"),
        }))
    }

    /// Folders of the modules.
    pub(super) fn folders(
        &self,
        listing: &Listing,
        snapshot: &Path,
        dense: Option<&str>,
    ) -> Result<BTreeSet<String>, LoadError> {
        let mut folders = BTreeSet::from(["1_Pooling".to_owned()]);
        folders.extend(dense.map(str::to_owned));
        if listing.files.contains(MODULES)
            && let Some(Value::Array(modules)) = read_json(snapshot, MODULES)?
        {
            for module in &modules {
                folders.insert(Fields::new(MODULES, module)?.or("path", String::new())?);
            }
        }
        folders.remove("");
        for folder in &folders {
            check_inside(folder)?;
        }
        Ok(folders)
    }
}
