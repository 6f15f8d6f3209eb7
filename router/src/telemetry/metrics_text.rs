//! Text of `/metrics`. Its readers need no key, so the memory that they hold together is bounded.

use axum::body::Bytes;
use metrics_exporter_prometheus::PrometheusHandle;
use metrics_process::Collector;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Unread texts beyond which readers share one.
const TEXTS: usize = 16;

/// Age at which a shared text is rendered again.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// Beginning of the sample of the process's CPU time.
const CPU_SECONDS: &str = "\nprocess_cpu_seconds_total ";

/// Renders the metrics for each reader, but only once a second for all readers while [`TEXTS`] texts are unread.
pub(crate) struct MetricsText {
    handle: PrometheusHandle,
    process: Collector,
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
        let process = Collector::default();
        process.describe();
        Self { handle, process, texts: Arc::new(Semaphore::new(TEXTS)), shared: Mutex::default() }
    }

    pub(crate) fn text(&self) -> Bytes {
        if let Ok(permit) = Arc::clone(&self.texts).try_acquire_owned() {
            return Bytes::from_owner(Counted { text: self.render(), _permit: permit });
        }
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        match &*shared {
            Some((written, text)) if written.elapsed() < SHARED_FOR => text.clone(),
            _ => shared.insert((Instant::now(), Bytes::from(self.render()))).1.clone(),
        }
    }

    fn render(&self) -> String {
        self.process.collect();
        let text = self.handle.render();
        with_total_names(match metrics_process::collector::collect().cpu_seconds_total {
            Some(seconds) => with_cpu_seconds(text, seconds),
            None => text,
        })
    }
}

/// The text with the CPU time in fractions of a second; counters of the recorder are whole numbers.
fn with_cpu_seconds(text: String, seconds: f64) -> String {
    let Some(at) = text.find(CPU_SECONDS).map(|at| at + CPU_SECONDS.len()) else { return text };
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    format!("{}{seconds:.2}{}", &text[..at], &text[end..])
}

/// The text, followed by a copy of text-embeddings-inference's counters with names that end in `_total`, as Prometheus'
/// conventions demand.
fn with_total_names(text: String) -> String {
    let mut again = String::new();
    for family in text.split_terminator("\n\n") {
        let name = family.lines().find_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
        if let Some(name) = name.filter(|name| !name.ends_with("_total")) {
            let total = format!("{name}_total");
            // The name comes first in each line, or right after `# HELP` and `# TYPE`.
            family.lines().for_each(|line| again += &(line.replacen(name, &total, 1) + "\n"));
            again.push('\n');
        }
    }
    text + &again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics;

    #[test]
    fn counters_with_other_servers_names_have_usual_ones_too() {
        let text = "# HELP te_a What te_a counts\n# TYPE te_a counter\nte_a{method=\"te_a\"} 1\nte_a 2\n\n\
                    # TYPE te_g gauge\nte_g 3\n\n# TYPE own_total counter\nown_total 4\n\n";
        let again = "# HELP te_a_total What te_a counts\n# TYPE te_a_total counter\nte_a_total{method=\"te_a\"} 1\n\
                     te_a_total 2\n\n";
        assert_eq!(with_total_names(text.to_owned()), format!("{text}{again}"));
    }

    #[test]
    fn cpu_time_has_fractions_of_a_second() {
        let text = "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total 3\n\n# TYPE a gauge\na 3\n";
        let expected = text.replace("total 3", "total 3.25");
        assert_eq!(with_cpu_seconds(text.to_owned(), 3.25), expected);
        assert_eq!(with_cpu_seconds("a 3\n".to_owned(), 3.25), "a 3\n");
    }

    #[test]
    fn readers_share_a_text_while_others_keep_theirs() {
        let metrics = MetricsText::new(metrics::install().unwrap());
        let mut held: Vec<Bytes> = (0..TEXTS).map(|_| metrics.text()).collect();
        let (first, second) = (metrics.text(), metrics.text());
        assert_eq!(first.as_ptr(), second.as_ptr());
        assert!(held.iter().all(|text| text.as_ptr() != first.as_ptr()));
        if let Some((written, _)) = &mut *metrics.shared.lock().unwrap() {
            *written = written.checked_sub(SHARED_FOR).unwrap();
        }
        let (old, first) = (first, metrics.text());
        assert_ne!(old.as_ptr(), first.as_ptr(), "it is written again");
        // A slice keeps the whole.
        let part = held[0].slice(1..2);
        held.remove(0);
        assert_eq!(metrics.text().as_ptr(), first.as_ptr());
        drop(part);
        assert_ne!(metrics.text().as_ptr(), first.as_ptr(), "there is room for one of its own");
    }
}
