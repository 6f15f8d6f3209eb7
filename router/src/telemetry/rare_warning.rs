//! A warning that many requests may cause, written at most once a minute.

use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds between two lines.
const SECONDS: u64 = 60;

/// Limiter of one warning.
#[derive(Debug)]
pub(crate) struct RareWarning {
    /// Second from which the next line may be written.
    next: AtomicU64,
    /// Occurrences since the last line.
    silent: AtomicU64,
}

impl RareWarning {
    pub(crate) const fn new() -> Self {
        Self { next: AtomicU64::new(0), silent: AtomicU64::new(0) }
    }

    /// The number of occurrences since the last line, this one included, if it is time for another line. `now` is in seconds.
    pub(crate) fn is_due(&self, now: u64) -> Option<u64> {
        let occurrences = self.silent.fetch_add(1, Ordering::Relaxed) + 1;
        let next = self.next.load(Ordering::Relaxed);
        let is_due = now >= next
            && self.next.compare_exchange(next, now + SECONDS, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_due.then(|| {
            self.silent.fetch_sub(occurrences, Ordering::Relaxed);
            occurrences
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_was_silent() {
        let warning = RareWarning::new();
        assert_eq!(
            [100, 101, 159, 160, 161, 400].map(|now| warning.is_due(now)),
            [Some(1), None, None, Some(3), None, Some(2)]
        );
    }
}
