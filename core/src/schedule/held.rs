//! Tokens and entries that each account holds in the queue.

use super::entry::Ticket;
use crate::flow::Account;
use std::collections::{BTreeMap, HashMap};

/// Entries that wait or are in forming batches, by ticket and by account.
#[derive(Debug, Default)]
pub(super) struct Held {
    /// Account and tokens of each entry.
    entries: HashMap<Ticket, (Account, usize)>,
    /// Tokens and number of entries, by account.
    accounts: BTreeMap<Account, [usize; 2]>,
}

impl Held {
    /// Tokens and number of an account's entries.
    pub(super) fn of(&self, account: Account) -> [usize; 2] {
        self.accounts.get(&account).copied().unwrap_or_default()
    }

    pub(super) fn add(&mut self, ticket: Ticket, account: Account, tokens: usize) {
        self.entries.insert(ticket, (account, tokens));
        let [all, count] = self.accounts.entry(account).or_default();
        *all += tokens;
        *count += 1;
    }

    /// Removes an entry that has left with its batch or was cancelled.
    pub(super) fn remove(&mut self, ticket: Ticket) {
        let Some((account, tokens)) = self.entries.remove(&ticket) else { return };
        if let Some([all, count]) = self.accounts.get_mut(&account) {
            *all -= tokens;
            *count -= 1;
            if *count == 0 {
                self.accounts.remove(&account);
            }
        }
    }
}
