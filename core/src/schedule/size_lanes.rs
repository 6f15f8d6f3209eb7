//! Order of an account's waiting entries: lanes of jobs of about the same size.
//!
//! The jobs of a lane differ in size by at most a factor of two. *Lanes* share an account's service in proportion to their open jobs:
//! the lane with the least virtual time per job is next (self-clocked fair queueing, Golestani, 1994); the first lane, of small jobs,
//! has a head start of one quantum per job. After a pause, a lane starts at the account's virtual time. The *jobs* of a lane go
//! one after another, so that the entries of a request stay together and share their prefixes. In the first lane, jobs that
//! arrive at about the same time form a class, in which the queue may choose freely.
//!
//! Only open jobs count. A client that sends its next request as soon as it has the answer to the last one joins the end of the lane,
//! so it cannot overtake waiting jobs repeatedly.

use super::entry::Ticket;
use super::work_counter::count_work;
use crate::flow::Weight;
use std::collections::{BTreeMap, BTreeSet};

/// Virtual time of a job of weight 1, in fractions of a token.
pub(crate) type Progress = u64;

/// Virtual time of one token at [`Weight`] 1.
const UNIT: u64 = 1 << 18;

/// Weight of a job with the default priority.
const USUAL: Weight = Weight(16);

/// Place of a job in the order of its account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Rank {
    /// Binary logarithm of the job's size in quanta.
    pub(crate) lane: u8,
    order: u64,
}

/// The lanes of an account.
#[derive(Debug)]
pub(crate) struct SizeLanes {
    /// Size of a job below which its size makes no difference.
    quantum: Progress,
    lanes: BTreeMap<u8, Lane>,
    /// Lanes with waiting entries, by their due time.
    turns: BTreeSet<(Progress, u8)>,
    /// Least virtual time of an active lane, without charges in flight, when a batch was done. A lane starts here after a pause.
    level: Progress,
}

#[derive(Debug, Default)]
struct Lane {
    /// Virtual time: charges divided by weight, including charges in flight.
    progress: Progress,
    /// Part of `progress` in forming or running batches.
    in_flight: Progress,
    /// Sum of the weights of its open jobs.
    open: u64,
    /// Value of `open` when the last job arrived: jobs that arrive together get equal shares until the last of them is done.
    weight: u64,
    /// Waiting entries by the order of their jobs.
    classes: BTreeMap<u64, BTreeSet<Ticket>>,
}

impl SizeLanes {
    /// Lanes without jobs. Below `quantum` tokens the size of a job makes no difference.
    pub(crate) fn new(quantum: usize) -> Self {
        let quantum = length(quantum, u64::from(USUAL.0)).max(2);
        Self { quantum, lanes: BTreeMap::new(), turns: BTreeSet::new(), level: 0 }
    }

    /// Place of a new job of `tokens` tokens, identified by the ticket of its first entry.
    pub(crate) fn rank(&self, job: Ticket, tokens: usize, weight: Weight) -> Rank {
        let length = length(tokens, u64::from(weight.0));
        if length > self.quantum {
            return Rank { lane: ((length - 1) / self.quantum).ilog2() as u8 + 1, order: job };
        }
        let begin = self.lanes.get(&0).map_or(0, |lane| lane.progress).max(self.level);
        let wait = self.quantum * u64::from(USUAL.0) / u64::from(weight.0.max(1));
        Rank { lane: 0, order: (begin + wait) / (self.quantum / 2) }
    }

    /// Counts a job in its lane until it is closed.
    pub(crate) fn open(&mut self, rank: Rank, weight: Weight) {
        let lane = self.lanes.entry(rank.lane).or_default();
        lane.open += u64::from(weight.0);
        lane.weight = lane.open;
    }

    /// Closes a job that is done.
    pub(crate) fn close(&mut self, rank: Rank, weight: Weight) {
        if let Some(lane) = self.lanes.get_mut(&rank.lane) {
            lane.open -= u64::from(weight.0);
        }
    }

    /// Adds an entry that begins to wait.
    pub(crate) fn add(&mut self, rank: Rank, ticket: Ticket) {
        count_work();
        let lane = self.lanes.entry(rank.lane).or_default();
        if lane.classes.is_empty() {
            lane.progress = lane.progress.max(self.level);
            self.turns.insert((due(lane.progress, rank.lane, self.quantum), rank.lane));
        }
        lane.classes.entry(rank.order).or_default().insert(ticket);
    }

