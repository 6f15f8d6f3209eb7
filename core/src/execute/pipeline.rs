//! State that the planner, the backend loops and submitting requests share.

use super::signals::Signals;
use crate::admission::queue_quota::{QueueLimits, QueueQuota, QueueShare};
use crate::admission::quota::Quota;
use crate::backend::SubModelMap;
use crate::config::Scheduling;
use crate::error::BackendError;
use crate::flow::Account;
use crate::metrics;
use crate::schedule::batcher::{Buffers, Compaction, FormingBatch};
use crate::schedule::budget::{AttentionRows, Budget, Policy};
use crate::schedule::interrupting::InterruptPolicy;
use crate::schedule::level::Level;
use crate::schedule::queue::Queue;
use crate::schedule::sub_model_costs::SubModelCosts;
use crate::schedule::work::Work;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Size of a request in tokens below which its size makes no difference to its turn: a query, or a passage or two.
const QUANTUM: usize = 512;

/// Configuration of the pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipelineConfig {
    pub(crate) budget: Budget,
    pub(crate) limits: QueueLimits,
    pub(crate) scheduling: Scheduling,
    pub(crate) compaction: Compaction,
    pub(crate) attention: AttentionRows,
    /// Maximum estimated time of a batch.
    pub(crate) max_batch_time: Option<Duration>,
    /// `None` if batches are not interrupted.
    pub(crate) interrupting: Option<InterruptPolicy>,
}

/// Queue, slots and the wake-up calls of the threads.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(super) compaction: Compaction,
    interrupting: Option<InterruptPolicy>,
    max_batch_time: Option<Duration>,
    pub(super) sub_models: SubModelMap,
    pub(super) quota: QueueQuota,
    pub(super) state: Mutex<State>,
    pub(super) signals: Signals,
    /// Work for the planner: an entry arrived, the slot was emptied, or the pipeline was closed.
    pub(super) planner_wake: Condvar,
    /// Work for a backend: a slot was filled, or no more batches will come.
    pub(super) backend_wake: Condvar,
    failed_batches: AtomicUsize,
    /// [`BackendError::DeviceLost`] once the device has failed permanently.
    lost: watch::Sender<Option<BackendError>>,
}

/// State that the threads of a pipeline share under its lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    /// Measured costs of batches.
    costs: SubModelCosts,
    /// Quota shares of the entries that wait or are in forming batches, by account.
    pub(super) shares: BTreeMap<Account, QueueShare>,
    /// Slots: the batch of each level that is ready and can still grow.
    pub(super) slots: BTreeMap<Level, FormingBatch>,
    /// True while entries have been taken and their batch is not in its slot yet.
    pub(super) is_forming: bool,
    /// Memory of finished batches, at most one for each backend and each slot.
    pub(super) spare: Vec<Buffers>,
    /// Backends that wait for a batch.
    pub(super) idle_backends: usize,
    /// Passes of each backend.
    pub(super) running: Vec<Running>,
    /// True once nothing is accepted any more.
    pub(super) closed: bool,
    /// True once the pipeline is closed and the last batch has been planned.
    pub(super) drained: bool,
}

/// Passes of a backend.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Running {
    /// Time at which its thread took the batch that it computes or submits.
    pub(super) since: Option<Instant>,
    /// Time since which an earlier pass is awaited, which its device runs.
    pub(super) awaited_since: Option<Instant>,
    /// End of the last such pass.
    awaited_until: Option<Instant>,
}

impl Running {
    /// The time at which a pass that was taken at this time began: a device begins a pass when it is done with the one before.
    pub(super) fn began(&self, taken: Instant) -> Instant {
        self.awaited_until.map_or(taken, |until| taken.max(until))
    }

    /// The awaited pass is done.
    pub(super) fn end_awaited(&mut self) {
        (self.awaited_since, self.awaited_until) = (None, Some(Instant::now()));
    }

    /// The part of the time from `waiting` to `now`, during which the thread waited for a batch, in which the device had no pass either.
    pub(super) fn idle(&self, waiting: Instant, now: Instant) -> Duration {
        match (self.awaited_since, self.awaited_until) {
            (Some(_), _) => Duration::ZERO,
            (None, Some(until)) => now - waiting.max(until).min(now),
            (None, None) => now - waiting,
        }
    }
}

impl Pipeline {
    /// A pipeline for `replicas` backends of a model with these sub-models.
    pub(super) fn new(config: PipelineConfig, replicas: usize, sub_models: SubModelMap) -> Self {
        let PipelineConfig { budget, limits, scheduling, compaction, attention, max_batch_time, interrupting } = config;
        let quota = QueueQuota::new(limits);
        let costs = SubModelCosts::new(sub_models.clone(), replicas);
        let policy = Policy { budget, scheduling, folding: compaction.folds(), attention, quantum: QUANTUM };
        let mut queue = Queue::new(policy, interrupting);
        queue.set_costs(costs.bound(max_batch_time));
        let state = State {
            queue,
            costs,
            shares: BTreeMap::new(),
            slots: BTreeMap::new(),
            is_forming: false,
            spare: Vec::new(),
            idle_backends: 0,
            running: vec![Running::default(); replicas],
            closed: false,
            drained: false,
        };
        Self {
            compaction,
            interrupting,
            max_batch_time,
            sub_models,
            quota,
            state: Mutex::new(state),
            signals: Signals::new(replicas),
            planner_wake: Condvar::new(),
            backend_wake: Condvar::new(),
            failed_batches: AtomicUsize::new(0),
            lost: watch::Sender::new(None),
        }
    }

