//! Modules of sentence-transformers that the options or the class of a model override.

use crate::error::LoadError;
use crate::json::shown;
use crate::source::ModelFiles;
use crate::source::modules::Module;
use crate::source::modules::ways::Ways;

/// Maximum number of names in a warning.
const MAX_NAMES: usize = 8;

/// A warning that the options override a module list that `error` refuses. It names the ignored modules whose computation is lost: all but
/// Transformer, Pooling and Normalize.
pub(super) fn warning(files: &ModelFiles, reason: &str, error: &LoadError) -> String {
    match named(files, &["Transformer", "Pooling", "Normalize"]) {
        None => format!("the model's modules are ignored because {reason}: {error}"),
        Some(named) => {
            format!("modules are ignored because {reason}: {named}; the model was trained with them, so outputs differ")
        }
    }
}

/// A warning that a classifier, whose class is `class`, is served without the modules in its folder; `None` without such modules.
pub(super) fn of_classifier(files: &ModelFiles, class: &str) -> Option<String> {
    let named = named(files, &["Transformer"])?;
    Some(format!(
        "the model is served as the classifier {class}, without its modules: {named}; --task embed serves embeddings with them"
    ))
}

/// The classes of the modules that are not among `known`; `None` if there are none.
fn named(files: &ModelFiles, known: &[&str]) -> Option<String> {
    let Ways(ways) = Ways::read(files).ok().flatten().unwrap_or(Ways(vec![]));
    let mut names: Vec<&str> = Vec::new();
    for name in ways.iter().flat_map(|way| &way.modules).map(Module::short_class) {
        if !names.contains(&name) && !known.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MAX_NAMES);
    let mut named: Vec<String> = names.iter().take(MAX_NAMES).map(|&name| shown(&name.into())).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    (!named.is_empty()).then(|| named.join(", "))
}
