//! A module of sentence-transformers.

use crate::source::names::module_folder;

/// The list of a model's modules.
pub(super) const MODULES: &str = "modules.json";
/// Prefix of the class names of sentence-transformers.
pub(super) const LIBRARY: &str = "sentence_transformers.";

/// A module as `modules.json` or a Router lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Module {
    pub(super) class: String,
    /// Folder; empty for the top.
    pub(super) path: String,
}

impl Module {
    pub(super) fn new(class: String, path: &str) -> Self {
        Self { class, path: module_folder(path).to_owned() }
    }

    /// The name of a class of sentence-transformers, without its module.
    pub(super) fn class_name(&self) -> Option<&str> {
        self.class.strip_prefix(LIBRARY)?.rsplit('.').next()
    }

    /// `true` if it sends texts through the modules of their task.
    pub(super) fn is_router(&self) -> bool {
        matches!(self.class_name(), Some("Router" | "Asym"))
    }
}
