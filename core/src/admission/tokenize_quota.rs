//! Quota of texts and ids that are tokenized or decoded without a forward pass, to which the queue's limits do not apply.
//!
//! A shown token takes a few hundred bytes of memory. The quota counts bytes of text, one more for each text, and ids. A byte
//! gives at most one token unless normalisation makes the text longer, so the number of a request's tokens after normalisation
//! has the same limit.

use super::quota::{Quota, Share};
use crate::error::{Error, Resource};
use crate::flow::Account;
use std::sync::Arc;

/// Limit of one request: bytes of text, ids, or shown tokens.
pub(crate) const MAX_OF_REQUEST: usize = 1 << 20;

/// Limit of all requests together.
const MAX_OF_ALL: usize = 4 * MAX_OF_REQUEST;

/// Quota of `/tokenize` and `/decode`.
#[derive(Debug, Clone)]
pub(crate) struct TokenizeQuota(Arc<Quota>);

impl Default for TokenizeQuota {
    fn default() -> Self {
        Self(Quota::new(MAX_OF_ALL, Resource::TokenizeInput))
    }
}

impl TokenizeQuota {
    /// The quota itself.
    pub(crate) fn quota(&self) -> &Arc<Quota> {
        &self.0
    }

    /// The share of one request of an account; `unit` names in messages what `amount` counts.
    ///
    /// # Errors
    /// [`Error::Validation`] beyond the limit of a request, [`Error::Overloaded`] while others hold the limit.
    pub(crate) fn admit(
        &self,
        account: Account,
        field: &'static str,
        amount: usize,
        unit: &str,
    ) -> Result<Share, Error> {
        if amount > MAX_OF_REQUEST {
            let problem = format!("has {amount} {unit}, the limit is {MAX_OF_REQUEST} in a request");
            return Err(Error::invalid(field, problem));
        }
        let share = self.0.share_of(account);
        share.grow(amount)?;
        Ok(share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_admitted_while_others_are_below_the_limit() {
        let quota = TokenizeQuota::default();
        let admit = |account, amount| quota.admit(Account(account), "ids", amount, "ids");
        let mut shares: Vec<_> = (0..5).map(|_| admit(1, MAX_OF_REQUEST - 1).unwrap()).collect();
        let error = admit(1, 0).unwrap_err();
        assert!(
            matches!(error, Error::Overloaded { limit: 4_194_304, resource: Resource::TokenizeInput, .. }),
            "{error}"
        );
        drop(admit(2, MAX_OF_REQUEST).unwrap());
        shares.pop();
        drop(admit(1, 1).unwrap());
        drop(shares);
        assert_eq!(quota.quota().held(), 0);
    }

    #[test]
    fn a_request_above_its_own_limit_is_invalid() {
        let error =
            TokenizeQuota::default().admit(Account(0), "inputs", MAX_OF_REQUEST + 1, "bytes of text").unwrap_err();
        let text = "`inputs` has 1048577 bytes of text, the limit is 1048576 in a request";
        assert!(matches!(&error, Error::Validation { .. }) && error.to_string() == text, "{error}");
    }
}
