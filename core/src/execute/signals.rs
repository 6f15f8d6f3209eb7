//! Signals to the passes that run, read at yield points without a lock.

use crate::schedule::level::Level;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::time::{Duration, Instant};

/// Marks that there is no such time.
const NEVER: u64 = u64::MAX;

/// Signals that passes read at their yield points, and the time at which each replica last reached one.
#[derive(Debug)]
pub(super) struct Signals {
    /// Origin of the times below, which are in nanoseconds.
    began: Instant,
    /// Level of the most urgent batch that is ready; [`Level::Bulk`] if none interrupts others.
    ready: AtomicU8,
    /// Number of chunks whose clients left before the answer.
    departures: AtomicU64,
    /// True if all passes are to end.
    stopping: AtomicBool,
    /// Time at which requests that must wait before they interrupt are reconsidered.
    look_again: AtomicU64,
    /// Last yield point of each replica.
    reached: Vec<AtomicU64>,
}

impl Signals {
    pub(super) fn new(replicas: usize) -> Self {
        Self {
            began: Instant::now(),
            ready: AtomicU8::new(Level::Bulk as u8),
            departures: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            look_again: AtomicU64::new(NEVER),
            reached: (0..replicas).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(NEVER - 1)
    }

    /// Records that a replica has reached a yield point. Returns true once when waiting requests are to be reconsidered.
    pub(super) fn reach(&self, replica: usize) -> bool {
        let now = self.now();
        if let Some(reached) = self.reached.get(replica) {
            reached.store(now, Relaxed);
        }
        now >= self.look_again.load(Relaxed) && self.look_again.swap(NEVER, Relaxed) != NEVER
    }

    /// Time since a replica has reached a yield point.
    pub(super) fn since_reached(&self, replica: usize) -> Duration {
        let reached = self.reached.get(replica).map_or(0, |reached| reached.load(Relaxed));
        Duration::from_nanos(self.now().saturating_sub(reached))
    }

    /// Sets the time after which waiting requests are reconsidered; `None` for never.
    pub(super) fn look_again_in(&self, time: Option<Duration>) {
        let at = time.map_or(NEVER, |time| {
            self.now().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(NEVER)).min(NEVER - 1)
        });
        self.look_again.store(at, Relaxed);
    }

    /// Sets the level of the most urgent batch that is ready.
    pub(super) fn set_ready(&self, level: Level) {
        self.ready.store(level as u8, Release);
    }

    /// True if a batch is ready that interrupts batches of this level.
    pub(super) fn is_ready_above(&self, level: Level) -> bool {
        self.ready.load(Acquire) > level as u8
    }

    /// Records that a client left before its answer; its entries may be in a running batch.
    pub(super) fn depart(&self) {
        self.departures.fetch_add(1, Release);
    }

    /// Departures so far.
    pub(super) fn departures(&self) -> u64 {
        self.departures.load(Acquire)
    }

    /// Ends all passes at their next yield point.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Acquire)
    }
}
