//! Text of `/metrics`. Its readers need no key, so what they hold together is bounded.

use axum::body::Bytes;
use metrics_exporter_prometheus::PrometheusHandle;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Texts that readers hold at once before they share one.
const TEXTS: usize = 16;

/// Age at which a shared text is written anew.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Renders the metrics: anew for each reader, but while others leave [`TEXTS`] texts unread, one text a second for all.
pub(crate) struct MetricsText {
    handle: PrometheusHandle,
    texts: Arc<Semaphore>,
    shared: Mutex<Option<(Instant, Bytes)>>,
}

/// A text that counts until its last byte is written.
struct Counted {
    text: String,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

impl MetricsText {
    pub(crate) fn new(handle: PrometheusHandle) -> Self {
        Self { handle, texts: Arc::new(Semaphore::new(TEXTS)), shared: Mutex::default() }
    }

    pub(crate) fn text(&self) -> Bytes {
        if let Ok(permit) = Arc::clone(&self.texts).try_acquire_owned() {
            return Bytes::from_owner(Counted { text: self.handle.render(), _permit: permit });
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some((written, text)) if written.elapsed() < SHARED_FOR => text.clone(),
            _ => shared.insert((Instant::now(), Bytes::from(self.handle.render()))).1.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics;

    #[test]
    fn readers_share_a_text_while_others_keep_theirs() {
        let metrics = MetricsText::new(metrics::install().unwrap());
        let mut held: Vec<Bytes> = (0..TEXTS).map(|_| metrics.text()).collect();
        let (first, second) = (metrics.text(), metrics.text());
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert!(held.iter().all(|text| text.as_ptr() != first.as_ptr()));
        // A slice keeps the whole.
        let part = held[0].slice(1..2);
        held.remove(0);
        assert_eq!(metrics.text().as_ptr(), first.as_ptr());
        drop(part);
        assert_ne!(metrics.text().as_ptr(), first.as_ptr(), "there is room for one of its own");
    }
}
