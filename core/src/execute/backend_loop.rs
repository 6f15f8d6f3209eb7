//! Thread of a backend: takes the batches from the slots and runs them. Each replica has one.

use super::answers::{Answers, Awaited};
use super::pass::{Pass, Spent, Submission, Taken};
use super::pipeline::Pipeline;
use super::preemption::Preemption;
use crate::backend::{Interrupting, ModelBackend, Replica};
use crate::error::{BackendError, panic_message};
use crate::metrics;
use crate::schedule::batcher::{FormingBatch, ReadyBatch};
use crate::schedule::level::Level;
use crate::trace::{ForwardSpan, forward_spans};
use crate::yield_point::{Stopped, YieldPoint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

impl Pipeline {
    /// Takes batches from the slots and runs them, until drained. The answers of a pass that a device runs are left to another thread, so
    /// that the next batch is submitted meanwhile.
    pub(super) fn run_batches(&self, Replica { mut backend, interrupting }: Replica, replica: usize) {
        let mut above: Vec<ModelBackend> =
            interrupting.map_or_else(Vec::new, |Interrupting { due, urgent }| vec![due, urgent]);
        thread::scope(|scope| {
            let mut answers = Answers::new(self, replica, scope);
            while let Some(Taken { id, level, batch }) = self.await_batch(replica) {
                let (backend, above) = (&mut backend, &mut above[..]);
                let pass = Pass { backend, above, replica, level, interrupts: false, id };
                if let Some(submission) = self.submit_caught(pass, batch) {
                    answers.add(submission);
                }
            }
        });
    }

    /// The batch of the most urgent slot, or one that this thread plans if the planner forms none.
    pub(super) fn await_batch(&self, replica: usize) -> Option<Taken> {
        let waiting = Instant::now();
        let mut state = self.lock();
        state.running[replica].since = None;
        loop {
            let taken = match state.slots.pop_last() {
                Some((level, batch)) => Some((level, batch, Vec::new())),
                None if state.is_forming => None,
                None => state.take_entries(self.compaction).map(|(batch, entries)| (Level::Bulk, batch, entries)),
            };
            if let Some((level, batch, entries)) = taken {
                let now = Instant::now();
                state.running[replica].since = Some(now);
                let idle = state.running[replica].idle(waiting, now);
                self.signals.reach(replica);
                self.signals.set_ready(state.most_urgent());
                let id = state.queue.close_batch(level, false);
                state.entries_left();
                let is_left_to_planner = state.is_left_to_planner();
                drop(state);
                if is_left_to_planner {
                    self.planner_wake.notify_one();
                }
                metrics::backend_idle(idle);
                if entries.is_empty() {
                    return Some(Taken { id, level, batch });
                }
                if let Some(batch) = self.form(batch, entries) {
                    return Some(Taken { id, level, batch });
                }
                state = self.lock();
                state.queue.finish_batch(id, None);
                state.running[replica].since = None;
                continue;
            }
            if state.drained {
                return None;
            }
            state.idle_backends += 1;
            state = self.backend_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle_backends -= 1;
        }
    }

    /// The most urgent ready batch that interrupts a pass of this level. The pass has computed for `unpaid` since it
    /// last paid back debts.
    pub(super) fn take_ready_above(&self, level: Level, unpaid: Duration) -> Option<Taken> {
        let mut state = self.lock();
        state.queue.repay(unpaid);
        let ready = state.slots.last_entry().filter(|slot| *slot.key() > level).map(|slot| slot.remove_entry());
        self.signals.set_ready(state.most_urgent());
        let (level, batch) = ready?;
        let id = state.queue.close_batch(level, true);
        state.entries_left();
        let is_left_to_planner = state.is_left_to_planner();
        drop(state);
        if is_left_to_planner {
            self.planner_wake.notify_one();
        }
        Some(Taken { id, level, batch })
    }

    /// Runs a batch and answers its entries; a panic loses it.
    pub(super) fn run_caught(&self, pass: Pass<'_>, batch: FormingBatch) {
        if let Some(submission) = self.submit_caught(pass, batch) {
            self.finish_caught(submission, Awaited::ByBackend);
        }
    }

    /// Submits a batch; `None` if it is empty, or lost by a panic.
    fn submit_caught(&self, pass: Pass<'_>, batch: FormingBatch) -> Option<Submission> {
        let (id, sequences) = (pass.id, batch.len());
        match catch_unwind(AssertUnwindSafe(|| self.submit_pass(pass, batch.finish()))) {
            Ok(submission) => submission,
            Err(panic) => {
                self.lose_batch(id, sequences, &*panic);
                None
            }
        }
    }

    fn submit_pass(&self, mut pass: Pass<'_>, mut ready: ReadyBatch) -> Option<Submission> {
        ready.entries.iter_mut().for_each(|entry| entry.trace.leave_queue());
        let ReadyBatch { batch, plan, entries, .. } = &ready;
        let (id, replica, level, interrupts) = (pass.id, pass.replica, pass.level, pass.interrupts);
        if entries.is_empty() {
            let mut state = self.lock();
            state.queue.finish_batch(id, None);
            state.spare.push(ready.into_parts().1);
            return None;
        }
        let (total_tokens, unique_tokens, sequences) = (ready.total_tokens(), ready.unique_tokens(), entries.len());
        let span = tracing::debug_span!("batch", id, level = level.name(), sequences, total_tokens, unique_tokens);
        let entered = span.enter();
        let traces = entries.iter().map(|entry| &entry.trace);
        let spans = forward_spans(traces, &ForwardSpan { id, sequences, total_tokens, unique_tokens });
        let taken = Instant::now();
        let (backend, mut yields) = Preemption::new(self, &mut pass, entries, &spans);
        let refusal = self.signals.is_stopping().then_some(BackendError::Stopped(Stopped)).or(self.lost_device());
        let submit = || refusal.map_or_else(|| backend.submit(batch, plan.as_ref(), &mut yields), Err);
        let outcome = catch_unwind(AssertUnwindSafe(submit))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))));
        let spent =
            Spent { taken, unpaid: yields.unpaid(), away: yields.away(), interruptions: yields.interruptions() };
        drop(entered);
        let info = pass.backend.info();
        let (is_compact, dtype) = (info.attention == "compact", info.dtype);
        let times = pass.backend.sub_model_times().to_vec();
        Some(Submission {
            id,
            replica,
            level,
            interrupts,
            is_compact,
            dtype,
            ready,
            outcome,
            times,
            spent,
            span,
            spans,
        })
    }
}
