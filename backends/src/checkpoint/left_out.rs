//! Modules of sentence-transformers that the options leave out.

use crate::LoadError;
use crate::json::shown;
use crate::source::ModelFiles;
use crate::source::modules::Module;
use crate::source::modules::ways::Ways;

/// Names in a warning at most.
const MAX_NAMES: usize = 8;

/// A warning that modules are left out: the list of them is refused by `error`, and the options overrule it. Named are those whose work nothing
/// else does.
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
        [] => format!("the modules of the model are left out because {reason}: {error}"),
        named => {
            let named = named.join(", ");
            format!(
                "modules are left out because {reason}: {named}; answers are not those that the model was trained for"
            )
        }
    }
}
