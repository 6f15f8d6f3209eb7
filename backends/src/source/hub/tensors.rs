//! Downloads of models in named tensors.

use super::{CONFIG, Download, Listing, read_json};
use crate::error::LoadError;
use crate::formats::TensorFormat;
use crate::formats::lora;
use crate::source::other_formats;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

impl Download<'_> {
    /// Fetches a model whose tensors and tokenizers are in these folders.
    pub(super) async fn tensor_files(
        &self,
        listing: &Listing,
        models: &[String],
        dense_path: Option<&str>,
    ) -> Result<PathBuf, LoadError> {
        let mut formats = Vec::new();
        for folder in models {
            formats.push(self.format(listing, folder).await?);
        }
        let snapshot = self.small_files(listing, models).await?;
        self.module_files(listing, models, dense_path, is_module_file).await?;
        for folder in listing.folders_of_tasks() {
            self.adapter_tensors(listing, &folder).await?;
        }
        for (folder, format) in models.iter().zip(formats) {
            self.adapter_tensors(listing, folder).await?;
            self.tensors(listing, &snapshot, folder, format).await?;
        }
        Ok(snapshot)
    }

    /// Fetches a LoRA adapter, whose base is another repository.
    pub(super) async fn adapter(&self, listing: &Listing, dense_path: Option<&str>) -> Result<PathBuf, LoadError> {
        let top = [String::new()];
        let snapshot = self.optional_files(listing, &top).await?;
        self.module_files(listing, &top, dense_path, is_module_file).await?;
        self.adapter_tensors(listing, "").await?;
        Ok(snapshot)
    }

    /// Fetches the tensors of the LoRA adapter in a folder, if it has one.
    async fn adapter_tensors(&self, listing: &Listing, folder: &str) -> Result<(), LoadError> {
        let there = lora::TENSORS.iter().find(|(name, _)| listing.has(folder, name));
        match there.filter(|_| listing.has(folder, lora::CONFIG)) {
            Some((name, _)) => self.fetch(listing, &format!("{folder}{name}")).await.map(drop),
            None => Ok(()),
        }
    }

    /// Fetches the files for a summary of the model for texts without a task: no weights, unless only they have the embeddings' width.
    pub(super) async fn summary_files(
        &self,
        listing: &Listing,
        models: &[String],
        dense_path: Option<&str>,
    ) -> Result<PathBuf, LoadError> {
        let first = &models[..models.len().min(1)];
        let snapshot = self.small_files(listing, first).await?;
        self.module_files(listing, models, dense_path, |name| name == CONFIG).await?;
        for folder in first.iter().filter(|folder| !listing.has(folder, CONFIG)) {
            self.tensors(listing, &snapshot, folder, self.format(listing, folder).await?).await?;
        }
        Ok(snapshot)
    }

    /// The format of the tensors in a folder.
    async fn format(&self, listing: &Listing, folder: &str) -> Result<TensorFormat, LoadError> {
        let is_there =
            |format: &TensorFormat| listing.has(folder, format.single()) || listing.has(folder, format.index());
        match TensorFormat::ALL.into_iter().find(is_there) {
            Some(format) => Ok(format),
            None => Err(self.no_weights(listing, folder).await),
        }
    }

    /// The error for a folder without tensors, which names the file that only `config.json` names, or the files in other formats.
    pub(super) async fn no_weights(&self, listing: &Listing, folder: &str) -> LoadError {
        let [preferred, other] = TensorFormat::ALL.map(TensorFormat::single);
        let hint = match self.named_weights(listing, folder).await {
            Some(named) => {
                format!("{named}: download the repository, rename the file to {preferred} and give the folder's path")
            }
            None => other_formats::hint(listing.files.iter().filter_map(|file| file.strip_prefix(folder))),
        };
        self.lacks(&format!("{folder}{preferred}"), &format!("the repository has no such file, nor {other}{hint}"))
    }

    /// Clause of a message about the weights that `config.json` names.
    async fn named_weights(&self, listing: &Listing, folder: &str) -> Option<String> {
        let config = format!("{folder}{CONFIG}");
        // Only where a file may be those weights is anything downloaded in vain.
        let is_other = |file: &str| !file.contains('/') && (file.ends_with(".safetensors") || file.ends_with(".bin"));
        listing.files.iter().filter_map(|file| file.strip_prefix(folder)).find(|file| is_other(file))?;
        self.require(listing, &config).ok()?;
        let snapshot = self.fetch(listing, &config).await.ok()?;
        other_formats::named(&read_json(&snapshot, &config).ok()??)
    }

    /// Fetches the tensors in a folder.
    async fn tensors(
        &self,
        listing: &Listing,
        snapshot: &Path,
        folder: &str,
        format: TensorFormat,
    ) -> Result<(), LoadError> {
        if listing.has(folder, format.single()) {
            return self.fetch(listing, &format!("{folder}{}", format.single())).await.map(drop);
        }
        let index = format!("{folder}{}", format.index());
        self.fetch(listing, &index).await?;
        let shards: BTreeSet<String> = match read_json(snapshot, &index)? {
            Some(index) => format.weight_map(&index)?.into_values().collect(),
            None => BTreeSet::new(),
        };
        for shard in shards.iter().map(|shard| format!("{folder}{shard}")) {
            self.require(listing, &shard)?;
            self.fetch(listing, &shard).await?;
        }
        Ok(())
    }
}

/// `true` for a file in a module's folder that loading may read.
fn is_module_file(name: &str) -> bool {
    TensorFormat::ALL.iter().any(|format| name == format.single()) || (name.ends_with(".json") && !name.contains('/'))
}
