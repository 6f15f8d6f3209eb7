//! Shutdown watchdog: a thread that ends the process if the connection threads are stuck.

use super::stopping::{LAST_ANSWERS, SAME_SIGNAL, ServingConfig};
use std::future::pending;
use std::io;
use std::process::exit;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

/// Time for the server to end by itself after its shutdown time.
const GRACE: Duration = Duration::from_secs(2);

/// Starts the thread. It ends the process with status 1 when a shutdown, or the last answers after a second signal,
/// take [`GRACE`] longer than allowed.
///
/// # Errors
/// The thread cannot be started, or signals cannot be caught.
pub(crate) fn start(config: ServingConfig) -> io::Result<()> {
    // A separate runtime: nothing else runs on it.
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let signals = {
        let _inside = runtime.enter();
        [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?]
    };
    let watch = move || {
        runtime.block_on(until_over(signals, config));
        tracing::error!("ended by force: threads of the server are stuck");
        exit(1);
    };
    std::thread::Builder::new().name("prefold-stop".to_owned()).spawn(watch).map(drop)
}

/// Returns when the server should have ended long ago.
async fn until_over(mut signals: impl Signals, config: ServingConfig) {
    signals.next().await;
    let begin = Instant::now();
    let mut end = begin + config.shutdown_delay + config.shutdown_timeout + LAST_ANSWERS + GRACE;
    loop {
        tokio::select! {
            () = sleep_until(end) => return,
            () = signals.next() => {
                if begin.elapsed() >= SAME_SIGNAL {
                    end = end.min(Instant::now() + LAST_ANSWERS + GRACE);
                }
            }
        }
    }
}

/// Signals to stop; tests send their own.
trait Signals {
    /// Resolves when the next one comes.
    async fn next(&mut self);
}

impl Signals for [Signal; 2] {
    async fn next(&mut self) {
        let [terminate, interrupt] = self;
        let received = tokio::select! {
            received = terminate.recv() => received,
            received = interrupt.recv() => received,
        };
        if received.is_none() {
            pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::connections::ConnectionLimits;

    /// Signals at times after the start.
    struct At(Vec<Instant>);

    impl Signals for At {
        async fn next(&mut self) {
            match self.0.first() {
                Some(&time) => {
                    sleep_until(time).await;
                    self.0.remove(0);
                }
                None => pending().await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_to_stop_and_a_second_signal_bound_the_process() {
        let [delay, timeout] = [3, 30].map(Duration::from_secs);
        let connections = ConnectionLimits { connections: 1, client_timeout: timeout };
        let config =
            ServingConfig { connections, exit_on_stuck: false, shutdown_delay: delay, shutdown_timeout: timeout };
        let rest = LAST_ANSWERS + GRACE;
        for (signals, expected) in [
            (vec![1000], 1000 + 33_000),
            // A process manager signals twice at once.
            (vec![1000, 1100], 1000 + 33_000),
            (vec![1000, 1100, 5000], 5000),
            (vec![1000, 33_900], 33_900),
            // It never gives the process more time.
            (vec![1000, 35_000], 1000 + 33_000),
        ] {
            let begin = Instant::now();
            let times = signals.iter().map(|&millis| begin + Duration::from_millis(millis)).collect();
            until_over(At(times), config).await;
            assert_eq!(begin.elapsed(), Duration::from_millis(expected) + rest, "{signals:?}");
        }
    }
}
