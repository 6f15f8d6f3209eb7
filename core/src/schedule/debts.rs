//! Debts: compute time that accounts have used at yield points and the interrupted batches have not yet made up for.

use crate::flow::Account;
use std::collections::HashMap;
use std::time::Duration;

/// Debts of all accounts. An account's requests may interrupt batches while its debt is below the limit. Each second that interrupted
/// batches compute pays back one second, so an account that always interrupts gets half of the time, plus the limit once.
#[derive(Debug)]
pub(crate) struct Debts {
    limit: Duration,
    /// Compute time of interruptible batches so far.
    paid: Duration,
    accounts: HashMap<Account, Debt>,
}

#[derive(Debug, Clone, Copy)]
struct Debt {
    amount: Duration,
    /// Value of [`Debts::paid`] when `amount` was set.
    at: Duration,
}

impl Debts {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, paid: Duration::ZERO, accounts: HashMap::new() }
    }

    /// Adds the time for which an account's requests have interrupted batches.
    pub(crate) fn borrow(&mut self, account: Account, time: Duration) {
        let amount = self.debt(account) + time;
        self.accounts.insert(account, Debt { amount, at: self.paid });
    }

    /// Adds compute time of interruptible batches, which pays back every debt.
    pub(crate) fn repay(&mut self, time: Duration) {
        self.paid += time;
    }

    /// Time that interruptible batches must compute before the account may interrupt one.
    pub(crate) fn wait(&self, account: Account) -> Duration {
        match self.debt(account) {
            debt if debt < self.limit => Duration::ZERO,
            // One nanosecond more, because the debt must be below the limit.
            debt => debt - self.limit + Duration::from_nanos(1),
        }
    }

    fn debt(&self, account: Account) -> Duration {
        let debt = self.accounts.get(&account);
        debt.map_or(Duration::ZERO, |debt| debt.amount.saturating_sub(self.paid - debt.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_account_borrows_up_to_the_limit_and_pays_back_what_others_compute() {
        let mut debts = Debts::new(SECOND);
        let [one, other] = [1, 2].map(Account);
        debts.borrow(one, SECOND / 2);
        assert_eq!(debts.wait(one), Duration::ZERO);
        debts.borrow(one, SECOND);
        assert_eq!(debts.wait(one), SECOND / 2 + Duration::from_nanos(1));
        assert_eq!(debts.wait(other), Duration::ZERO);
        debts.repay(SECOND / 4);
        debts.borrow(other, 2 * SECOND);
        assert_eq!(debts.wait(one), SECOND / 4 + Duration::from_nanos(1));
        debts.repay(SECOND / 2);
        assert_eq!([one, other].map(|account| debts.wait(account).is_zero()), [true, false]);
        debts.repay(10 * SECOND);
        debts.borrow(other, SECOND / 2);
        assert_eq!(debts.wait(other), Duration::ZERO, "nothing is saved up");
        debts.borrow(other, SECOND);
        assert_eq!(debts.wait(other), SECOND / 2 + Duration::from_nanos(1));
    }
}
