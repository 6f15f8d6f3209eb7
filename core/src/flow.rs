//! Flows: what shares are between. An API key has an account, and its requests share what the account gets.

/// Account of an API key, or of all requests where there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Account(pub u32);

/// Priority of a request among those of its account; lower goes first. Each step halves its share of the service beside
/// others. Values beyond [`LIMIT`](Self::LIMIT) either way count as the limit, so that no request waits for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Priority(i8);

impl Priority {
    /// Steps in either direction that make a difference.
    pub const LIMIT: i8 = 4;

    /// The priority with this number, 0 for the usual one.
    pub fn new(number: i64) -> Self {
        let limit = i64::from(Self::LIMIT);
        Self(number.clamp(-limit, limit) as i8)
    }

    /// 1 at the last priority, 16 at the usual one, 256 at the first.
    pub(crate) fn weight(self) -> Weight {
        Weight(1 << (Self::LIMIT - self.0))
    }
}

/// Part in the service beside other jobs, relative to theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight(pub(crate) u32);

/// Owner of a request in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flow {
    /// Account that its service is counted in.
    pub(crate) account: Account,
    /// Priority within the account.
    pub(crate) priority: Priority,
}
