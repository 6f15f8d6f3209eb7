//! Limit on the uses of a dense layer in the routes of a model, because each use has a copy in memory.

use crate::error::LoadError;
use crate::source::ModelFiles;
use crate::source::modules::MODULES;
use std::collections::HashMap;

/// Maximum uses of a dense layer, in all sub-models of a Router together.
const MAX_USES: usize = 4;

/// Checks the number of uses of each dense layer; `folders` has the folder of each use. Folders with links to the same file are one layer.
///
/// # Errors
/// A layer has more than [`MAX_USES`] uses.
pub(crate) fn check<'a>(files: &ModelFiles, folders: impl Iterator<Item = &'a str>) -> Result<(), LoadError> {
    let mut layers: HashMap<_, (&str, usize)> = HashMap::new();
    for folder in folders {
        let file = files.file_of_tensors(folder);
        let layer = (file, file.map_or(folder, |_| ""));
        layers.entry(layer).or_insert((folder, 0)).1 += 1;
    }
    match layers.into_values().filter(|&(_, count)| count > MAX_USES).min() {
        None => Ok(()),
        Some((folder, count)) => {
            let what = format!("the Dense module in the folder \"{folder}\" in {count} places");
            Err(LoadError::unsupported(MODULES, what, format!("{MAX_USES} at most")))
        }
    }
}
