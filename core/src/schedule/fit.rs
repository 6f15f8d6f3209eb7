//! Bounds on the batch that forms.

use super::budget::{Budget, Load, Policy};
use super::entry::{Entry, Ticket};
use super::fair_shares::{Job, JobSize};
use super::interrupting::{MAX_SHARED_TIME, MAX_URGENT_TIME};
use super::prefix_index::Group;
use super::queue::Queue;
use super::work::Work;
use crate::config::Scheduling;
use crate::flow::Account;
use crate::plan::ragged::causal_pairs;
use crate::plan::tokens::TaskId;

/// Maximum number of entries and groups that do not fit and are passed over, because a smaller one behind them may fit, before
/// the rest of a batch is left empty.
pub(super) const MAX_PASSED_OVER: usize = 16;

/// Minimum ratio of the room that a split group would fill to its shared prefix, which each of its batches would compute again.
const MIN_FILL_OF_SPLIT: usize = 16;

impl Queue {
    /// Index of the sub-model for texts with this task.
    pub(super) fn sub_model(&self, task: TaskId) -> usize {
        self.costs.sub_models.sub_model(task)
    }

    pub(super) fn is_reserved(&self, job: Ticket) -> bool {
        let job = self.shares.job(job);
        self.reserved.contains(&(job.flow.account, job.rank.lane))
    }

    /// True if the forming batch is short enough for a job of this account and lane.
    pub(super) fn may_mix(&self, account: Account, lane: u8) -> bool {
        let [smallest, largest] = self.forming.lanes_with(lane);
        let is_mixed = largest > smallest + 1 || self.forming.members.has_others(account);
        !is_mixed || self.costs.time(&self.forming.load.work) <= self.limit(account, lane)
    }

    /// Bound in nanoseconds on the forming batch with a job of this account and lane. If its lanes are far apart, the bound is twice the
    /// time of a small job, or the time of an urgent batch if that is longer, so that a small job waits no longer. Batches of several
    /// accounts have another bound.
    fn limit(&self, account: Account, lane: u8) -> f64 {
        let mut limit = self.costs.limit();
        if limit.is_infinite() {
            return limit;
        }
        let [smallest, largest] = self.forming.lanes_with(lane);
        if largest > smallest + 1 {
            let small = self.policy.quantum.saturating_mul(2 << smallest.min(30));
            limit = self.costs.time_of_rows(small).max(MAX_URGENT_TIME.as_nanos() as f64).min(limit);
        }
        let is_shared = self.forming.members.has_others(account);
        if is_shared { limit.min(MAX_SHARED_TIME.as_nanos() as f64) } else { limit }
    }

    /// True if the forming batch may have this load. Its last sequence is for `sub_model`, belongs to `job`, and shares
    /// the work `shared` with others.
    pub(super) fn fits(&self, load: &Load, (sub_model, job): (usize, &Job), shared: Work) -> bool {
        let limit = self.limit(job.flow.account, job.rank.lane);
        let is_in_time = || self.costs.allows_within(limit, &load.work, sub_model, shared);
        self.policy.budget.fits(load) && (load.sequences <= 1 || is_in_time())
    }

    /// Rows for `sub_model` that still fit with a load, together with `shared`, work that the load has already.
    pub(super) fn room(&self, load: &Load, sub_model: usize, shared: Work) -> usize {
        self.policy.budget.room(load).min(self.costs.room(&load.work, sub_model, shared))
    }

    /// Size of a job.
    pub(super) fn size(&self, entries: &[Entry]) -> JobSize {
        let mut size = JobSize { entries: entries.len(), ..JobSize::default() };
        for Entry { tokens, .. } in entries {
            size.tokens += tokens.len();
            size.longest = size.longest.max(tokens.len());
            let work = Work { rows: tokens.len(), pairs: causal_pairs(0, tokens.len() as u64) };
            size.work.add(self.sub_model(tokens.task()), work);
        }
        size
    }

    /// True if a group of texts for `sub_model` should wait for a batch with room for all of it.
    pub(super) fn is_better_whole(&self, group: &Group, sub_model: usize) -> bool {
        let Policy { budget: Budget { max_ragged_tokens, max_sequences, .. }, attention, .. } = self.policy;
        let room = self.room(&self.forming.load, sub_model, attention.saved(group.depth));
        let whole = self.room(&Load::default(), sub_model, Work::default());
        let fits_a_batch = group.depth + group.tokens <= whole
            && group.ragged_tokens <= max_ragged_tokens
            && group.entries <= max_sequences;
        // A group does not wait if it contains entries whose turn it is not.
        let is_due = self.shares.classes().next().is_some_and(|class| group.entries <= class.entries.len());
        group.tokens > room && fits_a_batch && is_due && group.head * MIN_FILL_OF_SPLIT > room
    }

    pub(super) fn may_pass_over(&self, passed_over: usize) -> bool {
        self.policy.scheduling == Scheduling::Prefix
            && self.forming.load.sequences < self.policy.budget.max_sequences
            && passed_over < MAX_PASSED_OVER
    }
}
