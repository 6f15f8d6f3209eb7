//! Load loops: closed, where each response triggers the next request, and open, where requests follow a schedule.

use crate::http::client::{Answer, Failure, Prepared, Target};
use crate::load::record::{Record, Start};
use crate::load::schedule::Arrivals;
use crate::workload::Workload;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinSet;

/// Redraw interval of the progress bar.
const TICK: Duration = Duration::from_millis(100);

/// Load on a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Load {
    /// Closed loop: number of requests in flight.
    Closed { concurrency: usize },
    /// Open loop: mean random arrivals per second, regardless of the number in flight.
    Open { rate: f64, seed: u64 },
}

/// End of a run, whichever limit comes first. Requests in flight are then awaited.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Length {
    pub(crate) requests: Option<u64>,
    /// Requests scheduled later are not sent.
    pub(crate) duration: Option<Duration>,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub(crate) struct Finished {
    pub(crate) record: Record,
    /// Requests sent. Those neither answered nor failed were in flight when the run was interrupted.
    pub(crate) sent: u64,
    /// Time from the start of the run to the last response, at least the configured duration.
    pub(crate) elapsed: Duration,
    pub(crate) interrupted: bool,
}

/// A stream: requests to one target under one load.
#[derive(Clone)]
pub(crate) struct Stream {
    pub(crate) driver: Arc<Driver>,
    pub(crate) load: Load,
}

/// Sends a workload to a target.
pub(crate) struct Driver {
    target: Target,
    workload: Workload,
    /// Position of the next request in the workload. Each run continues where the previous one ended, so that texts
    /// repeat to a caching server as late as possible.
    next: AtomicU64,
}

/// State of a run in progress.
struct Run {
    driver: Arc<Driver>,
    record: Mutex<Record>,
    sent: AtomicU64,
    begin: Instant,
    length: Length,
}

/// Future that resolves when the run must end at once.
pub(crate) type Stop<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

impl Driver {
    pub(crate) fn new(target: Target, workload: Workload) -> Arc<Self> {
        Arc::new(Self { target, workload, next: AtomicU64::new(0) })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }
}

/// Sends the streams at the same time until each has reached `length` and all its responses have arrived, or until `stop`,
/// which drops requests in flight. Returns one result per stream.
pub(crate) async fn run(streams: &[Stream], length: Length, title: &str, stop: Stop<'_>) -> Vec<Finished> {
    let begin = Instant::now();
    let mut driving = JoinSet::new();
    let mut runs = Vec::new();
    for Stream { driver, load } in streams {
        let (driver, load) = (driver.clone(), *load);
        let (record, sent) = (Mutex::new(Record::new()), AtomicU64::new(0));
        let run = Arc::new(Run { driver, record, sent, begin, length });
        runs.push(run.clone());
        driving.spawn(async move { run.drive(load).await });
    }
    let bar = progress_bar(length, title);
    let interrupted = tokio::select! {
        () = show(&runs, length, &bar) => false,
        () = async { while driving.join_next().await.is_some() {} } => false,
        () = stop => true,
    };
    driving.shutdown().await;
    bar.finish_and_clear();
    runs.iter().map(|run| run.finish(interrupted)).collect()
}

impl Load {
    /// The load of a round, from 0: the rounds of an open loop have different arrivals.
    pub(crate) fn in_round(self, round: u32) -> Self {
        match self {
            Self::Closed { .. } => self,
            Self::Open { rate, seed } => Self::Open { rate, seed: seed.wrapping_add(round.into()) },
        }
    }
}

impl Finished {
    /// Rate of a count over the run.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
    }

    /// Adds another round of the same load.
    pub(crate) fn merge(&mut self, round: &Self) {
        self.record.merge(&round.record);
        self.sent += round.sent;
        self.elapsed += round.elapsed;
        self.interrupted |= round.interrupted;
    }
}

impl Run {
    /// Dropping this drops the futures and their [`JoinSet`]s.
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
                // Removes finished tasks.
                Some(_) = requests.join_next() => {}
                else => break,
            }
        }
        while requests.join_next().await.is_some() {}
    }

    fn is_over(&self, elapsed: Duration) -> bool {
        self.length.duration.is_some_and(|duration| elapsed >= duration)
    }

    /// Claims the next request, unless all have been sent.
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

/// Updates the progress bar of runs that began at the same time. Never ends.
async fn show(runs: &[Arc<Run>], length: Length, bar: &ProgressBar) {
    let begin = Instant::now();
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let (mut finished, mut failed) = (0, 0);
        for run in runs {
            let record = run.record();
            finished += record.answered + record.failed();
            failed += record.failed();
        }
        let elapsed = begin.elapsed();
        bar.set_position(match length.requests {
            Some(_) => finished,
            None => elapsed.as_millis() as u64,
        });
        let rate = finished as f64 / elapsed.as_secs_f64();
        bar.set_message(format!("{finished} requests, {rate:.1}/s, {failed} failed"));
    }
}

/// Signals each due request until the returned sender is dropped.
///
/// A thread's sleep is exact to tens of microseconds, the runtime's timers only to a millisecond.
fn tick_at(begin: Instant, arrivals: Arrivals) -> (UnboundedReceiver<Instant>, Sender<()>) {
    let (due, receiver) = unbounded_channel();
    let (keep, stopped) = channel();
    std::thread::spawn(move || {
        for arrival in arrivals {
            let Some(intended) = begin.checked_add(arrival) else { return };
            let wait = intended.saturating_duration_since(Instant::now());
            // Nothing is ever sent on this channel: the wait ends at the due time or when the sender is dropped.
            if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) || due.send(intended).is_err() {
                return;
            }
        }
    });
    (receiver, keep)
}

/// Progress bar, shown only on a terminal.
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
