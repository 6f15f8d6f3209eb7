//! Intake of an engine: whether it accepts requests, and how many it has. The process's quota of requests also counts
//! other engines' requests.

use crate::error::Error;
use tokio::sync::watch;

/// Intake, open at first.
#[derive(Debug, Default)]
pub(super) struct Intake(watch::Sender<State>);

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    /// Accepted requests that are not over.
    requests: usize,
}

/// An accepted request; over when dropped.
#[derive(Debug)]
pub(super) struct Accepted<'a>(&'a Intake);

impl Intake {
    /// # Errors
    /// [`Error::ShuttingDown`] once it is closed.
    pub(super) fn accept(&self) -> Result<Accepted<'_>, Error> {
        let is_accepted = self.0.send_if_modified(|state| {
            state.requests += usize::from(!state.is_closed);
            !state.is_closed
        });
        if is_accepted { Ok(Accepted(self)) } else { Err(Error::ShuttingDown) }
    }

    pub(super) fn close(&self) {
        self.0.send_modify(|state| state.is_closed = true);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.borrow().is_closed
    }

    /// Waits until no accepted request is left.
    pub(super) async fn all_over(&self) {
        // Fails only without a sender, which `self` is.
        drop(self.0.subscribe().wait_for(|state| state.requests == 0).await);
    }
}

impl Drop for Accepted<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.requests -= 1);
    }
}
