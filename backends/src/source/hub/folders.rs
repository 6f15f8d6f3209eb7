//! Folders of a repository: those of the model's tensors, and those of the modules.

use super::{CONFIG, Download, Listing, MODULES, ROUTER, read_json};
use crate::LoadError;
use crate::formats::TensorFormat;
use crate::json::Fields;
use crate::source::names::{check_inside, inside, module_folder};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

impl Download<'_> {
    /// The folders of tokenizers and tensors, each with a slash at its end: the top, empty; that of a table of vectors beside no
    /// `config.json`; or those of the routes of a Router that comes first. `None` where the files are of no model in named tensors.
    pub(super) async fn model_folders(&self, listing: &Listing) -> Result<Option<Vec<String>>, LoadError> {
        let has_config = listing.files.contains(CONFIG);
        let top = || has_config.then(|| vec![String::new()]);
        // Nothing is downloaded in vain: a folder has a tokenizer.
        let has_folder = listing.files.iter().any(|file| file.ends_with("/tokenizer.json"));
        if has_config && !listing.files.contains(ROUTER) || !has_folder || !listing.files.contains(MODULES) {
            return Ok(top());
        }
        let snapshot = self.fetch(listing, MODULES).await?;
        let Some(Value::Array(modules)) = read_json(&snapshot, MODULES)? else { return Ok(top()) };
        let Some(first) = modules.first() else { return Ok(top()) };
        let Module { kind, folder } = Module::read(MODULES, first)?;
        let with_slash = |folder: String| if folder.is_empty() { folder } else { format!("{folder}/") };
        if kind == "StaticEmbedding" && !has_config {
            return Ok(Some(vec![with_slash(folder)]));
        }
        if !is_router(&kind) {
            return Ok(top());
        }
        let modules = self.routed(listing, &snapshot, &folder).await?.into_iter();
        let with_tensors = modules.filter(|(kind, _)| matches!(kind.as_str(), "Transformer" | "StaticEmbedding"));
        Ok(Some(with_tensors.map(|(_, folder)| with_slash(folder)).collect()))
    }

    /// The modules of the Router in a folder: the name of the class and the folder of each.
    ///
    /// # Errors
    /// There is no such config, it is malformed, or a folder is outside of the model's.
    async fn routed(
        &self,
        listing: &Listing,
        snapshot: &Path,
        folder: &str,
    ) -> Result<Vec<(String, String)>, LoadError> {
        let files = [ROUTER, CONFIG].map(|file| inside(folder, file));
        let Some(file) = files.iter().find(|file| listing.files.contains(*file)) else {
            return Err(self.error(&files[0], "the repository has no such file".to_owned()));
        };
        self.fetch(listing, file).await?;
        let config = read_json(snapshot, file)?.unwrap_or_default();
        let fields = Fields::new(file, &config)?;
        let Some(types) = fields.object("types")? else { return Err(fields.problem("types", "is missing")) };
        let module = |(id, _): (&String, &Value)| {
            let class: String = types.required(id)?;
            Ok((class_name(&class).to_owned(), inside(folder, module_folder(check_inside(id)?))))
        };
        types.entries().map(module).collect()
    }

    /// Fetches those files in the modules' folders that `is_wanted` by their name; `models` are the folders of tensors, whose files are
    /// fetched otherwise.
    pub(super) async fn module_files(
        &self,
        listing: &Listing,
        snapshot: &Path,
        models: &[String],
        dense: Option<&str>,
        is_wanted: fn(&str) -> bool,
    ) -> Result<(), LoadError> {
        let modules = if listing.files.contains(MODULES) { read_json(snapshot, MODULES)? } else { None };
        let modules: Vec<Module> = match modules.as_ref().and_then(Value::as_array) {
            Some(modules) => modules.iter().map(|module| Module::read(MODULES, module)).collect::<Result<_, _>>()?,
            None => Vec::new(),
        };
        let mut routed = BTreeMap::new();
        for router in modules.iter().filter(|module| is_router(&module.kind)) {
            let inside = self.routed(listing, snapshot, &router.folder).await?;
            routed.insert(router.folder.clone(), inside.into_iter().map(|(_, folder)| folder).collect());
        }
        for prefix in folders(&modules, &routed, dense)?.into_iter().filter(|folder| !models.contains(folder)) {
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

/// A module as `modules.json` lists it.
struct Module {
    /// The name of its class.
    kind: String,
    /// Empty for the top.
    folder: String,
}

impl Module {
    fn read(file: &str, module: &Value) -> Result<Self, LoadError> {
        let fields = Fields::new(file, module)?;
        let (class, path): (String, String) = (fields.or("type", String::new())?, fields.or("path", String::new())?);
        Ok(Self { kind: class_name(&class).to_owned(), folder: module_folder(check_inside(&path)?).to_owned() })
    }
}

/// The name of a class without its module.
fn class_name(class: &str) -> &str {
    class.rsplit('.').next().unwrap_or_default()
}

/// Modules of it are in folders of its own.
fn is_router(kind: &str) -> bool {
    matches!(kind, "Router" | "Asym")
}

/// The folders of the modules, those that a Router at a place has inside (`routed`), and that of the options, each with a slash at its end.
///
/// # Errors
/// A folder is outside of the model's.
fn folders(
    modules: &[Module],
    routed: &BTreeMap<String, Vec<String>>,
    dense: Option<&str>,
) -> Result<BTreeSet<String>, LoadError> {
    let of_modules =
        modules.iter().flat_map(|module| routed.get(&module.folder).into_iter().flatten().chain([&module.folder]));
    let all = of_modules.map(String::as_str).chain(["1_Pooling"]).chain(dense).filter(|folder| !folder.is_empty());
    all.map(|folder| Ok(format!("{}/", check_inside(folder)?.trim_end_matches('/')))).collect()
}

#[cfg(test)]
mod tests {
    use super::{Module, folders};
    use serde_json::json;
    use std::collections::BTreeMap;

    #[test]
    fn a_router_has_folders_of_its_own() {
        let modules = [
            json!({"path": "", "type": "x.Transformer"}),
            json!({"path": "2_Router", "type": "x.Router"}),
            json!({"path": "./3_Dense/", "type": "x.Dense"}),
            json!({"path": "."}),
        ];
        let modules = modules.map(|module| Module::read("modules.json", &module).unwrap());
        let routed = BTreeMap::from([("2_Router".to_owned(), vec!["2_Router/query_0_Dense".to_owned()])]);
        let found = folders(&modules, &routed, Some("d")).unwrap();
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["1_Pooling/", "2_Router/", "2_Router/query_0_Dense/", "3_Dense/", "d/"]
        );
        assert!(Module::read("modules.json", &json!({"path": "../x"})).is_err());
        assert!(folders(&[], &routed, Some("../x")).is_err());
    }
}
