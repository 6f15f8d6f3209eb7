//! Where a forward pass spends its time, by operation. Costs nothing unless the feature `profile` is on.

#[cfg(feature = "profile")]
use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

#[cfg(feature = "profile")]
thread_local! {
    static TIMES: RefCell<Vec<(&'static str, Duration)>> = const { RefCell::new(Vec::new()) };
}

/// Runs an operation and, with the feature `profile`, adds its time to what [`take_profile`] returns.
pub(super) fn timed<T>(name: &'static str, operation: impl FnOnce() -> T) -> T {
    #[cfg(not(feature = "profile"))]
    {
        let _ = name;
        operation()
    }
    #[cfg(feature = "profile")]
    {
        let start = Instant::now();
        let result = operation();
        let elapsed = start.elapsed();
        TIMES.with_borrow_mut(|times| match times.iter_mut().find(|(known, _)| *known == name) {
            Some((_, total)) => *total += elapsed,
            None => times.push((name, elapsed)),
        });
        result
    }
}

/// The time that this thread has spent in each operation since the last call.
#[cfg(feature = "profile")]
pub fn take_profile() -> Vec<(&'static str, Duration)> {
    TIMES.take()
}
