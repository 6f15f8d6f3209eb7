//! Quota shared by all requests.
//!
//! A request is admitted while the others hold less than the limit, whatever its own size. Large requests have the same
//! chance as small ones, and all together never hold more than the limit and one request.

use crate::{Error, Resource};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{Notify, Semaphore};

/// Limit on a resource that all requests share.
#[derive(Debug)]
pub struct Quota {
    limit: usize,
    unit: Resource,
    /// Units in all shares.
    held: AtomicUsize,
    /// Wait queue of [`Share::grow_in_turn`], first in, first out; the permit is taken while anybody waits.
    turn: Semaphore,
    released: Notify,
}

/// Units that one request holds; given back when dropped.
#[derive(Debug)]
pub struct Share {
    quota: Arc<Quota>,
    held: AtomicUsize,
}

impl Quota {
    /// A quota of which nothing is held.
    pub fn new(limit: usize, unit: Resource) -> Arc<Self> {
        Arc::new(Self { limit, unit, held: AtomicUsize::new(0), turn: Semaphore::new(1), released: Notify::new() })
    }

    /// An empty share.
    pub fn share(self: &Arc<Self>) -> Share {
        Share { quota: Arc::clone(self), held: AtomicUsize::new(0) }
    }

    /// Units that all shares hold.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Waits until nothing is held.
    pub async fn all_released(&self) {
        loop {
            let released = self.released.notified();
            if self.held() == 0 {
                return;
            }
            released.await;
        }
    }
}

impl Share {
    /// Units that this share holds.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes `amount` more.
    ///
    /// # Errors
    /// [`Error::Overloaded`] while the others hold the limit or more, or while another share waits in turn.
    pub fn grow(&self, amount: usize) -> Result<(), Error> {
        let Quota { limit, unit, ref turn, .. } = *self.quota;
        if turn.available_permits() > 0 && self.try_grow(amount) {
            return Ok(());
        }
        Err(Error::Overloaded { resource: unit, limit })
    }

    /// Takes `amount` more as soon as the others hold less than the limit. Shares that wait go first in, first out, and
    /// before any that does not wait. Dropped while it waits, it takes nothing.
    pub async fn grow_in_turn(&self, amount: usize) {
        // Without waiting nobody is turned away meanwhile.
        if self.grow(amount).is_ok() {
            return;
        }
        let _turn = self.quota.turn.acquire().await;
        loop {
            let released = self.quota.released.notified();
            if self.try_grow(amount) {
                return;
            }
            released.await;
        }
    }

    /// Takes `amount` more whatever the others hold, for what exists already.
    pub fn force(&self, amount: usize) {
        self.quota.held.fetch_add(amount, Ordering::SeqCst);
        self.held.fetch_add(amount, Ordering::Relaxed);
    }

    /// Gives back what is held beyond `amount`.
    pub fn shrink_to(&self, amount: usize) {
        let held = self.held.fetch_min(amount, Ordering::Relaxed);
        if held > amount {
            self.quota.held.fetch_sub(held - amount, Ordering::SeqCst);
            self.quota.released.notify_waiters();
        }
    }

    /// Takes over what another share of the same quota holds.
    pub(crate) fn absorb(&self, other: &Self) {
        self.held.fetch_add(other.held.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn try_grow(&self, amount: usize) -> bool {
        let Quota { limit, ref held, .. } = *self.quota;
        let own = self.held();
        let grown = |held: usize| if held.saturating_sub(own) < limit { held.checked_add(amount) } else { None };
        let is_admitted = held.fetch_update(Ordering::SeqCst, Ordering::SeqCst, grown).is_ok();
        if is_admitted {
            self.held.fetch_add(amount, Ordering::Relaxed);
        }
        is_admitted
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
#[path = "tests/quota.rs"]
mod tests;
