//! The pace of an operation, by which a long one is split into parts.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Maximum estimated time of a part.
const LONGEST: Duration = Duration::from_millis(5);

/// Minimum time of a measured part; in shorter ones the start of the threads dominates.
const MEASURABLE: Duration = Duration::from_micros(50);

thread_local! {
    static SMALLEST: Cell<bool> = const { Cell::new(false) };
}

/// Runs forward passes whose operations are split into the smallest possible parts. For tests: only the time differs.
#[doc(hidden)]
pub fn in_smallest_parts<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            SMALLEST.set(self.0);
        }
    }
    let _restore = Restore(SMALLEST.replace(true));
    f()
}

/// True inside of [`in_smallest_parts`].
pub(in crate::ops) fn is_smallest() -> bool {
    SMALLEST.get()
}

/// Time for a unit of work, learned from the parts that have run. All replicas of a model share it.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Nanoseconds, the bits of an `f32`.
    nanos: AtomicU32,
}

impl Pace {
    /// A pace guessed until the first measurement; the guess should be too slow rather than too fast.
    pub(crate) fn guessed(nanos: f32) -> Self {
        Self { nanos: AtomicU32::new(nanos.to_bits()) }
    }

    /// Work of the next part: one of equal shares of `rest`, each of at most [`LONGEST`].
    pub(in crate::ops) fn share(&self, rest: f64) -> f64 {
        if is_smallest() {
            return 0.0;
        }
        rest / self.parts(rest)
    }

    /// Number of parts for this work, each of at most [`LONGEST`]; not finite in smallest parts.
    pub(in crate::ops) fn parts(&self, work: f64) -> f64 {
        if is_smallest() {
            return f64::INFINITY;
        }
        (work * f64::from(self.nanos()) / LONGEST.as_nanos() as f64).ceil().max(1.0)
    }

    /// Runs a part and learns from its time.
    pub(in crate::ops) fn measure<R>(&self, work: f64, part: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = part();
        self.learn(work, start.elapsed());
        result
    }

    /// Averages the old pace and the new one, so that a part during which the machine stood still is soon forgotten.
    fn learn(&self, work: f64, time: Duration) {
        if time >= MEASURABLE && work > 0.0 {
            let measured = (time.as_nanos() as f64 / work) as f32;
            self.nanos.store(f32::midpoint(self.nanos(), measured).to_bits(), Ordering::Relaxed);
        }
    }

    fn nanos(&self) -> f32 {
        f32::from_bits(self.nanos.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_and_take_no_longer_than_the_longest() {
        let pace = Pace::guessed(1.0);
        for millis in [0.0, 1.0, 4.99] {
            assert!((pace.share(millis * 1e6) - millis * 1e6).abs() < 1.0, "{millis} ms are one part");
        }
        for (millis, parts) in [(5.01, 2.0), (24.0, 5.0), (500.0, 100.0)] {
            assert!((pace.share(millis * 1e6) * parts - millis * 1e6).abs() < 1.0, "{millis} ms");
        }
    }

    #[test]
    fn a_pace_follows_what_is_measured_and_forgets_a_pause() {
        let pace = Pace::guessed(100.0);
        for _ in 0..12 {
            pace.learn(1e6, Duration::from_millis(2));
        }
        assert!((pace.nanos() - 2.0).abs() < 0.1, "{}", pace.nanos());
        pace.learn(1e6, Duration::from_millis(50));
        for _ in 0..6 {
            pace.learn(1e6, Duration::from_millis(2));
        }
        assert!(pace.nanos() < 3.0, "{}", pace.nanos());
        pace.learn(1.0, Duration::from_micros(40));
        pace.learn(0.0, Duration::from_secs(1));
        assert!(pace.nanos() < 3.0, "too short, and no work at all");
        assert_eq!(pace.measure(1e6, || 7), 7);
    }

    #[test]
    fn the_smallest_parts_are_those_of_a_test_alone() {
        let pace = Pace::guessed(1.0);
        assert!(in_smallest_parts(|| pace.share(1.0)) <= 0.0);
        assert!(pace.share(1.0) > 0.5);
    }
}
