//! Follows a download: how far it is, whether it still gets on, and what stopped it.

use hf_hub::HFError;
use hf_hub::progress::{DownloadEvent, ProgressEvent, ProgressHandler};
use indicatif::{ProgressBar, ProgressStyle};
use std::error::Error;
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a download is looked at.
const TICK: Duration = Duration::from_millis(200);

/// How long the client waits for another process's lock before it says so.
const LOCK_PATIENCE: Duration = Duration::from_secs(11);

/// How to have more patience, for messages.
const SETTING: &str = "--download-timeout, HF_HUB_DOWNLOAD_TIMEOUT";

/// Why something could not be had from the hub.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The client says.
    Client(HFError),
    /// Nothing came for so long.
    Silence(Duration),
    /// More bytes came, or were announced, than there may be.
    TooLong(u64),
    /// Another process is downloading the file and has not got on for so long.
    Locked {
        /// The file that tells processes of each other.
        lock: PathBuf,
        silence: Duration,
    },
}

impl Failure {
    /// Whether the cache should be tried.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Client(HFError::Request { source, .. }) => source.is_connect() || source.is_timeout(),
            Self::Client(HFError::Http { context }) => context.status.is_server_error(),
            Self::Client(HFError::RateLimited { .. }) | Self::Silence(_) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => f.write_str(&chain(error)),
            Self::Silence(silence) => write!(f, "nothing came for {} s ({SETTING})", silence.as_secs_f64()),
            Self::TooLong(limit) => write!(f, "it is longer than the {limit} bytes that it may have"),
            Self::Locked { lock, silence } => write!(
                f,
                "another process is downloading it and has not got on for {} s ({SETTING}); it holds {}",
                silence.as_secs_f64(),
                lock.display()
            ),
        }
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
pub(crate) struct Meter {
    /// Hidden when there is no terminal.
    bar: ProgressBar,
    /// The most bytes that the file may have.
    largest: u64,
    /// The size in bytes that the hub announced; 0 when it did not say, or nothing had to be asked.
    announced: AtomicU64,
    /// Bytes that came.
    completed: AtomicU64,
    /// How many announcements there were.
    started: AtomicU64,
    /// How many reports there were on what came.
    reports: AtomicU64,
}

impl Meter {
    /// A meter at 0, for a file that may have `largest` bytes.
    pub(crate) fn new(file: &str, largest: u64, show: bool) -> Self {
        let bar = if show { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(file.to_owned());
        let [announced, completed, started, reports] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bar, largest, announced, completed, started, reports }
    }

