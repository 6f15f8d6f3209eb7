//! Thread of a backend: runs the batches from the slots and answers their entries. Each replica has one.

use super::output_checks::{check_count, check_output};
use super::pass::{Pass, Taken};
use super::pipeline::Pipeline;
use super::preemption::Preemption;
use crate::backend::{Interrupting, ModelBackend, Replica};
use crate::error::{BackendError, panic_message};
use crate::metrics;
use crate::outputs::Output;
use crate::schedule::batcher::{FormingBatch, ReadyBatch};
use crate::schedule::entry::{Answer, BatchReport, Entry, Reply};
use crate::schedule::level::Level;
use crate::trace::{ForwardSpan, forward_spans};
use crate::yield_point::{Stopped, YieldPoint};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// A batch that ran: `entries[i]` and `outputs[i]` belong together.
struct Done {
    entries: Vec<Entry>,
    outputs: Result<Vec<Output>, BackendError>,
    report: Arc<BatchReport>,
    /// Time at which the backend took it.
    taken: Instant,
    /// Type of the model.
    dtype: &'static str,
}

impl Pipeline {
    /// Takes batches from the slots, runs them and answers their entries, until drained.
    pub(super) fn run_batches(&self, Replica { mut backend, interrupting }: Replica, replica: usize) {
        let mut above: Vec<ModelBackend> =
            interrupting.map_or_else(Vec::new, |Interrupting { due, urgent }| vec![due, urgent]);
        while let Some(Taken { id, level, batch }) = self.await_batch(replica) {
            let (backend, above) = (&mut backend, &mut above[..]);
            self.run_caught(Pass { backend, above, replica, level, interrupts: false, id }, batch);
        }
    }

    /// The batch of the most urgent slot, or one that this thread plans if the planner forms none.
    pub(super) fn await_batch(&self, replica: usize) -> Option<Taken> {
        let idle = Instant::now();
        let mut state = self.lock();
        state.running_since[replica] = None;
        loop {
            let taken = match state.slots.pop_last() {
                Some((level, batch)) => Some((level, batch, Vec::new())),
                None if state.is_forming => None,
                None => state.take_entries(self.compaction).map(|(batch, entries)| (Level::Bulk, batch, entries)),
            };
            if let Some((level, batch, entries)) = taken {
                state.running_since[replica] = Some(Instant::now());
                self.signals.reach(replica);
                self.signals.set_ready(state.most_urgent());
                let id = state.queue.close_batch(level, false);
                state.entries_left();
                let is_left_to_planner = state.is_left_to_planner();
                drop(state);
                if is_left_to_planner {
                    self.planner_wake.notify_one();
                }
                metrics::backend_idle(idle.elapsed());
                if entries.is_empty() {
                    return Some(Taken { id, level, batch });
                }
                if let Some(batch) = self.form(batch, entries) {
                    return Some(Taken { id, level, batch });
                }
                state = self.lock();
                state.queue.finish_batch(id, None);
                state.running_since[replica] = None;
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
        let (id, sequences) = (pass.id, batch.len());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.run(pass, batch.finish()))) {
            self.lock().queue.finish_batch(id, None);
            self.count_lost(sequences);
            tracing::error!(error = panic_message(&*panic), "the backend's thread panicked; a batch is lost");
        }
    }

