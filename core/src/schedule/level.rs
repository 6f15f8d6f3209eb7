//! Levels of batches.

/// Level of a batch. One of a higher level runs at the yield points of those of lower levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Interrupts nothing.
    Bulk,
    /// Of requests that take longer than an urgent batch may, and whose turn is before what runs.
    Due,
    /// Of short requests whose turn is before what runs.
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
