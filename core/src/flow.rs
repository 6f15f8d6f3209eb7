//! Flows: accounts and priorities between which compute time is shared. An API key has one account, whose share its requests divide.

/// Account of an API key, or of all requests where there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Account(pub u32);

/// Priority of a request within its account; lower goes first. Each step halves the request's share. Values beyond
/// [`LIMIT`](Self::LIMIT) in either direction count as the limit, so that no request waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priority(i8);

impl Priority {
    /// Maximum number of steps in either direction.
    pub const LIMIT: i8 = 4;

    /// Priority with this number; 0 is the default.
    pub fn new(number: i64) -> Self {
        let limit = i64::from(Self::LIMIT);
        Self(number.clamp(-limit, limit) as i8)
    }

    /// Weight: 1 at the last priority, 16 at the default, 256 at the first.
    pub(crate) fn weight(self) -> Weight {
        Weight(1 << (Self::LIMIT - self.0))
    }
}

/// Share of a job relative to other jobs of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight(pub(crate) u32);

/// Owner of a request in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flow {
    /// Account that is charged for it.
    pub(crate) account: Account,
    /// Priority within the account.
    pub(crate) priority: Priority,
}
