//! Download of a model's files from the Hugging Face hub into its usual cache.

mod body;
mod cache;
mod cached;
mod client;
mod defaults;
mod failure;
mod fetch;
mod folders;
pub(crate) mod inspect;
mod listing;
mod place;
mod resume;
mod retry;
mod spent;
mod tensors;
mod verify;
mod watch;
mod xet;

use crate::disk;
use crate::error::LoadError;
use crate::error::printable;
use crate::formats::gguf::has_gguf_extension;
use crate::formats::lora;
use crate::json::parse_json;
use crate::options::HubModel;
use crate::source::modules::MODULES;
use crate::source::names::{SENTENCE_CONFIGS, check_inside, max_bytes};
use crate::source::tokenizer_files::{ADDED_TOKENS, CHAT_TEMPLATE, SPECIAL_TOKENS, VOCABULARY, hint};
use cache::Cache;
use client::Client;
use failure::Failure;
use listing::{Listing, MAX_LISTING_BYTES};
use prefold_core::without_credentials;
use reqwest::Url;
use resume::Answer;
use serde_json::Value;
use spent::Spent;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use watch::{Kind, Meter, follow, lock_model};

/// Optional files at the top of a repository.
const SMALL_FILES: [&str; 2] = [MODULES, "config_sentence_transformers.json"];
/// Optional files in the folder of a model's or sub-model's tensors.
const MODEL_FILES: [&str; 7] =
    [CONFIG, TOKENIZER, "tokenizer_config.json", SPECIAL_TOKENS, ADDED_TOKENS, CHAT_TEMPLATE, lora::CONFIG];
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
    /// Config and tokenizer for texts without a task. A GGUF file is downloaded whole, and so are static embeddings without a config.
    WithoutWeights,
}

/// Downloads a model's files that are not in the cache, and returns their folder.
///
/// All files are of one commit; weights come last. If the download fails, the cached commit of the revision is used, unless the hub says
/// that the repository or revision does not exist, lacks a file or is not open to this account.
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
            // Without waiting for name servers or locks of other processes.
            runtime.shutdown_background();
            outcome
        });
        thread.join().unwrap_or_else(|_| Err(LoadError::Options(format!("the download of {} panicked", model.id))))
    })
}

/// `true` for a LoRA adapter at the top of a repository, whose base is another model even if the repository has weights of its own.
fn is_adapter(listing: &Listing, models: Option<&[String]>) -> bool {
    listing.has("", lora::CONFIG) && models.is_none_or(|folders| folders.iter().all(String::is_empty))
}

struct Download<'a> {
    model: &'a HubModel,
    endpoint: String,
    client: Client,
    cache: Cache,
    spent: Spent,
    /// The hub said that the repository or revision does not exist, or that access is denied.
    is_verdict: Cell<bool>,
}

impl<'a> Download<'a> {
    fn new(model: &'a HubModel) -> Result<Self, LoadError> {
        check_inside(model.revision.as_deref().unwrap_or(DEFAULT_REVISION))?;
        let endpoint = defaults::endpoint(model);
        let client = Client::new(model, &endpoint, defaults::token(model).as_deref())
            .map_err(|problem| refusal(model, &endpoint, LISTING, false, &problem))?;
        let cache = Cache::new(defaults::cache_dir(model), &model.id);
        Ok(Self { model, endpoint, client, cache, spent: Spent::default(), is_verdict: Cell::default() })
    }

    async fn run(&self, dense_path: Option<&str>, files: FileSet) -> Result<PathBuf, LoadError> {
        if self.model.offline {
            return self.offline();
        }
        let listing = match self.list().await {
            Ok(listing) => listing,
            Err(failure) => return self.instead(failure, None, dense_path, files).await,
        };
        let lock = lock_model(&self.cache, &self.model.id).await;
        let got = self.get(&listing, dense_path, files).await.inspect_err(|_| self.cache.prune());
        drop(lock);
        match got {
            Err(failure) => self.instead(failure, Some(&listing.commit), dense_path, files).await,
            got => got,
        }
    }

    async fn get(&self, listing: &Listing, dense_path: Option<&str>, files: FileSet) -> Result<PathBuf, LoadError> {
        let models = self.model_folders(listing).await?;
        let is_adapter = is_adapter(listing, models.as_deref());
        let snapshot = match models {
            _ if is_adapter => self.adapter(listing, dense_path).await?,
            // The commit is not remembered: without the hub, a cached commit with weights has priority.
            Some(models) if files == FileSet::WithoutWeights => {
                return self.summary_files(listing, &models, dense_path).await;
            }
            Some(models) => self.tensor_files(listing, &models, dense_path).await?,
            None => self.gguf(listing).await?,
        };
        if !listing.is_cached {
            self.cache.remember(self.revision(), &listing.commit);
        }
        Ok(snapshot)
    }

    /// Asks the hub for the list of files.
    async fn list(&self) -> Result<Listing, LoadError> {
        let meter = Meter::new(LISTING, false);
        let url = match &self.model.revision {
            Some(revision) => self.url(["api", "models"], ["revision", revision]),
            None => self.url(["api", "models"], []),
        };
        let request = async {
            let answer = Answer::open(&self.client, url, None, &meter).await?;
            let answer = answer.whole(MAX_LISTING_BYTES, |bytes| meter.set_completed(bytes)).await?;
            Listing::parse(&answer)
        };
        follow(request, &meter, self.model.timeout, Kind::Small).await.map_err(|failure| self.failed(LISTING, failure))
    }

