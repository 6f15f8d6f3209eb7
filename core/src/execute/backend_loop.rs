//! A backend's thread: runs the batch from the slot and answers its entries. Each replica has one.

use super::output_checks::{check_count, check_output};
use super::pipeline::Pipeline;
use crate::error::panic_message;
use crate::schedule::batcher::{FormingBatch, ReadyBatch};
use crate::schedule::entry::{Answer, BatchReport, Entry, Reply};
use crate::trace::{ForwardSpan, forward_spans};
use crate::{BackendError, ModelBackend, Output, metrics};
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
    /// Until drained: takes the batch out of the slot, runs it, answers its entries.
    pub(super) fn run_batches(&self, mut backend: ModelBackend, replica: usize) {
        while let Some((id, batch)) = self.await_batch(replica) {
            let sequences = batch.len();
            let run = catch_unwind(AssertUnwindSafe(|| self.run(&mut backend, replica, batch.finish(), id)));
            if let Err(panic) = run {
                self.count_lost(sequences);
                tracing::error!(error = panic_message(&*panic), "the backend's thread panicked; a batch is lost");
            }
        }
    }

    /// The next batch and its number: that of the slot, or one that this thread plans, where nobody else does.
    pub(super) fn await_batch(&self, replica: usize) -> Option<(u64, FormingBatch)> {
        let idle = Instant::now();
        let mut state = self.lock();
        state.running_since[replica] = None;
        loop {
            let taken = match state.slot.take() {
                Some(batch) => Some((batch, Vec::new())),
                None if state.is_forming => None,
                None => state.take_entries(self.compaction),
            };
            if let Some((batch, entries)) = taken {
                state.running_since[replica] = Some(Instant::now());
                state.batches += 1;
                let id = state.batches;
                state.queue.close_batch();
                state.entries_left();
                let is_left_to_planner = state.is_left_to_planner();
                drop(state);
                if is_left_to_planner {
                    self.planner_wake.notify_one();
                }
                metrics::backend_idle(idle.elapsed());
                if entries.is_empty() {
                    return Some((id, batch));
                }
                if let Some(batch) = self.form(batch, entries) {
                    return Some((id, batch));
                }
                state = self.lock();
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

    fn run(&self, backend: &mut ModelBackend, replica: usize, mut ready: ReadyBatch, id: u64) {
        ready.entries.iter_mut().for_each(|entry| entry.trace.leave_queue());
        let ReadyBatch { batch, plan, entries, planning, .. } = &ready;
        let planning = *planning;
        if entries.is_empty() {
            return self.lock().spare.push(ready.into_parts().1);
        }
        let (total_tokens, unique_tokens) = (ready.total_tokens(), ready.unique_tokens());
        let is_compact = backend.info().attention == "compact";
        let sequences = entries.len();
        let _span = tracing::debug_span!("batch", id, sequences, total_tokens, unique_tokens).entered();
        let traces = entries.iter().map(|entry| &entry.trace);
        let spans = forward_spans(traces, &ForwardSpan { id, sequences, total_tokens, unique_tokens });
        let taken = Instant::now();
        let was_lost = self.lost_device();
        let forward = || was_lost.map_or_else(|| backend.forward(batch, plan.as_ref()), Err);
        let outputs = catch_unwind(AssertUnwindSafe(forward))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))))
            .and_then(|outputs| check_count(outputs, batch.ragged.num_sequences()))
            .map(|outputs| ready.unfold(outputs));
        let inference = taken.elapsed();
        drop(spans);
        if let Err(error @ BackendError::DeviceLost(_)) = &outputs
            && self.lost_device().is_none()
        {
            tracing::error!(%error, "no answer is possible any more; start the process again");
            self.lose_device(error);
        }
        if outputs.is_ok() {
            self.observe_batch(&ready, backend, inference);
        }
        let attention_work_saved = outputs.as_ref().map_or(0, |_| ready.attention_work_saved(is_compact));
        let report = BatchReport { id, total_tokens, unique_tokens, attention_work_saved, planning, inference };
        metrics::batch(&report, sequences);
        tracing::debug!(?planning, ?inference, ok = outputs.is_ok(), "batch done");
        let (entries, buffers) = ready.into_parts();
        let mut state = self.lock();
        state.spare.push(buffers);
        // Before the replies: who reads one and then asks for the health does not hear of this pass.
        state.running_since[replica] = None;
        drop(state);
        let dtype = backend.info().dtype;
        self.answer(Done { entries, outputs, report: Arc::new(report), taken, dtype });
    }

    /// Takes the cost of a batch into account that took `inference` in all.
    fn observe_batch(&self, ready: &ReadyBatch, backend: &ModelBackend, inference: Duration) {
        let work = ready.work(backend.info().attention == "compact", &self.parts);
        let times = match backend.part_times() {
            [] => &[inference],
            times => times,
        };
        let parts = work.iter().zip(times).enumerate().filter(|(_, (work, _))| work.rows > 0);
        self.observe_cost(parts.map(|(part, (work, &time))| (part, work, time)));
    }

    fn answer(&self, done: Done) {
        let Done { entries, outputs, report: batch, taken, dtype } = done;
        let replies: Vec<Reply> = match outputs {
            Ok(outputs) => {
                let answers = outputs.into_iter().zip(&entries).map(|(output, entry)| {
                    let queue = taken.duration_since(entry.enqueued).saturating_sub(batch.planning);
                    check_output(&output, entry, dtype)?;
                    Ok(Answer { output, queue, batch: Arc::clone(&batch) })
                });
                answers.collect()
            }
            Err(error) => entries.iter().map(|_| Err(error.clone())).collect(),
        };
        if let Some(error) = replies.iter().find_map(|reply| reply.as_ref().err()) {
            let failed = replies.iter().filter(|reply| reply.is_err()).count();
            if self.lost_device().is_none() {
                tracing::error!(batch = batch.id, failed, sequences = entries.len(), %error, "inference failed");
            }
            metrics::failed_sequences(failed);
        }
        // Before the replies: who reads one and then asks for the health sees the new state.
        self.count_batch(replies.iter().any(Reply::is_ok));
        entries.into_iter().zip(replies).for_each(|(entry, reply)| entry.answer(reply));
    }
}
