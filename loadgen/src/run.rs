//! Sending: a closed loop, where each answer makes room for the next request, and an open loop, where requests come
//! when they come.

use crate::client::{Answer, Failure, Target};
use crate::record::{Record, Start};
use crate::schedule::Arrivals;
use crate::workload::{Prepared, Workload};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

/// How often the progress bar is drawn.
const TICK: Duration = Duration::from_millis(100);

/// How hard a server is driven.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// This many requests are under way at any time.
    Closed { concurrency: usize },
    /// Requests arrive at random, this many a second on average, however many are under way.
    Open { rate: f64, seed: u64 },
}

/// When to stop; whichever comes first. What is under way then is waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Length {
    pub(crate) requests: Option<u64>,
    /// Requests that are meant to start later are not sent.
    pub(crate) duration: Option<Duration>,
}

/// A run's result.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) record: Record,
    /// Requests sent. Those neither answered nor failed were under way when the run was interrupted.
    pub(crate) sent: u64,
    /// From the start of the run to the last answer, and not less than the length that was asked for.
    pub(crate) elapsed: Duration,
    pub(crate) interrupted: bool,
}

/// Sends a workload to a target.
pub(crate) struct Driver {
    target: Target,
    workload: Workload,
    /// The place of the next request in the workload's order. One run goes on where the one before ended, so that a
    /// server that remembers texts is not asked the same ones again before it must be.
    next: AtomicU64,
}

/// A run under way.
struct Run {
    driver: Arc<Driver>,
    record: Mutex<Record>,
    sent: AtomicU64,
    begin: Instant,
    length: Length,
}

/// Resolves when the run must end at once.
pub(crate) type Stop<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

impl Driver {
    pub(crate) fn new(target: Target, workload: Workload) -> Arc<Self> {
        Arc::new(Self { target, workload, next: AtomicU64::new(0) })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Sends until `length` is reached and all is answered, or until `stop`, which drops what is under way.
    pub(crate) async fn run(self: &Arc<Self>, load: Load, length: Length, title: &str, stop: Stop<'_>) -> Finished {
        let run = Arc::new(Run {
            driver: self.clone(),
            record: Mutex::new(Record::new()),
            sent: AtomicU64::new(0),
            begin: Instant::now(),
            length,
        });
        let bar = progress_bar(length, title);
        let interrupted = tokio::select! {
            () = run.show(&bar) => false,
            () = run.drive(load) => false,
            () = stop => true,
        };
        bar.finish_and_clear();
        run.finish(interrupted)
    }
}

impl Run {
    /// The futures are dropped with the [`JoinSet`]s in them when this is.
    async fn drive(self: &Arc<Self>, load: Load) {
        match load {
            Load::Closed { concurrency } => self.closed(concurrency).await,
            Load::Open { rate, seed } => self.open(Arrivals::new(rate, seed)).await,
        }
    }

    async fn closed(self: &Arc<Self>, concurrency: usize) {
        let mut workers = JoinSet::new();
        for _ in 0..concurrency {
            let run = self.clone();
            workers.spawn(async move {
                while !run.is_over(run.begin.elapsed()) && run.admit() {
                    run.send(Instant::now()).await;
                }
            });
        }
        while workers.join_next().await.is_some() {}
    }

    async fn open(self: &Arc<Self>, arrivals: Arrivals) {
        let (mut due, _ticking) = tick_at(self.begin, arrivals);
        let mut requests = JoinSet::new();
        loop {
            tokio::select! {
                Some(intended) = due.recv() => {
                    if self.is_over(intended.saturating_duration_since(self.begin)) || !self.admit() {
                        break;
                    }
                    let run = self.clone();
                    requests.spawn(async move { run.send(intended).await });
                }
                // Takes the finished ones away.
                Some(_) = requests.join_next() => {}
                else => break,
            }
        }
        while requests.join_next().await.is_some() {}
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        self.length.duration.is_some_and(|duration| elapsed >= duration)
    }

    /// Counts one more request, unless all have been sent.
    fn admit(&self) -> bool {
        let limit = self.length.requests.unwrap_or(u64::MAX);
        self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sent| (sent < limit).then_some(sent + 1)).is_ok()
    }

    async fn send(&self, intended: Instant) {
        let request: &Prepared = self.driver.workload.request(self.driver.next.fetch_add(1, Ordering::Relaxed));
        let start = Start { intended, actual: Instant::now() };
        let outcome: Result<Answer, Failure> = self.driver.target.send(request).await;
        self.record().add(start, request.texts, outcome);
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Never ends.
    async fn show(&self, bar: &ProgressBar) {
        let mut ticks = tokio::time::interval(TICK);
        loop {
            ticks.tick().await;
            let (finished, failed, elapsed) = {
                let record = self.record();
                (record.answered + record.failed(), record.failed(), self.begin.elapsed())
            };
            bar.set_position(match self.length.requests {
                Some(_) => finished,
                None => elapsed.as_millis() as u64,
            });
            let rate = finished as f64 / elapsed.as_secs_f64();
            bar.set_message(format!("{finished} requests, {rate:.1}/s, {failed} failed"));
        }
    }

    fn finish(&self, interrupted: bool) -> Finished {
        let record = self.record().clone();
        let last = record.last.map_or(Duration::ZERO, |last| last.saturating_duration_since(self.begin));
        let elapsed = match (interrupted, self.length) {
            (true, _) => self.begin.elapsed(),
            (false, Length { requests: None, duration: Some(duration) }) => last.max(duration),
            (false, _) => last,
        };
        Finished { record, sent: self.sent.load(Ordering::Relaxed), elapsed, interrupted }
    }
}

/// Tells when requests are due until the returned sender is dropped.
///
/// On a thread, whose sleep is exact to tens of microseconds where the runtime's timers are to a millisecond.
fn tick_at(begin: Instant, arrivals: Arrivals) -> (UnboundedReceiver<Instant>, Sender<()>) {
    let (due, receiver) = unbounded_channel();
    let (keep, stopped) = channel();
    std::thread::spawn(move || {
        for arrival in arrivals {
            let Some(intended) = begin.checked_add(arrival) else { return };
            let wait = intended.saturating_duration_since(Instant::now());
            // Nothing is ever sent to this thread, so this sleeps until it is time or the other end is gone.
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) || due.send(intended).is_err() {
                return;
            }
        }
    });
    (receiver, keep)
}

/// Shown on a terminal only.
fn progress_bar(length: Length, title: &str) -> ProgressBar {
    let total = match (length.requests, length.duration) {
        (Some(requests), _) => Some(requests),
        (None, duration) => duration.map(|duration| duration.as_millis() as u64),
    };
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} [{elapsed_precise}] {wide_bar} {msg}");
    let bar = bar.with_prefix(title.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
