//! Answers of passes: from the outputs to the replies of the entries.

use super::output_checks::{check_count, check_output};
use super::pass::{Spent, Submission};
use super::pipeline::Pipeline;
use crate::error::{BackendError, panic_message};
use crate::metrics;
use crate::outputs::Output;
use crate::outputs::submitted::Submitted;
use crate::schedule::batcher::ReadyBatch;
use crate::schedule::entry::{Answer, BatchReport, Entry, Reply};
use crate::schedule::forming::BatchId;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, Scope};
use std::time::{Duration, Instant};

/// Answers the passes of a replica: passes that are done at once, others on a thread that awaits them in their order. A pass is handed to
/// that thread when the one before is answered, so a device has at most two passes.
pub(super) struct Answers<'scope, 'env> {
    pipeline: &'env Pipeline,
    scope: &'scope Scope<'scope, 'env>,
    replica: usize,
    /// The thread's end of the hand-over; `None` as long as no pass needs it.
    awaiting: Option<mpsc::SyncSender<Submission>>,
}

impl<'scope, 'env> Answers<'scope, 'env> {
    pub(super) fn new(pipeline: &'env Pipeline, replica: usize, scope: &'scope Scope<'scope, 'env>) -> Self {
        Self { pipeline, scope, replica, awaiting: None }
    }

    /// Answers a pass, here or on the thread.
    pub(super) fn add(&mut self, submission: Submission) {
        if !submission.is_running() {
            return self.pipeline.finish_caught(submission, Awaited::ByBackend);
        }
        let thread = self.awaiting.take().or_else(|| self.start());
        let Some(thread) = thread else { return self.pipeline.finish_caught(submission, Awaited::ByBackend) };
        match thread.send(submission) {
            Ok(()) => self.awaiting = Some(thread),
            Err(mpsc::SendError(submission)) => self.pipeline.finish_caught(submission, Awaited::ByBackend),
        }
    }

    /// Starts the thread; `None` if the system refuses.
    fn start(&self) -> Option<mpsc::SyncSender<Submission>> {
        let &Self { pipeline, replica, .. } = self;
        let (hand_over, submissions) = mpsc::sync_channel::<Submission>(0);
        let run = move || {
            for submission in submissions {
                pipeline.lock().running[replica].awaited_since = Some(Instant::now());
                pipeline.finish_caught(submission, Awaited::Apart);
            }
        };
        let thread = Builder::new().name("prefold-answers".to_owned()).spawn_scoped(self.scope, run);
        thread.map_or_else(
            |error| {
                tracing::warn!("batches do not overlap, because a thread could not be started: {error}");
                None
            },
            |_| Some(hand_over),
        )
    }
}

/// The thread that awaits a pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Awaited {
    /// The backend's own.
    ByBackend,
    /// Another one.
    Apart,
}

impl Pipeline {
    /// Awaits a pass and answers its entries; a panic loses the batch.
    pub(super) fn finish_caught(&self, submission: Submission, awaited: Awaited) {
        let (id, replica, sequences) = (submission.id, submission.replica, submission.ready.entries.len());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.finish(submission, awaited))) {
            if let Awaited::Apart = awaited {
                self.lock().running[replica].end_awaited();
            }
            self.lose_batch(id, sequences, &*panic);
        }
    }

    /// Counts a batch that a panic outside of the backend has lost.
    pub(super) fn lose_batch(&self, id: BatchId, sequences: usize, panic: &(dyn Any + Send)) {
        self.lock().queue.finish_batch(id, None);
        self.count_lost(sequences);
        tracing::error!(error = panic_message(panic), "the backend's thread panicked; a batch is lost");
    }

    fn finish(&self, submission: Submission, awaited: Awaited) {
        let Submission { id, replica, level, interrupts, is_compact, dtype, ready, outcome, times, spent, span, spans } =
            submission;
        let _entered = span.enter();
        let Spent { taken, unpaid, away, interruptions } = spent;
        let sequences = ready.entries.len();
        let outputs = catch_unwind(AssertUnwindSafe(|| outcome.and_then(Submitted::outputs)))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))))
            .and_then(|outputs| check_count(outputs, ready.batch.ragged.num_sequences()))
            .map(|outputs| ready.unfold(outputs));
        let began = match awaited {
            Awaited::ByBackend => taken,
            Awaited::Apart => self.lock().running[replica].began(taken),
        };
        let inference = began.elapsed().saturating_sub(away);
        drop(spans);
        if let Err(error @ BackendError::DeviceLost(_)) = &outputs
            && self.lost_device().is_none()
        {
            tracing::error!(%error, "no answer is possible any more; restart the process");
            self.lose_device(error);
        }
        if outputs.is_ok() {
            self.observe_batch(&ready, is_compact, inference, &times);
        }
        let attention_work_saved = outputs.as_ref().map_or(0, |_| ready.attention_work_saved(is_compact));
        let (total_tokens, unique_tokens, planning) = (ready.total_tokens(), ready.unique_tokens(), ready.planning);
        let report = BatchReport { id, total_tokens, unique_tokens, attention_work_saved, planning, inference };
        metrics::batch(&report, sequences);
        metrics::interruptions(interrupts.then_some(level), inference, interruptions);
        tracing::debug!(?planning, ?inference, interruptions, ok = outputs.is_ok(), "batch done");
        let (entries, buffers) = ready.into_parts();
        let mut state = self.lock();
        state.spare.push(buffers);
        state.queue.repay(unpaid);
        // Before the replies, so that a client's next request does not wait behind this batch, and `/health` no longer sees this pass.
        state.queue.finish_batch(id, Some(inference));
        match awaited {
            Awaited::Apart => state.running[replica].end_awaited(),
            Awaited::ByBackend if interrupts => {}
            Awaited::ByBackend => state.running[replica].since = None,
        }
        drop(state);
        self.answer(Done { entries, outputs, report: Arc::new(report), taken, dtype });
    }

    /// Records the cost of a batch, whose total time was `inference`, with the time of each sub-model if it has several.
    fn observe_batch(&self, ready: &ReadyBatch, is_compact: bool, inference: Duration, times: &[Duration]) {
        let work = ready.work(is_compact, &self.sub_models);
        let times = if times.is_empty() { &[inference] } else { times };
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