    /// Removes an entry that no longer waits.
    pub(crate) fn remove(&mut self, rank: Rank, ticket: Ticket) {
        count_work();
        let Some(lane) = self.lanes.get_mut(&rank.lane) else { return };
        if let Some(class) = lane.classes.get_mut(&rank.order) {
            class.remove(&ticket);
            if class.is_empty() {
                lane.classes.remove(&rank.order);
            }
        }
        if lane.classes.is_empty() {
            self.turns.remove(&(due(lane.progress, rank.lane, self.quantum), rank.lane));
        }
    }

    /// True if no entry waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// First class of each lane, in the order of the lanes' turns.
    pub(crate) fn classes(&self) -> impl Iterator<Item = (Rank, &BTreeSet<Ticket>)> {
        self.turns.iter().filter_map(|&(_, lane)| {
            let (&order, entries) = self.lanes[&lane].classes.first_key_value()?;
            Some((Rank { lane, order }, entries))
        })
    }

    /// Charges a lane for tokens in a forming batch and returns the charge.
    pub(crate) fn charge(&mut self, lane: u8, tokens: usize) -> Progress {
        self.edit(lane, |lane| {
            let length = length(tokens, lane.weight);
            lane.progress += length;
            lane.in_flight += length;
            length
        })
    }

    /// Refunds the charge for a batch that is given up.
    pub(crate) fn refund(&mut self, lane: u8, progress: Progress) {
        self.edit(lane, |lane| {
            lane.progress = lane.progress.saturating_sub(progress);
            lane.in_flight = lane.in_flight.saturating_sub(progress);
        });
    }

    /// Subtracts a charge that is no longer in flight.
    pub(crate) fn land(&mut self, lane: u8, progress: Progress) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.in_flight = lane.in_flight.saturating_sub(progress);
        }
        let active = self.lanes.values().filter(|lane| !lane.classes.is_empty() || lane.in_flight > 0);
        let least = active.map(|lane| lane.progress.saturating_sub(lane.in_flight)).min();
        self.level = self.level.max(least.unwrap_or(0));
    }

    /// Adds `tokens` to the charges of a lane; negative if they were too high.
    pub(crate) fn correct(&mut self, lane: u8, tokens: i64) {
        self.edit(lane, |lane| {
            let length = length(tokens.unsigned_abs() as usize, lane.weight);
            lane.progress = match tokens {
                0.. => lane.progress.saturating_add(length),
                _ => lane.progress.saturating_sub(length),
            };
        });
    }

    /// True if a job would come before the larger jobs of a lane.
    pub(crate) fn precedes(&self, rank: Rank, lane: u8) -> bool {
        let due = |id| self.lanes.get(&id).map_or(0, |lane| due(lane.progress, id, self.quantum));
        lane > rank.lane && due(lane) > due(rank.lane)
    }

    /// Closes a batch that has left with entries of these lanes. Room for which earlier lanes had no use is free: the virtual time of a
    /// lane is reduced until it is at most one job of its size ahead of the others. The `reserved` lanes, which were not seated, did have
    /// use for the room.
    pub(crate) fn close_batch(&mut self, lanes: impl IntoIterator<Item = u8>, reserved: BTreeSet<u8>) {
        let waiting = self.turns.iter().filter(|(_, id)| !reserved.contains(id)).map(|(_, id)| self.lanes[id].progress);
        let least = waiting.min().map_or(self.level, |progress| self.level.max(progress));
        for id in lanes {
            let most = least.saturating_add(self.quantum.saturating_mul(1 << id.clamp(1, 32)));
            self.edit(id, |lane| lane.lower_to(most));
        }
    }

    fn edit<R>(&mut self, id: u8, edit: impl FnOnce(&mut Lane) -> R) -> R {
        count_work();
        let lane = self.lanes.entry(id).or_default();
        let waits = self.turns.remove(&(due(lane.progress, id, self.quantum), id));
        let result = edit(lane);
        if waits {
            self.turns.insert((due(lane.progress, id, self.quantum), id));
        }
        result
    }
}

impl Lane {
    /// Lowers the virtual time to `most`; charges in flight are lowered by as much.
    fn lower_to(&mut self, most: Progress) {
        let lowered = self.progress.saturating_sub(most);
        self.progress -= lowered;
        self.in_flight = self.in_flight.saturating_sub(lowered);
    }
}

/// Charge for `tokens` tokens at a weight.
fn length(tokens: usize, weight: u64) -> Progress {
    (tokens as u64).saturating_mul(UNIT) / weight.max(1)
}

/// Virtual time by which the lanes are ordered: small jobs have a head start of one quantum each.
fn due(progress: Progress, lane: u8, quantum: Progress) -> Progress {
    if lane == 0 { progress } else { progress + quantum }
}

#[cfg(test)]
#[path = "tests/size_lanes.rs"]
mod tests;
