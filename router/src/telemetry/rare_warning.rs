//! A warning that many requests may cause, written at most once a minute.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines.
const PERIOD: Duration = Duration::from_secs(60);

/// Limiter of one warning.
#[derive(Debug)]
pub(crate) struct RareWarning(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    last_line: Option<Instant>,
    /// Occurrences since the last line.
    silent: u64,
}

impl RareWarning {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Seen { last_line: None, silent: 0 }))
    }

    /// The number of occurrences since the last line, this one included, if it is time for another line.
    pub(crate) fn is_due(&self, now: Instant) -> Option<u64> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.silent += 1;
        if seen.last_line.is_some_and(|last| now.duration_since(last) < PERIOD) {
            return None;
        }
        seen.last_line = Some(now);
        Some(std::mem::take(&mut seen.silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_counts_what_was_silent() {
        let (warning, begin) = (RareWarning::new(), Instant::now());
        let due = [100, 101, 159, 160, 161, 400].map(|at| warning.is_due(begin + Duration::from_secs(at)));
        assert_eq!(due, [Some(1), None, None, Some(3), None, Some(2)]);
    }
}
