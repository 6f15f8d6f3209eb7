//! Serving until a signal comes, and a shutdown that answers every accepted request.

use super::connections::{self, ConnectionLimits};
use super::listening::{Address, Listener};
use super::tls::Tls;
use super::{loading_gate, routing};
use crate::routes::health;
use crate::state::{App, HttpConfig};
use std::future::pending;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

/// Time after the signal in which connections are still accepted: their clients sent before it, and the kernel would
/// reset connections in its backlog.
const BACKLOG_GRACE: Duration = Duration::from_millis(200);

/// Signals closer together than this count as one: a process manager may signal the process and its group.
pub(super) const SAME_SIGNAL: Duration = Duration::from_millis(250);

/// Time limit for answering requests that are cut off.
pub(super) const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Period of the check for a stuck forward pass.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

/// Addresses, HTTP settings and lifetime of the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerConfig {
    pub(crate) address: Address,
    /// TLS of this address.
    pub(crate) tls: Option<Tls>,
    /// Host and port that serve `/metrics` instead.
    pub(crate) metrics: Option<Address>,
    pub(crate) http: HttpConfig,
    pub(crate) serving: ServingConfig,
}

/// Connection limits and shutdown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServingConfig {
    pub(crate) connections: ConnectionLimits,
    /// A stuck forward pass ends the process.
    pub(crate) exit_on_stuck: bool,
    /// Time after the signal in which the server still serves, but is not ready.
    pub(crate) shutdown_delay: Duration,
    /// Time at shutdown for the requests already accepted.
    pub(crate) shutdown_timeout: Duration,
}

/// Names of signals that ask the server to stop; tests send their own.
pub(crate) struct Signals(mpsc::Receiver<&'static str>);

impl Signals {
    /// Catches SIGTERM and SIGINT from now on. SIGUSR1 and SIGUSR2, which by default end a process, do nothing.
    pub(crate) fn listen() -> io::Result<Self> {
        for ignored in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
            drop(signal(ignored)?);
        }
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                if let Err(TrySendError::Closed(_)) = sender.try_send(name) {
                    return;
                }
            }
        });
        Ok(Self(receiver))
    }

    /// The name of a later signal; those within [`SAME_SIGNAL`] of the last one are dropped.
    async fn another(&mut self) -> &'static str {
        tokio::time::sleep(SAME_SIGNAL).await;
        while self.0.try_recv().is_ok() {}
        self.next().await
    }

    /// The next signal's name.
    pub(crate) async fn next(&mut self) -> &'static str {
        match self.0.recv().await {
            Some(name) => name,
            None => pending().await,
        }
    }
}

/// End of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stopped {
    /// Every accepted request was answered.
    Drained,
    /// `--shutdown-timeout` passed first.
    TimedOut {
        /// Requests that were cut off.
        requests: usize,
    },
    /// A second signal came.
    Interrupted,
    /// A forward pass was stuck (`--exit-on-stuck`).
    Stuck,
    /// The device failed permanently; what was in flight was answered with status 503.
    DeviceLost,
}

/// Exit status after [`Stopped::DeviceLost`]: `EX_TEMPFAIL` of sysexits.h, a failure that another start may cure.
pub(crate) const DEVICE_LOST_STATUS: u8 = 75;

/// Listens at once, answers when `loading` is done, serves until a signal comes and for the shutdown delay after it, or
/// until the device fails permanently, then finishes the accepted requests within the shutdown timeout. `unfinished`
/// counts requests whose answers are not completely written.
pub(crate) async fn serve(
    listener: Listener,
    loading: impl Future<Output = anyhow::Result<App>>,
    mut signals: Signals,
    config: ServingConfig,
    unfinished: Arc<AtomicUsize>,
) -> anyhow::Result<Stopped> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (opener, gate) = loading_gate::closed();
    let routes = move || gate.routes();
    let mut serving =
        tokio::spawn(connections::serve(listener, routes, config.connections, Arc::clone(&unfinished), stopped));
    let app = tokio::select! {
        // A signal that comes together with the model finds it loaded: what was accepted is answered.
        biased;
        app = loading => app?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped while the model was loading");
            return Ok(Stopped::Drained);
        }
    };
    opener.send_replace(Some(routing::router(app.clone())));
    let (reason, delay, end) = tokio::select! {
        name = signals.next() => (name, config.shutdown_delay, Stopped::Drained),
        () = app.models.until_device_lost() => ("the device has failed", Duration::ZERO, Stopped::DeviceLost),
        ended = &mut serving => return Ok(ended.map(|()| Stopped::Drained)?),
        stuck = stuck(&app), if config.exit_on_stuck => return Ok(stuck),
    };
    tracing::info!(reason, unfinished = unfinished.load(Ordering::Relaxed), "stopping");
    app.is_stopping.store(true, Ordering::SeqCst);
    let drain = async {
        tokio::time::sleep(delay.max(BACKLOG_GRACE)).await;
        drop(stop);
        serving.await?;
        app.models.shutdown().await;
        tracing::info!("stopped");
        Ok(end)
    };
    tokio::select! {
        result = drain => result,
        () = tokio::time::sleep(delay + config.shutdown_timeout) => {
            let requests = cut_off(&app, &unfinished).await;
            tracing::warn!(requests, "the shutdown timed out (--shutdown-timeout); requests were cut off");
            Ok(if end == Stopped::DeviceLost { end } else { Stopped::TimedOut { requests } })
        }
        name = signals.another() => {
            let requests = cut_off(&app, &unfinished).await;
            match requests {
                0 => tracing::info!(signal = name, "stopped at once by a second signal; no request was in progress"),
                _ => tracing::warn!(signal = name, requests, "stopped at once by a second signal; requests were cut off"),
            }
            Ok(Stopped::Interrupted)
        }
    }
}

/// Ends running passes at their next yield point and gives their requests time for an answer with status 503. Returns
/// the number of unfinished requests.
async fn cut_off(app: &App, unfinished: &AtomicUsize) -> usize {
    let requests = unfinished.load(Ordering::Relaxed);
    app.models.stop();
    let answered = async {
        while unfinished.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(LAST_ANSWERS / 100).await;
        }
    };
    // Requests of a pass that reaches no yield point are cut off without an answer.
    drop(tokio::time::timeout(LAST_ANSWERS, answered).await);
    requests
}

/// Resolves when a forward pass is stuck.
async fn stuck(app: &App) -> Stopped {
    loop {
        tokio::time::sleep((app.http.stall_timeout / 4).min(WATCH_PERIOD)).await;
        if let Err(error) = health::stuck(app) {
            tracing::error!(unfinished = app.unfinished.load(Ordering::Relaxed), "{error}; ending (--exit-on-stuck)");
            return Stopped::Stuck;
        }
    }
}

#[cfg(test)]
mod tests;
