//! Download of a model's files from the Hugging Face hub into its usual cache.

mod folders;
pub(crate) mod inspect;
mod tensors;
mod verify;
mod watch;

use crate::LoadError;
use crate::disk;
use crate::formats::TensorFormat;
use crate::formats::gguf::has_gguf_extension;
use crate::json::parse_json;
use crate::options::HubModel;
use crate::source::modules::MODULES;
use crate::source::names::{SENTENCE_CONFIGS, check_inside, max_bytes};
use crate::source::tokenizer_files::{VOCABULARY_FILES, hint};
use hf_hub::repository::{HFRepository, ModelInfo, RepoTypeModel};
use hf_hub::{HFClient, HFError, split_id};
use prefold_core::without_credentials;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use watch::{Failure, Meter, follow, lock_model, wait_for_lock};

/// Optional files at the top of a repository.
const SMALL_FILES: [&str; 2] = [MODULES, "config_sentence_transformers.json"];
/// Optional files beside the tensors of a model or of a part of one.
const MODEL_FILES: [&str; 3] = [CONFIG, TOKENIZER, "tokenizer_config.json"];
const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
/// Name of the first request, for messages.
const LISTING: &str = "the list of files";
/// Branch if no revision is given.
const DEFAULT_REVISION: &str = "main";

/// Selection of a model's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSet {
    /// All files that a forward pass needs.
    All,
    /// Config and tokenizer of the texts without a task; a GGUF file is downloaded whole, and so is a table of vectors whose width no config has.
    WithoutWeights,
}

/// Downloads a model's files that are not in the cache, and returns their folder.
///
/// All files are of one commit, the weights last. If the hub cannot be reached, the cached commit of the revision is used.
/// Blocks; may be called from any thread.
///
/// # Errors
/// The repository or a required file is not available; the message names it and the cause.
pub(crate) fn download(model: &HubModel, dense_path: Option<&str>, files: FileSet) -> Result<PathBuf, LoadError> {
    blocking(model, async |download| download.run(dense_path, files).await)
}

/// Runs requests to the hub to their end.
fn blocking<T: Send>(
    model: &HubModel,
    requests: impl AsyncFnOnce(&Download<'_>) -> Result<T, LoadError> + Send,
) -> Result<T, LoadError> {
    // A thread of its own, because a runtime must not be started on a thread of another runtime.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| LoadError::io("the network (tokio runtime)", error))?;
            let outcome = runtime.block_on(async { requests(&Download::new(model)?).await });
            // Does not wait for name servers or locks of other processes.
            runtime.shutdown_background();
            outcome
        });
        thread.join().unwrap_or_else(|_| Err(LoadError::Options(format!("the download of {} panicked", model.id))))
    })
}

struct Download<'a> {
    model: &'a HubModel,
    client: HFClient,
    repository: HFRepository<RepoTypeModel>,
}

/// Commit and files of a repository, by the hub.
struct Listing {
    commit: String,
    files: BTreeSet<String>,
}

impl Listing {
    /// `true` if there is such a file in a folder, which ends with a slash or is empty for the top.
    fn has(&self, folder: &str, file: &str) -> bool {
        self.files.contains(&format!("{folder}{file}"))
    }
}

impl<'a> Download<'a> {
    fn new(model: &'a HubModel) -> Result<Self, LoadError> {
        let mut builder = HFClient::builder().user_agent(&model.user_agent);
        if let Some(token) = &model.token {
            builder = builder.token(token);
        }
        if let Some(endpoint) = &model.endpoint {
            builder = builder.endpoint(endpoint);
        }
        if let Some(cache_dir) = &model.cache_dir {
            builder = builder.cache_dir(cache_dir);
        }
        check_inside(model.revision.as_deref().unwrap_or(DEFAULT_REVISION))?;
        let endpoint = model.endpoint.as_deref().unwrap_or("the hub");
        let client = builder.build().map_err(|error| refusal(model, endpoint, LISTING, false, &error.to_string()))?;
        let (owner, name) = split_id(&model.id);
        let repository = client.model(owner, name);
        Ok(Self { model, client, repository })
    }

    async fn run(&self, dense_path: Option<&str>, files: FileSet) -> Result<PathBuf, LoadError> {
        if self.model.offline {
            return self.cached(None).await;
        }
        let info = self.repository.info().maybe_revision(self.model.revision.clone()).send();
        let meter = Meter::new(LISTING, u64::MAX, false);
        let listing = match follow(info, &meter, self.model.timeout).await {
            Ok(info) => self.listing(info)?,
            Err(failure) if failure.is_unreachable() => return self.cached(Some(failure)).await,
            Err(failure) => return Err(self.failed(LISTING, failure)),
        };
        let _lock = lock_model(self.client.cache_dir(), &self.model.id).await;
        let models = self.model_folders(&listing).await?;
        let snapshot = match models {
            // Not remembered: without the hub, a commit with its weights in the cache has priority.
            Some(models) if files == FileSet::WithoutWeights => {
                return self.summary_files(&listing, &models, dense_path).await;
            }
            Some(models) => self.tensor_files(&listing, &models, dense_path).await?,
            None => self.gguf(&listing).await?,
        };
        self.remember(&listing.commit, &snapshot);
        Ok(snapshot)
    }

