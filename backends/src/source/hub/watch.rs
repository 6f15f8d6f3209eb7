//! Progress, timeouts and locks of downloads.

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

/// Interval between checks of a download.
const TICK: Duration = Duration::from_millis(200);

/// Time after which the client reports a lock of another process.
const LOCK_PATIENCE: Duration = Duration::from_secs(11);

/// Settings of the timeout, for messages.
const SETTING: &str = "--download-timeout, HF_HUB_DOWNLOAD_TIMEOUT";

/// Reason for a failed download.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error of the client.
    Client(HFError),
    /// No progress for this time.
    Stalled(Duration),
    /// More bytes arrived, or were announced, than this limit.
    TooLong(u64),
    /// Another process downloads the file and made no progress for this time.
    Locked {
        /// The lock file.
        lock: PathBuf,
        silence: Duration,
    },
}

impl Failure {
    /// `true` if the hub cannot be reached, so that the cache may be used.
    pub(crate) fn is_unreachable(&self) -> bool {
        match self {
            Self::Client(HFError::Request { source, .. }) => source.is_connect() || source.is_timeout(),
            Self::Client(HFError::Http { context }) => context.status.is_server_error(),
            Self::Client(HFError::RateLimited { .. }) | Self::Stalled(_) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => f.write_str(&chain(error)),
            Self::Stalled(silence) => write!(f, "nothing came for {} s ({SETTING})", silence.as_secs_f64()),
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

/// An error with its causes; the outermost message often names none.
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

/// Progress of one file's download.
pub(crate) struct Meter {
    /// Hidden if there is no terminal.
    bar: ProgressBar,
    /// Limit of the file's bytes.
    max_bytes: u64,
    /// Size in bytes announced by the hub; 0 if there was no announcement or no request.
    announced: AtomicU64,
    /// Bytes received.
    completed: AtomicU64,
    /// Number of announcements.
    started: AtomicU64,
    /// Number of progress reports.
    reports: AtomicU64,
}

impl Meter {
    /// A download at 0, of a file that may have `max_bytes` bytes.
    pub(crate) fn new(file: &str, max_bytes: u64, show: bool) -> Self {
        let bar = if show { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(file.to_owned());
        let [announced, completed, started, reports] = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bar, max_bytes, announced, completed, started, reports }
    }

    /// The announced size, if any.
    pub(crate) fn announced(&self) -> Option<u64> {
        Some(self.announced.load(Ordering::Relaxed)).filter(|&bytes| bytes > 0)
    }

    /// `true` if the hub was requested; otherwise the file was in the cache.
    pub(crate) fn was_requested(&self) -> bool {
        self.started.load(Ordering::Relaxed) > 0
    }

    /// Removes the progress bar.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// Values that change with progress.
    fn state(&self) -> [u64; 3] {
        [&self.announced, &self.completed, &self.started].map(|value| value.load(Ordering::Relaxed))
    }

    /// `true` between the announced size and the first report of progress, while the client may wait for a lock.
    fn may_wait_for_lock(&self) -> bool {
        self.was_requested() && self.reports.load(Ordering::Relaxed) == 0
    }

    fn check(&self) -> Result<(), Failure> {
        let limit = self.announced().unwrap_or(u64::MAX).min(self.max_bytes);
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

/// Waits for a request while it makes progress. The client has no time limit of its own, neither for an answer nor for its
/// parts.
///
/// # Errors
/// The client failed, made no progress for `silence`, or received too many bytes.
pub(crate) async fn follow<T>(
    request: impl Future<Output = Result<T, HFError>>,
    meter: &Meter,
    silence: Duration,
) -> Result<T, Failure> {
    let mut request = pin!(request);
    let mut ticks = tokio::time::interval(TICK);
    let (mut state, mut since) = (meter.state(), Instant::now());
    loop {
        // The request is polled first, so that bytes that arrived while this thread was busy count as progress.
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
            return Err(Failure::Stalled(limit));
        }
    }
}

/// Waits until another process releases a lock of the cache, while its download makes progress.
///
/// # Errors
/// It made no progress for `silence`, or the lock file cannot be opened.
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

/// Locks the download of this model into the cache against other servers, until the returned file is dropped. `None` if the
/// cache cannot be written to. Without the lock a reader may miss a file, because the client removes its link for a moment
/// after each download.
pub(crate) async fn lock_model(cache: &Path, model: &str) -> Option<File> {
    let folder = cache.join(".locks").join(format!("models--{}", model.replace('/', "--")));
    fs::create_dir_all(&folder).ok()?;
    let file = File::create(folder.join("prefold.lock")).ok()?;
    let mut said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            // The holder fails without progress, and the lock of an ended process is released.
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

/// The incomplete file of the holder of `CACHE/.locks/REPOSITORY/TAG.lock`.
fn incomplete_file(lock: &Path) -> Option<PathBuf> {
    let (cache, repository) = (lock.ancestors().nth(3)?, lock.parent()?.file_name()?);
    let mut name = lock.file_stem()?.to_owned();
    name.push(".incomplete");
    Some(cache.join(repository).join("blobs").join(name))
}
