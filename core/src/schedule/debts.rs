//! Debts: compute time that accounts have had at yield points and that the interrupted batches have not had since.

use crate::flow::Account;
use std::collections::HashMap;
use std::time::Duration;

/// Debts of all accounts. While an account's debt is below the limit its requests may interrupt batches; each second that interrupted
/// batches compute pays one back. So an account that never ceases gets half of the time, beside a head start of the limit.
#[derive(Debug)]
pub(crate) struct Debts {
    limit: Duration,
    /// Time that batches without a debt have computed.
    paid: Duration,
    accounts: HashMap<Account, Debt>,
}

#[derive(Debug, Clone, Copy)]
struct Debt {
    amount: Duration,
    /// [`Debts::paid`] when this was the amount.
    at: Duration,
}

impl Debts {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, paid: Duration::ZERO, accounts: HashMap::new() }
    }

    /// An account's requests have interrupted batches for so long.
    pub(crate) fn borrow(&mut self, account: Account, time: Duration) {
        let amount = self.debt(account) + time;
        self.accounts.insert(account, Debt { amount, at: self.paid });
    }

    /// Batches that may be interrupted have computed for so long.
    pub(crate) fn repay(&mut self, time: Duration) {
        self.paid += time;
    }

    /// Time that such batches must compute before the account may interrupt one.
    pub(crate) fn wait(&self, account: Account) -> Duration {
        match self.debt(account) {
            debt if debt < self.limit => Duration::ZERO,
            // Below the limit, by the resolution of the clock.
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
