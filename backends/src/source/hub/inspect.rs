//! Facts about a model on the hub, read without its weights.

use super::body::start;
use super::failure::Failure;
use super::resume::Answer;
use super::watch::{Kind, Meter, follow, lock_model};
use super::{Download, FileSet, Listing, blocking, is_adapter, read_json};
use crate::error::LoadError;
use crate::formats::gguf::has_gguf_extension;
use crate::formats::{TensorFormat, lora, safetensors};
use crate::options::HubModel;
use crate::source::licence::Licence;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file's name and its first bytes, up to the end of the header.
type Head = (String, Vec<u8>);

/// Facts about a model on the hub.
#[derive(Debug, Clone)]
pub(crate) struct Remote {
    /// Heads of the tensor files by folder, empty for the top. A folder is absent if its format has no header that can be read alone.
    pub(crate) heads: Arc<BTreeMap<String, Vec<Head>>>,
    /// The licence in the model card.
    pub(crate) licence: Licence,
}

/// Downloads a model's small files, reads its tensor headers, and returns the files' folder and the facts. Without the hub, the folder is
/// the cached one, and there are no facts.
///
/// # Errors
/// As for [`download`].
pub(crate) fn inspect(model: &HubModel, dense_path: Option<&str>) -> Result<(PathBuf, Option<Remote>), LoadError> {
    blocking(model, async |download| download.inspect(dense_path).await)
}

impl Download<'_> {
    /// The small files, the headers of the tensors and the licence.
    async fn inspect(&self, dense_path: Option<&str>) -> Result<(PathBuf, Option<Remote>), LoadError> {
        if self.model.offline {
            return Ok((self.offline()?, None));
        }
        let (failure, current) = match self.list().await {
            Err(failure) => (failure, None),
            Ok(listing) => {
                let _lock = lock_model(&self.cache, &self.model.id).await;
                match self.look(&listing, dense_path).await.inspect_err(|_| self.cache.prune()) {
                    Ok((snapshot, remote)) => return Ok((snapshot, Some(remote))),
                    Err(failure) => (failure, Some(listing.commit)),
                }
            }
        };
        Ok((self.instead(failure, current.as_deref(), dense_path, FileSet::All).await?, None))
    }

    async fn look(&self, listing: &Listing, dense_path: Option<&str>) -> Result<(PathBuf, Remote), LoadError> {
        let models = self.model_folders(listing).await?;
        if is_adapter(listing, models.as_deref()) {
            let problem = "a LoRA adapter is checked after its download, which a start does: give its path then";
            return Err(self.error(lora::CONFIG, problem.to_owned()));
        }
        let Some(models) = models else {
            let gguf = listing.files.iter().any(|file| has_gguf_extension(Path::new(file)));
            const PROBLEM: &str = "the repository has no such file";
            return Err(if gguf {
                let hint = "a GGUF file can be checked only after its download: give its path";
                self.error("config.json", format!("{PROBLEM}; {hint}"))
            } else {
                self.lacks("config.json", PROBLEM)
            });
        };
        let snapshot = self.small_files(listing, &models).await?;
        let is_json = |name: &str| name.ends_with(".json") && !name.contains('/');
        self.module_files(listing, &models, dense_path, is_json).await?;
        let mut heads = BTreeMap::new();
        for folder in &models {
            if let Some(of_folder) = self.heads(listing, &snapshot, folder).await? {
                heads.insert(folder.trim_end_matches('/').to_owned(), of_folder);
            }
        }
        Ok((snapshot, Remote { heads: Arc::new(heads), licence: listing.licence.clone() }))
    }

    /// Names and first bytes of the safetensors files in a folder; `None` if the tensors have another format.
    async fn heads(&self, listing: &Listing, snapshot: &Path, folder: &str) -> Result<Option<Vec<Head>>, LoadError> {
        let [single, index] = [TensorFormat::Safetensors.single(), TensorFormat::Safetensors.index()]
            .map(|file| format!("{folder}{file}"));
        let files: BTreeSet<String> = if listing.files.contains(&single) {
            BTreeSet::from([single])
        } else if listing.files.contains(&index) {
            self.fetch(listing, &index).await?;
            let json = read_json(snapshot, &index)?.unwrap_or_default();
            let shards = TensorFormat::Safetensors.weight_map(&json)?.into_values();
            shards.map(|shard| format!("{folder}{shard}")).collect()
        } else if listing.has(folder, TensorFormat::Pytorch.single())
            || listing.has(folder, TensorFormat::Pytorch.index())
        {
            return Ok(None);
        } else {
            return Err(self.no_weights(listing, folder).await);
        };
        let mut heads = Vec::new();
        for file in files {
            self.require(listing, &file)?;
            let length = self.first_bytes(listing, &file, 8).await?;
            let length = length.first_chunk().copied().ok_or_else(|| self.lacks(&file, "it is empty"))?;
            let end = safetensors::header_end(&file, length)?;
            self.spent.add_header(end).map_err(|failure| self.failed(&file, failure))?;
            let head = self.first_bytes(listing, &file, end).await?;
            heads.push((file, head));
        }
        Ok(Some(heads))
    }

    /// The first bytes of a file.
    async fn first_bytes(&self, listing: &Listing, file: &str, length: u64) -> Result<Vec<u8>, LoadError> {
        let meter = Meter::new(file, false);
        let request = async {
            let url = self.file_url(&listing.commit, file);
            let mut answer = Answer::open(&self.client, url, Some(length), &meter).await?;
            // A hub without support for ranges sends the whole file.
            let bytes = start(&mut answer, length, |bytes| meter.set_completed(bytes)).await?;
            if bytes.len() as u64 == length {
                Ok(bytes)
            } else {
                Err(Failure::Answer(format!("{length} bytes were requested and {} were received", bytes.len())))
            }
        };
        let bytes = follow(request, &meter, self.model.timeout, Kind::Small).await;
        bytes.map_err(|failure| self.failed(file, failure))
    }
}
