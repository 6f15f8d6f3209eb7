//! Download of a model's files from the Hugging Face hub into its usual cache.

use crate::LoadError;
use crate::files::{WEIGHTS, WEIGHTS_INDEX, check_inside, has_gguf_extension, parse_json, weight_map};
use crate::json::Fields;
use crate::options::HubModel;
use hf_hub::progress::{DownloadEvent, ProgressEvent, ProgressHandler};
use hf_hub::repository::{HFRepository, ModelInfo, RepoTypeModel};
use hf_hub::{HFClient, HFError, split_id};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;
use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files at the top of a repository that are read when they are there.
const SMALL_FILES: [&str; 6] = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    MODULES,
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
];
const MODULES: &str = "modules.json";
/// The branch that is meant when none is given.
const DEFAULT_REVISION: &str = "main";

/// Which of a model's files are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parts {
    /// All that it takes to run it.
    All,
    /// Config and tokenizer. Of a GGUF file there are no parts: it is taken whole.
    WithoutWeights,
}

/// Downloads what a model needs, unless it is in the cache, and returns the folder that the files are in.
///
/// All files come from one commit, the weights last. When the hub cannot be reached, the commit that the cache has
/// for the revision is used. This blocks; it may be called from any thread.
///
/// # Errors
/// The repository, or a file that is needed, cannot be had; the message names it and the cause.
pub(crate) fn download(model: &HubModel, dense_path: Option<&str>, parts: Parts) -> Result<PathBuf, LoadError> {
    // On a thread of its own, because a runtime must not be started from within another one's thread.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| LoadError::io("the network (tokio runtime)", error))?;
            runtime.block_on(async { Download::new(model)?.run(dense_path, parts).await })
        });
        thread.join().unwrap_or_else(|_| Err(LoadError::Options(format!("the download of {} panicked", model.id))))
    })
}

struct Download<'a> {
    model: &'a HubModel,
    client: HFClient,
    repository: HFRepository<RepoTypeModel>,
}

