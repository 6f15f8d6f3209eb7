//! Yield points: the places between two operations of a forward pass at which it gives way.

use std::time::Duration;
use thiserror::Error;

/// What a backend calls between two operations of a forward pass, on the thread that runs the pass, while no thread of its team computes.
///
/// A backend reaches a yield point every few milliseconds. There the engine may run another backend over the same weights on the same
/// threads, from the beginning of a batch to its end.
pub trait YieldPoint {
    /// Returns once nothing more urgent than the pass is left.
    ///
    /// # Errors
    /// [`Stopped`]: the pass has to end here.
    fn reach(&mut self) -> Result<(), Stopped>;

    /// Time that the pass has spent in [`reach`](Self::reach).
    fn away(&self) -> Duration;
}

/// Nobody waits for a pass any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody waits for the pass any more")]
pub struct Stopped;

/// The yield points of a pass that nothing interrupts.
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
