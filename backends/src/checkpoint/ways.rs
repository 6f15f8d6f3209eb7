//! The ways of texts through a model: the modules that those of each task go through, one after another.
//!
//! A model without a Router has one way. With one, a way goes through the modules before the Router, those of a route, and those behind it.
//! Ways that begin with the same tensors are of one *part* of the model, which has these tensors once.

use super::st_module::{MODULES, Module};
use super::st_router::Router;
use crate::LoadError;
use crate::json::Fields;
use crate::source::ModelFiles;
use serde_json::Value;

/// The ways of a model by the number of the task; the first is that of texts without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ways(pub(super) Vec<Way>);

/// Modules that texts go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// Empty for texts without one.
    pub(super) task: String,
    pub(super) modules: Vec<Module>,
    /// Index of the part; a part has an index after those of the ways before.
    pub(super) part: usize,
}

impl Ways {
    /// Reads `modules.json`; `None` where there is none.
    ///
    /// # Errors
    /// The file is malformed, or that of a Router is.
    pub(super) fn read(files: &ModelFiles) -> Result<Option<Self>, LoadError> {
        let Some(modules) = files.json_at(MODULES)? else { return Ok(None) };
        let Value::Array(modules) = modules else {
            return Err(LoadError::invalid(MODULES, "must be a list of modules"));
        };
        let module = |module: &Value| {
            let fields = Fields::new(MODULES, module)?;
            Ok(Module::new(fields.required("type")?, &fields.or("path", String::new())?))
        };
        let modules: Vec<Module> = modules.iter().map(module).collect::<Result<_, LoadError>>()?;
        let Some(place) = modules.iter().position(Module::is_router) else {
            return Ok(Some(Self(vec![Way { task: String::new(), modules, part: 0 }])));
        };
        let router = Router::read(files, &modules[place].path)?;
        let mut ways: Vec<Way> = Vec::new();
        for task in std::iter::once(None).chain(router.tasks().into_iter().map(Some)) {
            let Some(route) = router.modules(task) else { continue };
            let modules = [&modules[..place], route, &modules[place + 1..]].concat();
            let next = ways.iter().map(|way| way.part + 1).max().unwrap_or(0);
            let part = ways.iter().find(|way| begin_alike(&way.modules, &modules)).map_or(next, |way| way.part);
            ways.push(Way { task: task.unwrap_or_default().to_owned(), modules, part });
        }
        Ok(Some(Self(ways)))
    }

    /// The folder of the tensors of each part; `None` for a model of one part whose files are at the top.
    pub(super) fn folders(&self) -> Option<Vec<String>> {
        let mut folders: Vec<String> = Vec::new();
        for way in &self.0 {
            if way.part == folders.len() {
                folders.push(way.modules.first().map(|module| module.path.clone()).unwrap_or_default());
            }
        }
        let is_plain = self.0.len() == 1 || folders.len() == 1 && folders[0].is_empty();
        (!is_plain).then_some(folders)
    }
}

impl Way {
    /// `true` if the vectors at its end have unit length; nothing else may stand behind a Normalize.
    pub(super) fn normalizes(&self) -> bool {
        self.modules.last().is_some_and(|module| module.class_name() == Some("Normalize"))
    }
}

/// `true` for ways that have their tensors in common: the same Transformer with the same Pooling, or the same table of vectors.
fn begin_alike(one: &[Module], other: &[Module]) -> bool {
    let is_table = one.first().is_some_and(|module| module.class_name() == Some("StaticEmbedding"));
    one.first() == other.first() && (is_table || one.get(1) == other.get(1))
}
