//! Modules of sentence-transformers that the options override.

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
    let Ways(ways) = Ways::read(files).ok().flatten().unwrap_or(Ways(vec![]));
    let mut names: Vec<&str> = Vec::new();
    for name in ways.iter().flat_map(|way| &way.modules).map(Module::short_class) {
        if !names.contains(&name) && !matches!(name, "Transformer" | "Pooling" | "Normalize") {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MAX_NAMES);
    let mut named: Vec<String> = names.iter().take(MAX_NAMES).map(|&name| shown(&name.into())).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    match named.as_slice() {
        [] => format!("the model's modules are ignored because {reason}: {error}"),
        named => {
            let named = named.join(", ");
            format!("modules are ignored because {reason}: {named}; the model was trained with them, so outputs differ")
        }
    }
}
