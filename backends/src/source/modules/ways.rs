//! The ways of texts through a model: for each task, the modules that its texts go through, one after another.
//!
//! A model without a Router has one way. With a Router, a way goes through the modules before it, the modules of a route, and the modules
//! after it. Ways that begin with the same tensors and the same pooling belong to one *sub-model*.

use super::router::{RouteName, Router};
use super::{ListFiles, Module};
use crate::error::LoadError;

/// The ways of a model by the number of the task; number 0 is for texts without a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ways(pub(crate) Vec<Way>);

/// Modules that texts go through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The task; empty for texts without one.
    pub(crate) task: String,
    /// The route that the task leads to; `None` in a model without a Router.
    pub(crate) route: Option<RouteName>,
    pub(crate) modules: Vec<Module>,
    /// Index of the sub-model; sub-models are numbered in the order of their first way.
    pub(crate) sub_model: usize,
}

impl Ways {
    /// Reads `modules.json`; `None` where there is none.
    ///
    /// # Errors
    /// The file or the config of a Router is malformed.
    pub(crate) fn read(files: &dyn ListFiles) -> Result<Option<Self>, LoadError> {
        let Some(modules) = Module::list(files)? else { return Ok(None) };
        let Some(place) = modules.iter().position(Module::is_router) else {
            return Ok(Some(Self(vec![Way { task: String::new(), route: None, modules, sub_model: 0 }])));
        };
        let router = Router::read(files, &modules[place].path)?;
        let mut ways: Vec<Way> = Vec::new();
        for task in std::iter::once(None).chain(router.tasks().into_iter().map(Some)) {
            let Some((route, inside)) = router.route(task) else { continue };
            let modules = [&modules[..place], inside, &modules[place + 1..]].concat();
            let next = ways.iter().map(|way| way.sub_model + 1).max().unwrap_or(0);
            let sub_model =
                ways.iter().find(|way| begin_alike(&way.modules, &modules)).map_or(next, |way| way.sub_model);
            ways.push(Way { task: task.unwrap_or_default().to_owned(), route: Some(route), modules, sub_model });
        }
        Ok(Some(Self(ways)))
    }

    /// The first way of each sub-model.
    pub(crate) fn sub_models(&self) -> impl Iterator<Item = &Way> {
        (0..).map_while(|sub_model| self.0.iter().find(|way| way.sub_model == sub_model))
    }

    /// `true` for a single model whose files are at the top.
    pub(crate) fn is_plain(&self) -> bool {
        let mut sub_models = self.sub_models();
        // The table of static embeddings is in a folder, the other files are at the top.
        let is_top = |way: &Way| way.folder().is_empty() || self.0.len() == 1 && !way.has_transformer();
        sub_models.next().is_none_or(is_top) && sub_models.next().is_none()
    }
}

impl Way {
    /// The folder of the tensors; empty for the top.
    pub(crate) fn folder(&self) -> &str {
        self.modules.first().map_or("", |module| &module.path)
    }

    /// `true` if the way begins with a Transformer; sentence-transformers 0 and 1 saved it in a folder.
    pub(crate) fn has_transformer(&self) -> bool {
        self.modules.first().is_some_and(|module| module.short_class() == "Transformer")
    }

    /// `true` if the way ends with a Normalize, so that its vectors have unit length.
    pub(crate) fn normalizes(&self) -> bool {
        let effective = self.modules.iter().rfind(|module| module.short_class() != "Dropout");
        effective.is_some_and(|module| module.short_class() == "Normalize")
    }
}

/// `true` for ways of one sub-model: the same static embeddings, or the same Transformer with the same Pooling or with its own pooler.
fn begin_alike(one: &[Module], other: &[Module]) -> bool {
    let is_table = one.first().is_some_and(|module| module.library_class() == Some("StaticEmbedding"));
    one.first() == other.first() && (is_table || pooling(one) == pooling(other))
}

/// The module that pools a text's states.
fn pooling(modules: &[Module]) -> Option<&Module> {
    modules.get(1).filter(|module| matches!(module.library_class(), Some("Pooling" | "LogitScore")))
}