/// What the hub says is in the repository.
struct Listing {
    commit: String,
    files: BTreeSet<String>,
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
        let client = builder.build().map_err(|error| LoadError::Options(format!("hub: {error}")))?;
        let (owner, name) = split_id(&model.id);
        let repository = client.model(owner, name);
        Ok(Self { model, client, repository })
    }

    async fn run(&self, dense_path: Option<&str>, parts: Parts) -> Result<PathBuf, LoadError> {
        if self.model.offline {
            return self.cached(None).await;
        }
        let info = self.repository.info().maybe_revision(self.model.revision.clone()).send().await;
        let listing = match info {
            Ok(info) => self.listing(info)?,
            Err(error) if is_unreachable(&error) => return self.cached(Some(error)).await,
            Err(error) => return Err(self.failed("the list of files", error)),
        };
        let has_config = listing.files.contains("config.json");
        if has_config && parts == Parts::WithoutWeights {
            // Not remembered: without the hub, a commit that has its weights in the cache must win over this one.
            self.require(&listing, "tokenizer.json")?;
            return self.small_files(&listing).await;
        }
        let snapshot =
            if has_config { self.safetensors(&listing, dense_path).await? } else { self.gguf(&listing).await? };
        self.remember(&listing.commit, &snapshot);
        Ok(snapshot)
    }

    fn listing(&self, info: ModelInfo) -> Result<Listing, LoadError> {
        let files = info.siblings.unwrap_or_default().into_iter().map(|file| file.rfilename).collect();
        match info.sha {
            Some(commit) => Ok(Listing { commit, files }),
            None => Err(self.error("the list of files", "the answer does not name the commit".to_owned())),
        }
    }

    /// What the cache has for the revision. `unreachable` is why the hub was not asked; it was not to be when absent.
    async fn cached(&self, unreachable: Option<HFError>) -> Result<PathBuf, LoadError> {
        let revision = self.model.revision.clone();
        let snapshot = self.repository.snapshot_download().maybe_revision(revision).local_files_only(true).send().await;
        match (snapshot, unreachable) {
            (Ok(snapshot), None) => Ok(snapshot),
            (Ok(snapshot), Some(cause)) => {
                let id = &self.model.id;
                tracing::warn!("the hub cannot be reached, {id} is taken from the cache as it is: {}", chain(&cause));
                Ok(snapshot)
            }
            (Err(_), cause) => {
                let cache = self.client.cache_dir().display();
                let problem = match cause {
                    None => format!("{cache} does not have it, and the hub is not asked (--offline, HF_HUB_OFFLINE)"),
                    Some(cause) => format!("the hub cannot be reached and {cache} does not have it: {}", chain(&cause)),
                };
                Err(self.error("the list of files", problem))
            }
        }
    }

    async fn safetensors(&self, listing: &Listing, dense_path: Option<&str>) -> Result<PathBuf, LoadError> {
        self.require(listing, "tokenizer.json")?;
        if !listing.files.contains(WEIGHTS) {
            self.require(listing, WEIGHTS_INDEX).map_err(|_| self.no_weights(listing))?;
        }
        let snapshot = self.small_files(listing).await?;
        for folder in self.folders(listing, &snapshot, dense_path)? {
            let prefix = format!("{}/", folder.trim_end_matches('/'));
            let inside = |file: &&String| file.strip_prefix(&prefix).is_some_and(is_module_file);
            for file in listing.files.iter().filter(inside) {
                self.fetch(listing, file).await?;
            }
        }
        if listing.files.contains(WEIGHTS) {
            return self.fetch(listing, WEIGHTS).await;
        }
        self.fetch(listing, WEIGHTS_INDEX).await?;
        let shards: BTreeSet<String> = match read_json(&snapshot, WEIGHTS_INDEX)? {
            Some(index) => weight_map(&index)?.into_values().collect(),
            None => BTreeSet::new(),
        };
        for shard in &shards {
            self.require(listing, shard)?;
            self.fetch(listing, shard).await?;
        }
        Ok(snapshot)
    }

    /// Fetches those of the small files that there are, and returns the folder that they are in.
    async fn small_files(&self, listing: &Listing) -> Result<PathBuf, LoadError> {
        let mut snapshot = PathBuf::new();
        for file in SMALL_FILES.into_iter().filter(|&file| listing.files.contains(file)) {
            snapshot = self.fetch(listing, file).await?;
        }
        Ok(snapshot)
    }

    /// The folders of the modules.
    fn folders(&self, listing: &Listing, snapshot: &Path, dense: Option<&str>) -> Result<BTreeSet<String>, LoadError> {
        let mut folders = BTreeSet::from(["1_Pooling".to_owned()]);
        folders.extend(dense.map(str::to_owned));
        if listing.files.contains(MODULES)
            && let Some(Value::Array(modules)) = read_json(snapshot, MODULES)?
        {
            for module in &modules {
                folders.insert(Fields::new(MODULES, module)?.or("path", String::new())?);
            }
        }
        folders.remove("");
        for folder in &folders {
            check_inside(folder)?;
        }
        Ok(folders)
    }

    async fn gguf(&self, listing: &Listing) -> Result<PathBuf, LoadError> {
        let files: Vec<_> = listing.files.iter().filter(|file| has_gguf_extension(Path::new(file))).collect();
        match files.as_slice() {
            [] => Err(self.error("config.json", "the repository has no such file".to_owned())),
            [file] if !file.contains('/') => {
                self.small_files(listing).await?;
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

    /// Downloads a file, unless the cache has it, and returns the folder that all files of the commit are in.
    async fn fetch(&self, listing: &Listing, file: &str) -> Result<PathBuf, LoadError> {
        let meter = Arc::new(Meter::new(file, self.model.show_progress));
        let request = self.repository.download_file().filename(file).revision(&listing.commit);
        let result = request.progress(Arc::clone(&meter)).send().await;
        meter.bar.finish_and_clear();
        let path = result.map_err(|error| self.failed(file, error))?;

        // The client keeps whatever body it is sent, an error page of a storage server included.
        let announced = meter.announced.load(Ordering::Relaxed);
        let size = fs::metadata(&path).map_err(|error| LoadError::io(path.display().to_string(), error))?.len();
        if size < announced {
            for path in [fs::canonicalize(&path).ok(), Some(path)].into_iter().flatten() {
                let _ = fs::remove_file(path);
            }
            return Err(self.error(file, format!("only {size} bytes of {announced} came; try again")));
        }
        let depth = Path::new(file).components().count();
        Ok(path.ancestors().nth(depth).map(Path::to_owned).unwrap_or_default())
    }

    /// Notes the commit of a branch or tag, in the cache's own layout, so that it is found without the hub. This is
    /// done when all files are there; until then the cache answers with the commit it had before.
    fn remember(&self, commit: &str, snapshot: &Path) {
        let revision = self.model.revision.as_deref().unwrap_or(DEFAULT_REVISION);
        let Some(repository) = snapshot.parent().and_then(Path::parent) else { return };
        let file = repository.join("refs").join(revision);
        let parent = file.parent().unwrap_or(repository);
        if revision != commit
            && let Err(error) = fs::create_dir_all(parent).and_then(|()| fs::write(&file, commit))
        {
            tracing::warn!("{}: {error}; the model will not be found without the hub", file.display());
        }
    }

    fn require(&self, listing: &Listing, file: &str) -> Result<(), LoadError> {
        match listing.files.contains(file) {
            true => Ok(()),
            false => Err(self.error(file, "the repository has no such file".to_owned())),
        }
    }

    fn no_weights(&self, listing: &Listing) -> LoadError {
        let pickled = listing.files.iter().any(|file| file.starts_with("pytorch_model"));
        let hint = if pickled { "; pytorch_model.bin is not supported" } else { "" };
        self.error(WEIGHTS, format!("the repository has no such file{hint}"))
    }

    fn failed(&self, file: &str, error: HFError) -> LoadError {
        let problem = match &error {
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
            other => chain(other),
        };
        self.error(file, problem)
    }

    fn error(&self, file: &str, problem: String) -> LoadError {
        LoadError::Hub {
            model: self.model.id.clone(),
            revision: self.model.revision.clone().unwrap_or_else(|| DEFAULT_REVISION.to_owned()),
            endpoint: self.client.endpoint().to_owned(),
            file: file.to_owned(),
            problem,
        }
    }
}

/// Whether a file in a module's folder is one that could be read.
fn is_module_file(name: &str) -> bool {
    name == WEIGHTS || (name.ends_with(".json") && !name.contains('/'))
}

fn read_json(folder: &Path, name: &str) -> Result<Option<Value>, LoadError> {
    let path = folder.join(name);
    let bytes = fs::read(&path).map_err(|error| LoadError::io(path.display().to_string(), error))?;
    parse_json(name, &bytes).map(Some)
}

/// Whether the cache should be tried.
fn is_unreachable(error: &HFError) -> bool {
    match error {
        HFError::Request { source, .. } => source.is_connect() || source.is_timeout(),
        HFError::Http { context } => context.status.is_server_error(),
        HFError::RateLimited { .. } => true,
        _ => false,
    }
}

/// An error with its causes; the outermost often says only that there was one.
fn chain(error: &HFError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}

/// Follows one file's download.
struct Meter {
    /// Hidden when there is no terminal.
    bar: ProgressBar,
    /// The size in bytes that the hub announced; 0 when nothing had to be asked.
    announced: AtomicU64,
}

impl Meter {
    fn new(file: &str, show: bool) -> Self {
        let bar = if show { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(file.to_owned());
        Self { bar, announced: AtomicU64::new(0) }
    }
}

impl ProgressHandler for Meter {
    fn on_progress(&self, event: &ProgressEvent) {
        let ProgressEvent::Download(event) = event else { return };
        match event {
            DownloadEvent::Start { total_bytes, .. } => {
                self.announced.store(*total_bytes, Ordering::Relaxed);
                self.bar.set_length(*total_bytes);
            }
            DownloadEvent::Progress { files } => {
                if let Some(file) = files.last() {
                    self.bar.set_position(file.bytes_completed);
                }
            }
            DownloadEvent::AggregateProgress { bytes_completed, .. } => self.bar.set_position(*bytes_completed),
            DownloadEvent::Complete => {}
        }
    }
}
