//! Forming and running batches.

use super::budget::Load;
use super::entry::Ticket;
use super::fair_shares::{FairShares, Members, Seat};
use super::level::Level;
use super::prefix_index::Group;
use crate::flow::Account;
use std::collections::BTreeSet;

/// A forming batch.
#[derive(Debug, Default)]
pub(super) struct Forming {
    pub(super) load: Load,
    pub(super) seats: Vec<Seat>,
    pub(super) members: Members,
    /// Job of the first entry; its entries join in their order.
    pub(super) leading: Option<Ticket>,
    /// Lanes of the smallest and the largest job in it.
    pub(super) lanes: Option<[u8; 2]>,
    /// Tokens that sharing saved the leading job, less the tokens of riders.
    pub(super) saved: usize,
    /// Accounts and lanes reserved while it formed.
    pub(super) reserved: BTreeSet<(Account, u8)>,
    /// True if an entry in it was cancelled, so that another could take its room.
    pub(super) has_vacancy: bool,
}

impl Forming {
    /// Lanes of the smallest and the largest job, including one of this lane.
    pub(super) fn lanes_with(&self, lane: u8) -> [u8; 2] {
        self.lanes.map_or([lane; 2], |[smallest, largest]| [smallest.min(lane), largest.max(lane)])
    }

    /// Adds a seat, after which the batch has this load.
    pub(super) fn add(&mut self, seat: Seat, load: Load, shares: &FairShares) {
        self.load = load;
        self.lanes = Some(self.lanes_with(shares.job(seat.job).rank.lane));
        shares.join(&mut self.members, &seat);
        self.seats.push(seat);
    }
}

/// Number of a batch that has left, from 1 on.
pub(crate) type BatchId = u64;

/// A batch that has left and is not done.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) level: Level,
    /// True if it runs at the yield points of another.
    pub(super) interrupts: bool,
    /// Estimated time in nanoseconds.
    pub(super) estimate: f64,
    pub(super) seats: Vec<Seat>,
    pub(super) members: Members,
}

/// Candidates passed over in one search.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    pub(super) entries: Vec<Ticket>,
    pub(super) groups: Vec<Group>,
}

impl PassedOver {
    pub(super) fn len(&self) -> usize {
        self.entries.len() + self.groups.len()
    }
}

/// The next entry to join if it fits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) ticket: Ticket,
    /// Group that should join as a whole.
    pub(super) group: Option<Group>,
    pub(super) is_rider: bool,
}
