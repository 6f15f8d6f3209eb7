//! Progress, timeouts and locks of downloads.

use super::cache::{Cache, incomplete};
use super::failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use prefold_core::shown;
use std::cell::Cell;
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};

/// Interval between checks of a download.
const TICK: Duration = Duration::from_millis(200);
/// Time limit of a small response, as a multiple of the timeout; 5 minutes by default.
const SMALL_TIMES: u32 = 10;
/// Time over which the rate of a file is measured, as a multiple of the timeout; longer than 1, since silence has its own message.
const RATE_TIMES: u32 = 2;
/// Minimum bytes per second of a file: slower than any line on which a model would be downloaded.
const MIN_RATE: u64 = 8 << 10;

/// Progress of one file's download.
pub(crate) struct Meter {
    /// Hidden if there is no terminal.
    bar: ProgressBar,
    /// Bytes of the file so far; reset when the body begins again.
    completed: Cell<u64>,
    /// Bytes received in all.
    received: Cell<u64>,
    /// The download waits because the server asked for it.
    is_waiting: Cell<bool>,
}

impl Meter {
    /// A download at 0.
    pub(crate) fn new(file: &str, show: bool) -> Self {
        let bar = if show { ProgressBar::no_length() } else { ProgressBar::hidden() };
        let template = "{msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(shown(file));
        Self { bar, completed: Cell::default(), received: Cell::default(), is_waiting: Cell::default() }
    }

    /// Sets the length of the file.
    pub(crate) fn set_length(&self, bytes: u64) {
        self.bar.set_length(bytes);
    }

    /// Sets the number of received bytes of the file.
    pub(crate) fn set_completed(&self, bytes: u64) {
        let before = self.completed.replace(bytes);
        self.received.set(self.received.get().saturating_add(bytes.saturating_sub(before)));
        self.bar.set_position(bytes);
    }

    /// Waits because the server asked for it, which does not count as silence.
    pub(crate) async fn wait(&self, time: Duration) {
        self.is_waiting.set(true);
        tokio::time::sleep(time).await;
        self.is_waiting.set(false);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Kind of a response, which decides its time limit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// A response that is read into memory; it has a time limit.
    Small,
    /// A file; it has a minimum rate.
    File,
}

/// Waits for a request while it makes progress. The client itself has no timeouts.
///
/// # Errors
/// The request failed, made no progress for `silence`, or was too slow.
pub(crate) async fn follow<T>(
    request: impl Future<Output = Result<T, Failure>>,
    meter: &Meter,
    silence: Duration,
    kind: Kind,
) -> Result<T, Failure> {
    let mut request = pin!(request);
    let mut ticks = tokio::time::interval(TICK);
    let begin = Instant::now();
    let (mut bytes, mut since) = (meter.received.get(), begin);
    let (mut measured, mut measured_at) = (bytes, begin);
    let mut looked = begin;
    loop {
        // The request is polled first, so that bytes that arrived while this thread was busy count as progress.
        tokio::select! {
            biased;
            result = &mut request => return result,
            _ = ticks.tick() => {}
        }
        let now = Instant::now();
        if meter.is_waiting.get() {
            since += now - looked;
        }
        looked = now;
        if meter.received.get() != bytes {
            (bytes, since) = (meter.received.get(), now);
        } else if now - since >= silence {
            return Err(Failure::Stalled(silence));
        }
        match kind {
            Kind::Small if now - begin >= silence.saturating_mul(SMALL_TIMES) => {
                return Err(Failure::Unfinished(silence.saturating_mul(SMALL_TIMES)));
            }
            Kind::File if now - measured_at >= silence.saturating_mul(RATE_TIMES) => {
                let time = now - measured_at;
                let came = bytes.saturating_sub(measured);
                if came < MIN_RATE.saturating_mul(time.as_secs()) {
                    return Err(Failure::Slow { bytes: came, time: Duration::from_secs(time.as_secs()) });
                }
                (measured, measured_at) = (bytes, now);
            }
            Kind::Small | Kind::File => {}
        }
    }
}

/// Locks a file's download until the returned file is dropped. Waits for another process that has the lock while its download makes
/// progress.
///
/// # Errors
/// The other process made no progress for `silence`, or the lock file cannot be opened.
pub(crate) async fn lock_file(lock: &Path, blob: &Path, silence: Duration) -> Result<File, Failure> {
    let incomplete = incomplete(blob);
    let folder = lock.parent().unwrap_or(lock);
    let file = fs::create_dir_all(folder).and_then(|()| File::create(lock)).map_err(Failure::Cache)?;
    let mut said = false;
    let stamp = || fs::metadata(&incomplete).map(|metadata| (metadata.len(), metadata.modified().ok())).ok();
    let (mut state, mut since) = (stamp(), Instant::now());
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::info!(
                        "another process is downloading the same file and holds the lock {}; waiting for it",
                        lock.display()
                    );
                }
                tokio::time::sleep(TICK).await;
            }
            Err(TryLockError::Error(error)) => return Err(Failure::Cache(error)),
        }
        if stamp() != state {
            (state, since) = (stamp(), Instant::now());
        } else if since.elapsed() >= silence {
            return Err(Failure::Locked { lock: lock.to_owned(), silence });
        }
    }
}

/// Locks the download of this model into the cache against other servers until the returned file is dropped. `None` if the
/// cache cannot be written to.
pub(crate) async fn lock_model(cache: &Cache, model: &str) -> Option<File> {
    let folder = cache.locks();
    fs::create_dir_all(&folder).ok()?;
    let file = File::create(folder.join("prefold.lock")).ok()?;
    let mut said = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Some(file),
            // The holder fails without progress, and the lock of an ended process is released.
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut said, true) {
                    tracing::info!(model, "another process is downloading it into the same cache; waiting for it");
                }
                tokio::time::sleep(TICK).await;
            }
            Err(TryLockError::Error(_)) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Meter;

    #[test]
    fn what_comes_again_counts_as_received() {
        let meter = Meter::new("a", false);
        for bytes in [100, 250, 0, 50, 300] {
            meter.set_completed(bytes);
        }
        assert_eq!((meter.completed.get(), meter.received.get()), (300, 550));
    }
}
