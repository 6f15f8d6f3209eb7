//! Quota shared by all requests, in fair parts between accounts.
//!
//! A request is admitted while the others hold less than the limit, regardless of its own size, so large requests have the same
//! chance as small ones. A request whose account holds less than its *fair part* is always admitted. The fair part is the limit
//! divided by the number of accounts that hold something or wait, so no account can take everything from the others.
//!
//! A single account holds at most the limit plus one request. Of several accounts, the largest holder has at most that much, the
//! next half of the limit plus a request, the third a third of it plus a request: n accounts together hold at most
//! (1 + 1/2 + ... + 1/n) times the limit plus n requests.

use crate::error::{Error, FairPart, Resource};
use crate::flow::Account;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, Semaphore};

/// Limit on a resource that all requests share.
#[derive(Debug)]
pub struct Quota {
    limit: usize,
    unit: Resource,
    state: Mutex<State>,
    released: Notify,
}

/// Units that one request holds; released when dropped.
#[derive(Debug)]
pub struct Share {
    quota: Arc<Quota>,
    account: Account,
    /// Changed under the quota's lock only.
    held: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// Units in all shares.
    held: usize,
    /// Shares that wait in turn.
    waiting: usize,
    /// Accounts that hold something or wait.
    accounts: HashMap<Account, OfAccount>,
}

/// Totals over the shares of an account.
#[derive(Debug, Default)]
struct OfAccount {
    held: usize,
    waiting: usize,
    /// Wait queue of [`Share::grow_in_turn`], first in, first out; created by the first share that waits.
    turn: Option<Arc<Semaphore>>,
}

/// A share that waits in turn; counted until dropped.
struct Waiting<'a> {
    share: &'a Share,
    turn: Arc<Semaphore>,
}

impl Quota {
    /// An unused quota.
    pub fn new(limit: usize, unit: Resource) -> Arc<Self> {
        Arc::new(Self { limit, unit, state: Mutex::default(), released: Notify::new() })
    }

    /// An empty share of the default account, which all requests have without API keys.
    pub fn share(self: &Arc<Self>) -> Share {
        self.share_of(Account::default())
    }

    /// An empty share of an account.
    pub fn share_of(self: &Arc<Self>, account: Account) -> Share {
        Share { quota: Arc::clone(self), account, held: AtomicUsize::new(0) }
    }

    /// Units that all shares hold.
    pub fn held(&self) -> usize {
        self.lock().held
    }

    /// Units that all shares hold, and the number of accounts that hold some or wait for some.
    pub fn held_by(&self) -> (usize, usize) {
        let state = self.lock();
        (state.held, state.accounts.len())
    }