    fn run(&self, mut pass: Pass<'_>, mut ready: ReadyBatch) {
        ready.entries.iter_mut().for_each(|entry| entry.trace.leave_queue());
        let ReadyBatch { batch, plan, entries, planning, .. } = &ready;
        let (id, level, planning) = (pass.id, pass.level, *planning);
        if entries.is_empty() {
            let mut state = self.lock();
            state.queue.finish_batch(id, None);
            return state.spare.push(ready.into_parts().1);
        }
        let (total_tokens, unique_tokens) = (ready.total_tokens(), ready.unique_tokens());
        let is_compact = pass.backend.info().attention == "compact";
        let sequences = entries.len();
        let _span =
            tracing::debug_span!("batch", id, level = level.name(), sequences, total_tokens, unique_tokens).entered();
        let traces = entries.iter().map(|entry| &entry.trace);
        let spans = forward_spans(traces, &ForwardSpan { id, sequences, total_tokens, unique_tokens });
        let taken = Instant::now();
        let (backend, mut yields) = Preemption::new(self, &mut pass, entries, &spans);
        let refusal = self.signals.is_stopping().then_some(BackendError::Stopped(Stopped)).or(self.lost_device());
        let forward = || refusal.map_or_else(|| backend.forward_yielding(batch, plan.as_ref(), &mut yields), Err);
        let outputs = catch_unwind(AssertUnwindSafe(forward))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))))
            .and_then(|outputs| check_count(outputs, batch.ragged.num_sequences()))
            .map(|outputs| ready.unfold(outputs));
        let inference = taken.elapsed().saturating_sub(yields.away());
        let (unpaid, interruptions) = (yields.unpaid(), yields.interruptions());
        drop(spans);
        if let Err(error @ BackendError::DeviceLost(_)) = &outputs
            && self.lost_device().is_none()
        {
            tracing::error!(%error, "no answer is possible any more; restart the process");
            self.lose_device(error);
        }
        if outputs.is_ok() {
            self.observe_batch(&ready, pass.backend, inference);
        }
        let attention_work_saved = outputs.as_ref().map_or(0, |_| ready.attention_work_saved(is_compact));
        let report = BatchReport { id, total_tokens, unique_tokens, attention_work_saved, planning, inference };
        metrics::batch(&report, sequences);
        metrics::interruptions(pass.interrupts.then_some(level), inference, interruptions);
        tracing::debug!(?planning, ?inference, interruptions, ok = outputs.is_ok(), "batch done");
        let (entries, buffers) = ready.into_parts();
        let mut state = self.lock();
        state.spare.push(buffers);
        state.queue.repay(unpaid);
        // Before the replies, so that a client's next request does not wait behind this batch, and `/health` no longer sees this pass.
        state.queue.finish_batch(id, Some(inference));
        if !pass.interrupts {
            state.running_since[pass.replica] = None;
        }
        drop(state);
        let dtype = pass.backend.info().dtype;
        self.answer(Done { entries, outputs, report: Arc::new(report), taken, dtype });
    }

    /// Records the cost of a batch, whose total time was `inference`.
    fn observe_batch(&self, ready: &ReadyBatch, backend: &ModelBackend, inference: Duration) {
        let work = ready.work(backend.info().attention == "compact", &self.sub_models);
        let times = match backend.sub_model_times() {
            [] => &[inference],
            times => times,
        };
        let sub_models = work.iter().zip(times).enumerate().filter(|(_, (work, _))| work.rows > 0);
        self.observe_cost(sub_models.map(|(sub_model, (work, &time))| (sub_model, work, time)));
    }

    fn answer(&self, done: Done) {
        let Done { entries, outputs, report: batch, taken, dtype } = done;
        let replies: Vec<Reply> = match outputs {
            Ok(outputs) => {
                let answers = outputs.into_iter().zip(&entries).map(|(output, entry)| {
                    let queue = taken.duration_since(entry.enqueued).saturating_sub(batch.planning);
                    check_output(&output, entry, dtype)?;
                    Ok(Answer { output, queue, taken, batch: Arc::clone(&batch) })
                });
                answers.collect()
            }
            Err(error) => entries.iter().map(|_| Err(error.clone())).collect(),
        };
        if !matches!(replies.first(), Some(Err(BackendError::Stopped(_)))) {
            self.count_replies(&replies, &batch);
        }
        entries.into_iter().zip(replies).for_each(|(entry, reply)| entry.answer(reply));
    }

    /// Counts the replies of a batch before they are sent, so that a client that reads one and then asks for the health sees the new state.
    fn count_replies(&self, replies: &[Reply], batch: &BatchReport) {
        if let Some(error) = replies.iter().find_map(|reply| reply.as_ref().err()) {
            let failed = replies.iter().filter(|reply| reply.is_err()).count();
            if self.lost_device().is_none() {
                tracing::error!(batch = batch.id, failed, sequences = replies.len(), %error, "inference failed");
            }
            metrics::failed_sequences(failed);
        }
        self.count_batch(replies.iter().any(Reply::is_ok));
    }
}