    fn listing(&self, info: ModelInfo) -> Result<Listing, LoadError> {
        let files = info.siblings.unwrap_or_default().into_iter().map(|file| file.rfilename).collect();
        match info.sha {
            // Checked, because it becomes part of paths.
            Some(commit) if is_commit(&commit) => Ok(Listing { commit, files }),
            Some(other) => Err(self.error(LISTING, format!("the answer names the commit {other:.60?}, which is none"))),
            None => Err(self.error(LISTING, "the answer does not name the commit".to_owned())),
        }
    }

    /// The cached commit of the revision. `unreachable` is the failure of the hub, absent in offline mode.
    async fn cached(&self, unreachable: Option<Failure>) -> Result<PathBuf, LoadError> {
        let revision = self.model.revision.clone();
        let snapshot = self.repository.snapshot_download().maybe_revision(revision).local_files_only(true).send().await;
        match (snapshot, unreachable) {
            (Ok(snapshot), None) => Ok(snapshot),
            (Ok(snapshot), Some(cause)) => {
                let id = &self.model.id;
                tracing::warn!("the hub cannot be reached, {id} is taken from the cache as it is: {cause}");
                Ok(snapshot)
            }
            (Err(_), cause) => {
                let cache = self.client.cache_dir().display();
                let problem = match cause {
                    None => format!("{cache} does not have it, and the hub is not asked (--offline, HF_HUB_OFFLINE)"),
                    Some(cause) => format!("the hub cannot be reached and {cache} does not have it: {cause}"),
                };
                Err(self.error(LISTING, problem))
            }
        }
    }

    /// Fetches the small files at the top and in the folders of the model's tensors, and returns the folder of all.
    ///
    /// # Errors
    /// There is no tokenizer, which is seen before anything is fetched, or a download fails.
    async fn small_files(&self, listing: &Listing, models: &[String]) -> Result<PathBuf, LoadError> {
        models.iter().try_for_each(|folder| self.require_tokenizer(listing, folder))?;
        let of_model = |folder: &str| -> Vec<String> {
            let vocabulary = VOCABULARY_FILES.into_iter().filter(|_| !listing.has(folder, TOKENIZER));
            MODEL_FILES
                .into_iter()
                .chain(SENTENCE_CONFIGS)
                .chain(vocabulary)
                .map(|file| format!("{folder}{file}"))
                .collect()
        };
        let folders = models.iter().map(String::as_str).filter(|folder| !folder.is_empty());
        let files = of_model("").into_iter().chain(SMALL_FILES.map(str::to_owned)).chain(folders.flat_map(of_model));
        let mut snapshot = PathBuf::new();
        for file in files.filter(|file| listing.files.contains(file)) {
            snapshot = self.fetch(listing, &file).await?;
        }
        Ok(snapshot)
    }

    async fn gguf(&self, listing: &Listing) -> Result<PathBuf, LoadError> {
        let files: Vec<_> = listing.files.iter().filter(|file| has_gguf_extension(Path::new(file))).collect();
        match files.as_slice() {
            [] => Err(self.lacks("config.json", "the repository has no such file")),
            [file] if !file.contains('/') => {
                self.small_files(listing, &[]).await?;
                self.fetch(listing, file).await
            }
            several => {
                let names: Vec<_> = several.iter().map(|file| file.as_str()).collect();
                let problem = format!(
                    "the repository has no config.json and not one .gguf file at its top but {}; \
                     download the one you want and give its path",
                    names.join(", ")
                );
                Err(self.error("the model", problem))
            }
        }
    }

    /// Downloads a file unless it is in the cache, and returns the folder of the commit's files. A file that fails
    /// verification is removed; if it came from the cache, it is downloaded again.
    async fn fetch(&self, listing: &Listing, file: &str) -> Result<PathBuf, LoadError> {
        loop {
            let is_json = file.ends_with(".json");
            let max_bytes = if is_json { max_bytes(file) } else { u64::MAX };
            let meter = Arc::new(Meter::new(file, max_bytes, self.model.show_progress));
            let request = self.repository.download_file().filename(file).revision(&listing.commit);
            let request = request.progress(Arc::clone(&meter)).send();
            let result = follow(request, &meter, self.model.timeout).await;
            meter.finish();
            let path = match result {
                Ok(path) => path,
                Err(Failure::Client(HFError::CacheLockTimeout { path: lock })) => {
                    tracing::info!(file, "another process is downloading it into the same cache; waiting for that");
                    wait_for_lock(&lock, self.model.timeout).await.map_err(|failure| self.failed(file, failure))?;
                    continue;
                }
                Err(failure) => return Err(self.failed(file, failure)),
            };
            let folder = path.ancestors().nth(Path::new(file).components().count()).unwrap_or(Path::new(""));
            if !folder.ends_with(&listing.commit) {
                return Err(self.error(file, format!("it came from another commit than {}", listing.commit)));
            }
            // The client keeps every body, even an error page of a storage server.
            let Err(problem) = verify::check(&path, file, meter.announced()) else { return Ok(folder.to_owned()) };
            let removed = verify::discard(&path, folder);
            match (meter.was_requested(), removed) {
                (false, Ok(())) => tracing::warn!("{}: {problem}; downloading it anew", path.display()),
                (true, Ok(())) => return Err(self.error(file, format!("{problem}; it was not kept, try again"))),
                (_, Err(error)) => {
                    let problem = format!("{problem}; remove {}, which failed here: {error}", path.display());
                    return Err(self.error(file, problem));
                }
            }
        }
    }