    /// Limits of the queue.
    pub(crate) fn limits(&self) -> QueueLimits {
        self.quota.limits
    }

    /// Quotas of inputs and tokens that wait.
    pub(crate) fn quotas(&self) -> [&Arc<Quota>; 2] {
        self.quota.quotas()
    }

    /// Stops accepting requests; accepted ones are still computed.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.planner_wake.notify_one();
    }

    /// Stops accepting requests and ends the running passes at their next yield point. Accepted requests are answered with
    /// [`BackendError::Stopped`].
    pub(crate) fn stop(&self) {
        self.signals.stop();
        self.close();
    }

    /// Compaction of the batches of a level.
    pub(super) fn compaction_of(&self, level: Level) -> Compaction {
        let max_tokens = match (level, self.interrupting) {
            (Level::Bulk, _) | (_, None) => self.compaction.max_tokens,
            (Level::Due, Some(policy)) => policy.due.max_tokens,
            (Level::Urgent, Some(policy)) => policy.urgent.max_tokens,
        };
        Compaction { max_tokens, ..self.compaction }
    }

    /// Pays back debts by the compute time `unpaid` of a pass, and lets the planner reconsider requests that wait for this.
    pub(super) fn look_again(&self, unpaid: Duration) {
        self.lock().queue.repay(unpaid);
        self.planner_wake.notify_one();
    }

    /// Closes the pipeline because the device has failed permanently. Accepted requests get the same error.
    pub(super) fn lose_device(&self, error: &BackendError) {
        self.lost.send_replace(Some(error.clone()));
        self.close();
    }

    /// Failure of the device, if it has failed permanently.
    pub(crate) fn lost_device(&self) -> Option<BackendError> {
        self.lost.borrow().clone()
    }

    /// Waits until the device has failed permanently.
    pub(crate) async fn until_device_lost(&self) -> BackendError {
        match self.lost.subscribe().wait_for(Option::is_some).await.map(|error| error.clone()) {
            Ok(Some(error)) => error,
            // The pipeline owns the sender, and the value has been set.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Number of latest consecutive batches without a single good answer.
    pub(crate) fn failed_batches(&self) -> usize {
        self.failed_batches.load(Ordering::Relaxed)
    }

    /// Time since a running backend took its batch or reached a yield point, its last sign of life, or since its device was done with the
    /// pass before; the longest of several backends.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        let state = self.lock();
        let silent = |(replica, running): (usize, &Running)| {
            let computing = running.since.map(|since| since.elapsed().min(self.signals.since_reached(replica)));
            computing.max(running.awaited_since.map(|since| since.elapsed()))
        };
        state.running.iter().enumerate().filter_map(silent).max()
    }

    /// Entries in the queue and in the slots.
    #[cfg(test)]
    pub(crate) fn num_waiting(&self) -> usize {
        let state = self.lock();
        state.queue.len() + state.slots.values().map(FormingBatch::len).sum::<usize>()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock, and every field is valid at any moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the cost of a pass: the index, work and time of each sub-model.
    pub(super) fn observe_cost(&self, sub_models: impl IntoIterator<Item = (usize, Work, Duration)>) {
        let mut state = self.lock();
        sub_models.into_iter().for_each(|(sub_model, work, time)| state.costs.observe(sub_model, work, time));
        let costs = state.costs.bound(self.max_batch_time);
        state.queue.set_costs(costs);
    }

    /// Counts a batch, and whether any of its answers was good.
    pub(super) fn count_batch(&self, is_good: bool) {
        if is_good {
            self.failed_batches.store(0, Ordering::Relaxed);
        } else {
            self.failed_batches.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a batch that was lost outside the forward pass as failed.
    pub(super) fn count_lost(&self, sequences: usize) {
        metrics::failed_sequences(sequences);
        self.count_batch(false);
    }
}

impl State {
    /// True if a backend is idle and no batch is ready or forming. Then it plans the next one itself, because waking up the planner's
    /// thread would take longer for a lone request.
    pub(super) fn is_left_to_backend(&self) -> bool {
        self.running.iter().any(|running| running.since.is_none()) && self.slots.is_empty() && !self.is_forming
    }

    /// Level of the most urgent batch that is ready.
    pub(super) fn most_urgent(&self) -> Level {
        self.slots.keys().next_back().copied().unwrap_or(Level::Bulk)
    }

    /// True if the planner has work: entries to plan, or the end of the pipeline.
    pub(super) fn is_left_to_planner(&self) -> bool {
        self.closed || !self.queue.is_empty()
    }

    /// Releases the quota of entries that a backend has taken or that were withdrawn, and updates the gauges. Entries in a
    /// forming batch keep their quota, because they may have to wait again.
    pub(super) fn entries_left(&mut self) {
        let queue = &self.queue;
        self.shares.retain(|&account, share| {
            let [tokens, inputs] = queue.held_of(account);
            share.shrink_to(tokens, inputs);
            inputs > 0
        });
        let [tokens, inputs] = queue.held();
        metrics::queue(tokens, inputs);
    }
}