    /// The size that the hub announced, if it did.
    pub(crate) fn announced(&self) -> Option<u64> {
        Some(self.announced.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// Whether the hub was asked for the file; otherwise it was in the cache.
    pub(crate) fn was_asked(&self) -> bool {
        self.started.load(Ordering::Relaxed) > 0
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// What changes while a download gets on.
    fn state(&self) -> [u64; 3] {
        [&self.announced, &self.completed, &self.started].map(|value| value.load(Ordering::Relaxed))
    }

    /// Whether the client has asked how large the file is, and not yet reported that it comes: it takes a lock meanwhile.
    fn may_wait_for_lock(&self) -> bool {
        self.was_asked() && self.reports.load(Ordering::Relaxed) == 0
    }

    fn check(&self) -> Result<(), Failure> {
        let limit = self.announced().unwrap_or(u64::MAX).min(self.largest);
        let bytes = self.announced().unwrap_or(0).max(self.completed.load(Ordering::Relaxed));
        if bytes > limit { Err(Failure::TooLong(limit)) } else { Ok(()) }
    }

    fn set_completed(&self, bytes: u64) {
        self.reports.fetch_add(1, Ordering::Relaxed);
        self.completed.store(bytes, Ordering::Relaxed);
        self.bar.set_position(bytes);
    }
}

impl ProgressHandler for Meter {
    fn on_progress(&self, event: &ProgressEvent) {
        let ProgressEvent::Download(event) = event else { return };
        match event {
            DownloadEvent::Start { total_bytes, .. } => {
                self.announced.store(*total_bytes, Ordering::Relaxed);
                self.started.fetch_add(1, Ordering::Relaxed);
                self.bar.set_length(*total_bytes);
            }
            DownloadEvent::Progress { files } => {
                if let Some(file) = files.last() {
                    self.set_completed(file.bytes_completed);
                }
            }
            DownloadEvent::AggregateProgress { bytes_completed, .. } => self.set_completed(*bytes_completed),
            DownloadEvent::Complete => {}
        }
    }
}

/// Waits for what is asked of the hub as long as it gets on. The client itself has no limit, neither for a whole answer nor
/// for its parts.
///
/// # Errors
/// What the client says, or that nothing came for `silence`, or too much.
pub(crate) async fn follow<T>(
    request: impl Future<Output = Result<T, HFError>>,
    meter: &Meter,
    silence: Duration,
) -> Result<T, Failure> {
    let mut request = pin!(request);
    let mut ticks = tokio::time::interval(TICK);
    let (mut state, mut since) = (meter.state(), Instant::now());
    loop {
        // The request first: what came while something else kept this thread is no silence.
        tokio::select! {
            biased;
            result = &mut request => return result.map_err(Failure::Client),
            _ = ticks.tick() => {}
        }
        meter.check()?;
        let limit = if meter.may_wait_for_lock() { silence.max(LOCK_PATIENCE) } else { silence };
        if meter.state() != state {
            (state, since) = (meter.state(), Instant::now());
        } else if since.elapsed() >= limit {
            return Err(Failure::Silence(limit));
        }
    }
}

/// Waits until the process that holds a lock of the cache lets go of it, as long as its download gets on.
///
/// # Errors
/// It has not got on for `silence`, or the lock cannot be looked at.
pub(crate) async fn wait_for_lock(lock: &Path, silence: Duration) -> Result<(), Failure> {
    let failed = |error| Failure::Client(HFError::Io(error));
    let incomplete = incomplete_file(lock);
    let stamp = || {
        let metadata = incomplete.as_deref().and_then(|path| fs::metadata(path).ok());
        metadata.map(|metadata| (metadata.len(), metadata.modified().ok()))
    };
    let (mut state, mut since) = (stamp(), Instant::now());
    loop {
        match OpenOptions::new().write(true).open(lock).map_err(failed)?.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(TICK).await,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        if stamp() != state {
            (state, since) = (stamp(), Instant::now());
        } else if since.elapsed() >= silence {
            return Err(Failure::Locked { lock: lock.to_owned(), silence });
        }
    }
}

/// Waits until no other server downloads this model into the cache; others do as long as what is returned lives. `None` where the
/// cache cannot be written to. The client takes a file's link away for a moment whenever it has come, so that who reads the
/// same file then does not find it.
pub(crate) async fn take_turn(cache: &Path, model: &str) -> Option<File> {
    let folder = cache.join(".locks").join(format!("models--{}", model.replace('/', "--")));
    fs::create_dir_all(&folder).ok()?;
    let file = File::create(folder.join("prefold.lock")).ok()?;
    let mut said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            // Who holds it gives up when nothing comes, and an ended process holds nothing.
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::info!(model, "another process is downloading it into the same cache; waiting for that");
                }
                tokio::time::sleep(TICK).await;
            }
            Err(TryLockError::Error(_)) => return None,
        }
    }
}

/// What the holder of `CACHE/.locks/REPOSITORY/TAG.lock` writes to.
fn incomplete_file(lock: &Path) -> Option<PathBuf> {
    let (cache, repository) = (lock.ancestors().nth(3)?, lock.parent()?.file_name()?);
    let mut name = lock.file_stem()?.to_owned();
    name.push(".incomplete");
    Some(cache.join(repository).join("blobs").join(name))
}