    /// Stores the commit of a branch or tag in the cache's own layout, so that it is found without the hub. Called when all
    /// files are present; before, the cache keeps the previous commit.
    fn remember(&self, commit: &str, snapshot: &Path) {
        let revision = self.model.revision.as_deref().unwrap_or(DEFAULT_REVISION);
        let Some(repository) = snapshot.parent().and_then(Path::parent) else { return };
        let file = repository.join("refs").join(revision);
        let parent = file.parent().unwrap_or(repository);
        // Renamed into place, so that a full disk or a crash leaves the old commit.
        let written = parent.join(format!(".{}", std::process::id()));
        let write = || {
            fs::create_dir_all(parent)?;
            fs::write(&written, commit).and_then(|()| fs::rename(&written, &file)).inspect_err(|_| {
                let _ = fs::remove_file(&written);
            })
        };
        if revision != commit
            && let Err(error) = write()
        {
            tracing::warn!("{}: {error}; the model will not be found without the hub", file.display());
        }
    }

    fn require(&self, listing: &Listing, file: &str) -> Result<(), LoadError> {
        match listing.files.contains(file) {
            true => Ok(()),
            false => Err(self.lacks(file, "the repository has no such file")),
        }
    }

    /// Refuses a repository without a tokenizer before anything is downloaded.
    fn require_tokenizer(&self, listing: &Listing, folder: &str) -> Result<(), LoadError> {
        if listing.has(folder, TOKENIZER) || listing.has(folder, VOCABULARY_FILES[0]) {
            return Ok(());
        }
        let hint = hint(|file| Ok(listing.has(folder, file)))?;
        Err(self.lacks(&format!("{folder}{TOKENIZER}"), &format!("the repository has no such file{hint}")))
    }

    fn no_weights(&self, folder: &str) -> LoadError {
        let [preferred, other] = TensorFormat::ALL.map(TensorFormat::single);
        self.lacks(&format!("{folder}{preferred}"), &format!("the repository has no such file, nor {other}"))
    }

    fn failed(&self, file: &str, failure: Failure) -> LoadError {
        let error = match &failure {
            Failure::Client(error) => error,
            other => return self.error(file, other.to_string()),
        };
        let problem = match error {
            HFError::AuthRequired { .. } | HFError::Forbidden { .. } if self.model.token.is_some() => {
                "access denied: the repository does not exist, or the token's account has no access to it \
                 (is there a license to accept?)"
                    .to_owned()
            }
            HFError::AuthRequired { .. } | HFError::Forbidden { .. } => {
                "access denied: the repository does not exist, or is private or gated; for those, give a token (HF_TOKEN)"
                    .to_owned()
            }
            HFError::RepoNotFound { .. } => "there is no such repository".to_owned(),
            HFError::RevisionNotFound { .. } => "there is no such repository or revision".to_owned(),
            HFError::EntryNotFound { .. } => "the repository has no such file".to_owned(),
            HFError::Io(error) => {
                let cache = self.client.cache_dir().display();
                format!("it cannot be written to the cache {cache} (--huggingface-hub-cache): {error}")
            }
            // The source's type is private to the client.
            HFError::Xet { .. } if failure.to_string().contains("I/O error") => format!(
                "{failure}; the hub's storage client keeps files of its own in HF_XET_CACHE, or else `xet` in HF_HOME, which \
                 must be a folder that can be written"
            ),
            _ => failure.to_string(),
        };
        self.error(file, problem)
    }

    /// A failure to get a file.
    fn error(&self, file: &str, problem: String) -> LoadError {
        refusal(self.model, self.client.endpoint(), file, false, &problem)
    }

    /// A file that the repository does not have.
    fn lacks(&self, file: &str, problem: &str) -> LoadError {
        refusal(self.model, self.client.endpoint(), file, true, problem)
    }
}

fn refusal(model: &HubModel, endpoint: &str, file: &str, is_seen: bool, problem: &str) -> LoadError {
    LoadError::Hub {
        model: model.id.clone(),
        revision: model.revision.clone().unwrap_or_else(|| DEFAULT_REVISION.to_owned()),
        endpoint: without_credentials(endpoint).into(),
        file: file.to_owned(),
        is_seen,
        problem: without_credentials(problem),
    }
}

fn read_json(folder: &Path, name: &str) -> Result<Option<Value>, LoadError> {
    let bytes = disk::read(&folder.join(name), max_bytes(name))?;
    bytes.map(|bytes| parse_json(name, &bytes)).transpose()
}

/// `true` for the name of a commit.
fn is_commit(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
