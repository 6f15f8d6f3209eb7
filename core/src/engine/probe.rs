//! Probe of a backend whose last batch failed: one at a time for all callers.

use crate::error::Error;
use std::time::Instant;
use tokio::sync::Mutex;

/// End time and result of the last probe.
#[derive(Debug, Default)]
pub(super) struct Probe(Mutex<Option<(Instant, Result<(), Error>)>>);

impl Probe {
    /// Result of a probe that ends after this call: the running one, or `run`. If the caller whose probe runs gives up, the next
    /// caller's begins.
    ///
    /// # Errors
    /// As the probe.
    pub(super) async fn shared(&self, run: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        let asked = Instant::now();
        let mut last = self.0.lock().await;
        if let Some((ended, result)) = &*last
            && *ended >= asked
        {
            return result.clone();
        }
        let result = run.await;
        *last = Some((Instant::now(), result.clone()));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    #[tokio::test]
    async fn those_who_ask_meanwhile_share_a_probe_and_later_ones_do_not() {
        let (probe, go_on, runs) = (Arc::new(Probe::default()), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (probe, go_on, runs) = (Arc::clone(&probe), Arc::clone(&go_on), Arc::clone(&runs));
            tokio::spawn(async move {
                let run = async {
                    runs.fetch_add(1, Ordering::SeqCst);
                    go_on.notified().await;
                    Err(Error::ShuttingDown)
                };
                probe.shared(run).await
            })
        };
        let first = ask();
        tokio::task::yield_now().await;
        let others: Vec<_> = (0..100).map(|_| ask()).collect();
        tokio::task::yield_now().await;
        // If a caller gives up, the next one takes over.
        first.abort();
        assert!(first.await.is_err());
        tokio::task::yield_now().await;
        go_on.notify_one();
        for other in others {
            assert!(matches!(other.await.unwrap(), Err(Error::ShuttingDown)));
        }
        assert_eq!(runs.load(Ordering::SeqCst), 2);
        go_on.notify_one();
        assert!(ask().await.unwrap().is_err());
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }
}