    /// Limit in units.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Resource that is shared.
    pub fn resource(&self) -> Resource {
        self.unit
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

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// True if a share that holds `own` of its account's units may grow. `is_in_turn`: it is the account's first waiting share.
    fn admits(&self, account: Account, own: usize, limit: usize, is_in_turn: bool) -> bool {
        let waiting = self.accounts.get(&account).map_or(0, |known| known.waiting);
        let FairPart { size, held, .. } = self.fair_part(account, own, limit);
        let is_below_part = held < size;
        let is_free = self.held.saturating_sub(own) < limit;
        // Free units beyond fair parts belong to waiting shares first.
        is_in_turn && (is_below_part || is_free) || waiting == 0 && (is_below_part || is_free && self.waiting == 0)
    }

    /// Fair part of an account, for a share that holds `own` of its account's units.
    fn fair_part(&self, account: Account, own: usize, limit: usize) -> FairPart {
        let known = self.accounts.get(&account);
        let accounts = self.accounts.len() + usize::from(known.is_none());
        let held = known.map_or(0, |known| known.held).saturating_sub(own);
        FairPart { size: limit.div_ceil(accounts), accounts, held }
    }

    fn edit(&mut self, account: Account, edit: impl FnOnce(&mut OfAccount)) {
        let known = self.accounts.entry(account).or_default();
        edit(known);
        if known.held == 0 && known.waiting == 0 {
            self.accounts.remove(&account);
        }
    }

    fn add(&mut self, share: &Share, amount: usize) {
        self.held += amount;
        self.edit(share.account, |known| known.held += amount);
        share.held.fetch_add(amount, Ordering::Relaxed);
    }

    fn remove(&mut self, share: &Share, amount: usize) {
        self.held -= amount;
        self.edit(share.account, |known| known.held -= amount);
        share.held.fetch_sub(amount, Ordering::Relaxed);
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
    /// [`Error::Overloaded`] while another share of its account waits, or while the other shares of its account hold the fair part or more
    /// and either all other shares hold the limit or more, or any share waits in turn.
    pub fn grow(&self, amount: usize) -> Result<(), Error> {
        self.grow_by(|_| amount, false)
    }

    /// Grows to `total`.
    ///
    /// # Errors
    /// As [`grow`](Self::grow), but none if it already holds that much.
    pub fn grow_to(&self, total: usize) -> Result<(), Error> {
        if self.held() >= total {
            return Ok(());
        }
        self.grow_by(|held| total.saturating_sub(held), false)
    }

    /// Takes `amount` more as soon as its account has room. Waiting shares of an account go first in, first out, and before its other
    /// shares; free units beyond fair parts go to waiting shares too. Takes nothing if dropped while it waits.
    pub async fn grow_in_turn(&self, amount: usize) {
        // Registered as waiting only if necessary, because waiting shares keep others out.
        if self.grow(amount).is_ok() {
            return;
        }
        let waiting = Waiting::new(self);
        let _turn = waiting.turn.acquire().await;
        loop {
            let released = self.quota.released.notified();
            if self.grow_by(|_| amount, true).is_ok() {
                return;
            }
            released.await;
        }
    }

    /// Takes `amount` more without regard to the limit, for what exists already.
    pub fn force(&self, amount: usize) {
        self.quota.lock().add(self, amount);
    }

    /// Releases units beyond `amount`.
    pub fn shrink_to(&self, amount: usize) {
        if self.held() <= amount {
            return;
        }
        let mut state = self.quota.lock();
        let excess = self.held().saturating_sub(amount);
        state.remove(self, excess);
        drop(state);
        self.quota.released.notify_waiters();
    }

    /// Takes over what another share of the same quota holds.
    pub(crate) fn absorb(&self, other: &Self) {
        let mut state = self.quota.lock();
        let amount = other.held();
        state.remove(other, amount);
        state.add(self, amount);
    }

    fn grow_by(&self, amount: impl FnOnce(usize) -> usize, is_in_turn: bool) -> Result<(), Error> {
        let Quota { limit, unit, .. } = *self.quota;
        let mut state = self.quota.lock();
        let own = self.held();
        let amount = amount(own);
        let fits = state.held.checked_add(amount).is_some();
        if !fits || !state.admits(self.account, own, limit, is_in_turn) {
            // A single account may hold all of it.
            let fair_part = Some(state.fair_part(self.account, own, limit)).filter(|part| part.accounts > 1);
            return Err(Error::Overloaded { resource: unit, limit, fair_part });
        }
        state.add(self, amount);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

impl<'a> Waiting<'a> {
    fn new(share: &'a Share) -> Self {
        let mut state = share.quota.lock();
        state.waiting += 1;
        let known = state.accounts.entry(share.account).or_default();
        known.waiting += 1;
        let turn = Arc::clone(known.turn.get_or_insert_with(|| Arc::new(Semaphore::new(1))));
        Self { share, turn }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let Share { quota, account, .. } = self.share;
        let mut state = quota.lock();
        state.waiting -= 1;
        state.edit(*account, |known| known.waiting -= 1);
        drop(state);
        // With an account less the fair parts are larger.
        quota.released.notify_waiters();
    }
}

#[cfg(test)]
#[path = "tests/quota.rs"]
mod tests;
