//! Places of dense layers on the routes of a model: each place has a copy of the layer in memory.

use crate::LoadError;
use crate::source::ModelFiles;
use crate::source::modules::MODULES;
use std::collections::HashMap;

/// Limit of the places of a dense layer, in all models behind a Router together.
const MAX_PLACES: usize = 4;

/// Checks that no dense layer has many places; `folders` are those of all places. Folders that links lead to the same file are of one layer.
///
/// # Errors
/// One has.
pub(super) fn check<'a>(files: &ModelFiles, folders: impl Iterator<Item = &'a str>) -> Result<(), LoadError> {
    let mut layers: HashMap<_, (&str, usize)> = HashMap::new();
    for folder in folders {
        let file = files.file_of_tensors(folder);
        let layer = (file, file.map_or(folder, |_| ""));
        layers.entry(layer).or_insert((folder, 0)).1 += 1;
    }
    match layers.into_values().filter(|&(_, count)| count > MAX_PLACES).min() {
        None => Ok(()),
        Some((folder, count)) => {
            let what = format!("the Dense module in the folder \"{folder}\" in {count} places");
            Err(LoadError::unsupported(MODULES, what, format!("{MAX_PLACES} at most")))
        }
    }
}
