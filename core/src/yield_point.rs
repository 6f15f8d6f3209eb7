//! Yield points: places between two operations of a forward pass at which other work may run.

use std::time::Duration;
use thiserror::Error;

/// Callback of a backend between two operations of a forward pass, on the thread of the pass, while no thread of its team computes.
///
/// A backend reaches a yield point every few milliseconds. There the engine may run a whole batch on another backend, which has the same
/// weights and threads.
pub trait YieldPoint {
    /// Runs all work that is more urgent than the pass.
    ///
    /// # Errors
    /// [`Stopped`]: the pass must end here.
    fn reach(&mut self) -> Result<(), Stopped>;

    /// Time that the pass has spent in [`reach`](Self::reach).
    fn away(&self) -> Duration;
}

/// A pass must end, because no request waits for it any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no request waits for the pass any more")]
pub struct Stopped;

/// Yield points of a pass that nothing interrupts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uninterrupted;

impl YieldPoint for Uninterrupted {
    fn reach(&mut self) -> Result<(), Stopped> {
        Ok(())
    }

    fn away(&self) -> Duration {
        Duration::ZERO
    }
}
