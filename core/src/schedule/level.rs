//! Levels of batches.

/// Level of a batch. A batch runs at the yield points of batches of lower levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Batch that interrupts nothing.
    Bulk,
    /// Batch of requests that are too long for an urgent batch and whose turn comes before the running requests.
    Due,
    /// Batch of short requests whose turn comes before the running requests.
    Urgent,
}

impl Level {
    /// The levels that interrupt others, the most urgent first.
    pub(crate) const INTERRUPTING: [Self; 2] = [Self::Urgent, Self::Due];

    /// Name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Due => "due",
            Self::Urgent => "urgent",
        }
    }
}
