//! Times of a forward pass by operation, for benchmarks. A thread without measurement pays for one branch.

use std::cell::RefCell;
use std::time::{Duration, Instant};

thread_local! {
    /// Times by operation; `None` until the thread's first [`take_profile`].
    static TIMES: RefCell<Option<Vec<(&'static str, Duration)>>> = const { RefCell::new(None) };
}

/// Runs an operation and adds its time to what [`take_profile`] returns.
pub(in crate::ops) fn timed<T>(name: &'static str, operation: impl FnOnce() -> T) -> T {
    let Some(start) = TIMES.with_borrow(Option::is_some).then(Instant::now) else { return operation() };
    let result = operation();
    let elapsed = start.elapsed();
    TIMES.with_borrow_mut(|times| {
        let times = times.get_or_insert_default();
        match times.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += elapsed,
            None => times.push((name, elapsed)),
        }
    });
    result
}

/// Time that this thread has spent in each operation since the last call. The first call starts the measurement.
pub fn take_profile() -> Vec<(&'static str, Duration)> {
    TIMES.replace(Some(Vec::new())).unwrap_or_default()
}
