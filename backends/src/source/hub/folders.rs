//! Folders of a repository: that of the model, and those of the modules.

use super::{Download, Listing, MODULES, read_json};
use crate::LoadError;
use crate::formats::TensorFormat;
use crate::json::Fields;
use crate::source::names::{check_inside, module_folder};
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
        let folder = module_folder(check_inside(&path)?);
        Ok(kind.ends_with(".StaticEmbedding").then(|| match folder {
            "" => String::new(),
            folder => format!("{folder}/"),
        }))
    }

    /// Fetches those files in the modules' folders that `is_wanted` by their name.
    pub(super) async fn module_files(
        &self,
        listing: &Listing,
        snapshot: &Path,
        dense: Option<&str>,
        is_wanted: fn(&str) -> bool,
    ) -> Result<(), LoadError> {
        let modules = if listing.files.contains(MODULES) { read_json(snapshot, MODULES)? } else { None };
        for folder in folders(modules.as_ref(), listing.files.iter(), dense)? {
            let prefix = format!("{}/", folder.trim_end_matches('/'));
            // Of a module's weights those alone that will be read.
            let weights = TensorFormat::ALL.map(|format| format!("{prefix}{}", format.single()));
            let read = weights.iter().find(|name| listing.files.contains(*name));
            let is_read = |file: &String| !weights.contains(file) || Some(file) == read;
            let inside = |file: &&String| file.strip_prefix(&prefix).is_some_and(is_wanted) && is_read(file);
            for file in listing.files.iter().filter(inside) {
                self.fetch(listing, file).await?;
            }
        }
        Ok(())
    }
}

/// The folders that `modules.json` names, with those inside of a router's, and that of the options; `files` are those of the repository.
///
/// # Errors
/// The list is malformed, or a folder is outside of the model's.
fn folders<'a>(
    modules: Option<&Value>,
    files: impl Iterator<Item = &'a String> + Clone,
    dense: Option<&str>,
) -> Result<BTreeSet<String>, LoadError> {
    let mut folders = BTreeSet::from(["1_Pooling".to_owned()]);
    folders.extend(dense.map(str::to_owned));
    for module in modules.and_then(Value::as_array).into_iter().flatten() {
        let fields = Fields::new(MODULES, module)?;
        let path: String = fields.or("path", String::new())?;
        let path = module_folder(&path);
        // The modules of a router are in folders of its own.
        if fields.or("type", String::new())?.ends_with(".Router") && !path.is_empty() {
            let inside = format!("{path}/");
            let below = files.clone().filter(|file| file.starts_with(&inside));
            folders.extend(below.filter_map(|file| file.rsplit_once('/')).map(|(folder, _)| folder.to_owned()));
        }
        folders.insert(path.to_owned());
    }
    folders.remove("");
    for folder in &folders {
        check_inside(folder)?;
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::folders;
    use serde_json::json;

    #[test]
    fn a_router_has_folders_of_its_own() {
        let modules = json!([{"path": "", "type": "x.Transformer"}, {"path": "2_Router", "type": "x.Router"}, {"path": "./3_Dense/", "type": "x.Dense"}, {"path": "."}]);
        let files = ["2_Router/router_config.json", "2_Router/query_0_Dense/config.json", "3_Dense/a/b.json", "x.json"];
        let files = files.map(str::to_owned);
        let found = folders(Some(&modules), files.iter(), Some("d")).unwrap();
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["1_Pooling", "2_Router", "2_Router/query_0_Dense", "3_Dense", "d"]
        );
        assert!(folders(Some(&json!([{"path": "../x"}])), files.iter(), None).is_err());
    }
}
