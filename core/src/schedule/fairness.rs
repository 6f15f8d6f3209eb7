//! Simulation of first in, first out beside the real queue, which tells the entries that are overdue.

use super::budget::{Load, Policy};
use super::entry::{Entry, Ticket};
use super::prefix_index::PrefixIndex;
use super::prefix_tree::NodeId;
use super::work_counter::count_work;

/// Position of first in, first out among the waiting entries.
///
/// With each batch it goes on where it was, over the entries that still wait, until the next one would not fit. All that
/// is overdue when a batch begins was passed in one such step, so it fits a batch together.
#[derive(Debug)]
pub(crate) struct FifoCursor {
    /// Tickets before this would be in the batch that forms, or in an earlier one.
    next: Ticket,
    /// Tickets before this would be in an earlier batch: they are overdue.
    overdue: Ticket,
    /// Contents that the forming batch would have.
    load: Load,
    /// Mark of these contents in the index.
    mark: u64,
}

impl Default for FifoCursor {
    fn default() -> Self {
        Self { next: 0, overdue: 0, load: Load::default(), mark: 1 }
    }
}

impl FifoCursor {
    pub(crate) fn next(&self) -> Ticket {
        self.next
    }

    pub(crate) fn is_overdue(&self, ticket: Ticket) -> bool {
        ticket < self.overdue
    }

    /// Takes waiting entries, in order from [`next`](Self::next) on, into the simulated batch while they fit.
    pub(crate) fn advance<'a>(
        &mut self,
        waiting: impl Iterator<Item = (Ticket, &'a Entry, NodeId)>,
        index: &mut PrefixIndex,
        policy: &Policy,
    ) {
        for (ticket, entry, node) in waiting {
            count_work();
            if !entry.is_cancelled() {
                let len = entry.tokens.len();
                let new_tokens = if policy.folding.is_some() { index.unmarked_tokens(node, self.mark) } else { len };
                let load = self.load.with(new_tokens, len);
                if !policy.budget.fits(load) {
                    return;
                }
                index.mark(node, self.mark);
                self.load = load;
            }
            self.next = ticket + 1;
        }
    }

    /// The batch that formed has left; the simulated one leaves with it.
    pub(crate) fn close_batch(&mut self) {
        *self = Self { next: self.next, overdue: self.next, load: Load::default(), mark: self.mark + 1 };
    }
}
