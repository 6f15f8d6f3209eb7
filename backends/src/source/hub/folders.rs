//! Folders of a repository that have tensors or modules.

use super::{CONFIG, Download, Listing};
use crate::disk;
use crate::error::LoadError;
use crate::formats::TensorFormat;
use crate::source::modules::router::Router;
use crate::source::modules::ways::{Way, Ways};
use crate::source::modules::{ListFiles, MODULES, Module};
use crate::source::names::{check_inside, max_bytes};
use crate::source::tokenizer_files;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// The downloaded files that list the modules of a repository.
struct Lists<'a> {
    download: &'a Download<'a>,
    snapshot: PathBuf,
}

impl ListFiles for Lists<'_> {
    fn bytes(&self, path: &str) -> Result<Option<Cow<'static, [u8]>>, LoadError> {
        Ok(disk::read(&self.snapshot.join(check_inside(path)?), max_bytes(path))?.map(Cow::Owned))
    }

    fn not_there(&self, path: &str) -> LoadError {
        self.download.error(path, "the repository has no such file".to_owned())
    }
}

impl Download<'_> {
    /// The folders of tokenizers and tensors, each with a trailing slash, the folder for texts without a task first. It is the top (empty),
    /// the folder of static embeddings, or the folders of a leading Router's routes. `None` if the model has no files of named tensors.
    pub(super) async fn model_folders(&self, listing: &Listing) -> Result<Option<Vec<String>>, LoadError> {
        let has_config = listing.files.contains(CONFIG);
        let top = || has_config.then(|| vec![String::new()]);
        // Checked before anything is downloaded: each folder needs a tokenizer.
        let has_tokenizer = |file: &String| {
            let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
            (!has_config || !folder.is_empty()) && tokenizer_files::all().any(|known| name == known)
        };
        if !listing.files.iter().any(has_tokenizer) {
            return Ok(top());
        }
        let ways = match self.ways(listing).await? {
            // Options may override the list: then the model at the top runs.
            Err(_) if has_config => return Ok(top()),
            ways => ways?,
        };
        let mut folders: Vec<String> = Vec::new();
        for way in ways.iter().flat_map(Ways::sub_models) {
            let Some(first) = way.modules.first() else { continue };
            let is_table = first.library_class() == Some("StaticEmbedding");
            let folder = with_slash(way.folder());
            let is_routed = way.has_transformer() && (way.route.is_some() || !folder.is_empty());
            if (is_table || is_routed) && !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        Ok(if folders.is_empty() { top() } else { Some(folders) })
    }

    /// Fetches the files that list the modules, and reads the ways of texts through the model. The inner error is a malformed list.
    ///
    /// # Errors
    /// A download fails.
    async fn ways(&self, listing: &Listing) -> Result<Result<Option<Ways>, LoadError>, LoadError> {
        if !listing.files.contains(MODULES) {
            return Ok(Ok(None));
        }
        let lists = Lists { download: self, snapshot: self.fetch(listing, MODULES).await? };
        let modules = match Module::list(&lists) {
            Ok(modules) => modules.unwrap_or_default(),
            Err(error) => return Ok(Err(error)),
        };
        let router = modules.iter().find(|module| module.is_router());
        let mut configs = router.into_iter().flat_map(|router| Router::configs(&router.path));
        if let Some(config) = configs.find(|file| listing.files.contains(file)) {
            self.fetch(listing, &config).await?;
        }
        Ok(Ways::read(&lists))
    }

    /// Fetches the files in the modules' folders whose names `is_wanted` accepts. `models` are the folders of tensors, whose files are
    /// fetched elsewhere.
    pub(super) async fn module_files(
        &self,
        listing: &Listing,
        models: &[String],
        dense: Option<&str>,
        is_wanted: fn(&str) -> bool,
    ) -> Result<(), LoadError> {
        // A malformed list is reported when the model is read, unless options override it.
        let ways = self.ways(listing).await?.unwrap_or_default();
        let ways = ways.as_ref().map_or(&[][..], |Ways(ways)| ways);
        for prefix in folders(ways, dense)?.into_iter().filter(|folder| !models.contains(folder)) {
            // Only the weights of a module that will be read.
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

/// The folders of the modules that texts go through, and the folder in the options, each with a trailing slash.
///
/// # Errors
/// The folder in the options is outside the model's folder.
fn folders(ways: &[Way], dense: Option<&str>) -> Result<BTreeSet<String>, LoadError> {
    let of_modules = ways.iter().flat_map(|way| &way.modules).map(|module| module.path.as_str());
    let all = of_modules.chain(["1_Pooling"]).chain(dense).filter(|folder| !folder.is_empty());
    all.map(|folder| check_inside(folder).map(with_slash)).collect()
}

fn with_slash(folder: &str) -> String {
    if folder.is_empty() { String::new() } else { format!("{}/", folder.trim_end_matches('/')) }
}