    /// A URL of the hub: path segments before and after the model's id.
    fn url<'u>(&'u self, before: impl IntoIterator<Item = &'u str>, after: impl IntoIterator<Item = &'u str>) -> Url {
        self.client.url(before.into_iter().chain(self.model.id.split('/')).chain(after))
    }

    fn revision(&self) -> &str {
        self.model.revision.as_deref().unwrap_or(DEFAULT_REVISION)
    }

    /// Fetches the small files at the top and in the folders of the model's tensors, and returns the folder of all.
    ///
    /// # Errors
    /// There is no tokenizer, which is checked before any download, or a download fails.
    async fn small_files(&self, listing: &Listing, models: &[String]) -> Result<PathBuf, LoadError> {
        models.iter().try_for_each(|folder| self.require_tokenizer(listing, folder))?;
        self.optional_files(listing, models).await
    }

    /// The same without a check.
    async fn optional_files(&self, listing: &Listing, models: &[String]) -> Result<PathBuf, LoadError> {
        let of_model = |folder: &str| -> Vec<String> {
            let vocabulary = [VOCABULARY].into_iter().filter(|_| !listing.has(folder, TOKENIZER));
            MODEL_FILES
                .into_iter()
                .chain(SENTENCE_CONFIGS)
                .chain(vocabulary)
                .map(|file| format!("{folder}{file}"))
                .collect()
        };
        let folders = models.iter().map(String::as_str).filter(|folder| !folder.is_empty());
        let of_tasks = listing.folders_of_tasks().into_iter().map(|folder| format!("{folder}{}", lora::CONFIG));
        let files = of_model("").into_iter().chain(SMALL_FILES.map(str::to_owned)).chain(folders.flat_map(of_model));
        let files = files.chain(of_tasks);
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
                    "the repository has neither a config.json nor exactly one .gguf file at the top level, but {}; \
                     download the file you want and give its path",
                    names.join(", ")
                );
                Err(self.error("the model", problem))
            }
        }
    }

    fn require(&self, listing: &Listing, file: &str) -> Result<(), LoadError> {
        if listing.files.contains(file) { Ok(()) } else { Err(self.lacks(file, "the repository has no such file")) }
    }

    /// Refuses a repository without a tokenizer before anything is downloaded.
    fn require_tokenizer(&self, listing: &Listing, folder: &str) -> Result<(), LoadError> {
        if listing.has(folder, TOKENIZER) || listing.has(folder, VOCABULARY) {
            return Ok(());
        }
        let hint = hint(|file| Ok(listing.has(folder, file)))?;
        Err(self.lacks(&format!("{folder}{TOKENIZER}"), &format!("the repository has no such file{hint}")))
    }

    fn failed(&self, file: &str, failure: Failure) -> LoadError {
        if failure.is_verdict() {
            self.is_verdict.set(true);
        }
        let problem = match &failure {
            Failure::Status { status: 401 | 403, is_hub: true, .. } if self.client.has_token() => format!(
                "access denied ({failure}): the repository does not exist, the token is invalid or expired, or the token's account \
                 has no access (is there a license to accept?)"
            ),
            Failure::Status { status: 401 | 403, is_hub: true, .. } => format!(
                "access denied ({failure}): the repository does not exist, or is private or gated; for those, give a token (HF_TOKEN)"
            ),
            Failure::Status { status: 404, is_hub: true, .. } => match (file == LISTING, &self.model.revision) {
                (false, _) => "the repository has no such file".to_owned(),
                (true, None) => "there is no such repository".to_owned(),
                (true, Some(_)) => "there is no such repository or revision".to_owned(),
            },
            Failure::Cache(error) => {
                let cache = self.cache.root().display();
                format!("it cannot be written to the cache {cache} (--huggingface-hub-cache): {error}")
            }
            Failure::Xet(problem) if problem.contains("I/O error") => format!(
                "{failure}; the hub's storage client keeps its own files in HF_XET_CACHE, by default `xet` in HF_HOME, which must be \
                 a writable directory"
            ),
            _ if file == LISTING && failure.is_unreachable() => format!("the hub cannot be reached: {failure}"),
            _ => failure.to_string(),
        };
        self.error(file, problem)
    }

    /// The error of a failed download.
    fn error(&self, file: &str, problem: String) -> LoadError {
        refusal(self.model, &self.endpoint, file, false, &problem)
    }

    /// The error for a file that the repository does not have.
    fn lacks(&self, file: &str, problem: &str) -> LoadError {
        refusal(self.model, &self.endpoint, file, true, problem)
    }
}

fn refusal(model: &HubModel, endpoint: &str, file: &str, is_seen: bool, problem: &str) -> LoadError {
    LoadError::Hub {
        model: model.id.clone(),
        revision: model.revision.clone().unwrap_or_else(|| DEFAULT_REVISION.to_owned()),
        endpoint: without_credentials(endpoint).into(),
        file: printable(file),
        is_seen,
        problem: printable(without_credentials(problem)),
    }
}

fn read_json(folder: &Path, name: &str) -> Result<Option<Value>, LoadError> {
    let bytes = disk::read(&folder.join(name), max_bytes(name))?;
    bytes.map(|bytes| parse_json(name, &bytes)).transpose()
}
