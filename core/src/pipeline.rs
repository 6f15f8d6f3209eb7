//! Queue, planner thread and backend thread, and the slot of one batch between the two.
//!
//! ```text
//! submit -> Queue -> planner -> slot -> backend -> each entry's reply
//! ```
//!
//! The planner fills the slot with batch t+1 while the backend runs batch t. As long as the backend is
//! busy the batch in the slot can still grow: the planner takes it back out when entries arrive that
//! fit. Once the backend waits, the batch is left for it, so a lone request leaves at once.

use crate::batcher::{Buffers, Compaction, FormingBatch, ReadyBatch};
use crate::prefix_index::Ticket;
use crate::queue::{Answer, BatchReport, Budget, Entry, Policy, Queue, Reply};
use crate::room::{QueueLimits, WaitingPart, WaitingRoom};
use crate::trace::{ForwardSpan, Trace, forward_spans, plan_spans};
use crate::{Backend, BackendError, Batch, Error, ModelInfo, Output, Scheduling, Wanted, metrics};
use std::any::Any;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// What the pipeline is configured with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PipelineConfig {
    pub(crate) budget: Budget,
    pub(crate) limits: QueueLimits,
    pub(crate) scheduling: Scheduling,
    pub(crate) compaction: Compaction,
}

impl PipelineConfig {
    /// Without compaction nothing is gained by bringing prefixes together.
    fn policy(&self) -> Policy {
        let compacts = self.compaction.is_enabled();
        let scheduling = if compacts { self.scheduling } else { Scheduling::Fifo };
        Policy { budget: self.budget, scheduling, compacts }
    }
}

/// The shared part; the two threads hold it too.
#[derive(Debug)]
pub(crate) struct Pipeline {
    config: PipelineConfig,
    state: Mutex<State>,
    /// Something for the planner: an entry came, the slot was emptied, or the end is near.
    planner_wake: Condvar,
    /// Something for the backend: the slot was filled, or there is nothing more to come.
    backend_wake: Condvar,
    failed_batches: AtomicUsize,
    waiting_room: WaitingRoom,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    slot: Option<FormingBatch>,
    /// Of batches that are done; never more than there are batches at once, one with the backend and one in the slot.
    spare: Vec<Buffers>,
    backend_waits: bool,
    /// When the backend took the batch that it has.
    running_since: Option<Instant>,
    /// Nothing is accepted any more.
    closed: bool,
    /// Closed, and the last batch is in the slot or beyond.
    drained: bool,
}

impl State {
    fn new(config: &PipelineConfig) -> Self {
        Self {
            queue: Queue::new(config.policy()),
            slot: None,
            spare: Vec::new(),
            backend_waits: false,
            running_since: None,
            closed: false,
            drained: false,
        }
    }

    /// What the planner should do now: entries, and the batch that they join.
    fn next_work(&mut self, config: PipelineConfig) -> Option<(FormingBatch, Vec<Entry>)> {
        // Taking it back now would keep a backend waiting that could start.
        if self.slot.is_some() && self.backend_waits {
            return None;
        }
        let start = Instant::now();
        let entries = self.queue.take();
        if entries.is_empty() {
            return None;
        }
        let slot = self.slot.take();
        let mut batch = slot.unwrap_or_else(|| {
            let buffers = self.spare.pop().unwrap_or_default();
            FormingBatch::new(config.compaction, buffers)
        });
        batch.count_planning(start.elapsed());
        Some((batch, entries))
    }
}

impl Pipeline {
    /// Starts the planner and the backend's thread. They end after [`close`](Self::close), when everything
    /// accepted has been answered.
    pub(crate) fn spawn(
        backend: Box<dyn Backend>,
        config: PipelineConfig,
    ) -> std::io::Result<(Arc<Self>, [JoinHandle<()>; 2])> {
        let pipeline = Arc::new(Self {
            config,
            state: Mutex::new(State::new(&config)),
            planner_wake: Condvar::new(),
            backend_wake: Condvar::new(),
            failed_batches: AtomicUsize::new(0),
            waiting_room: WaitingRoom::default(),
        });
        let planner = {
            let pipeline = Arc::clone(&pipeline);
            std::thread::Builder::new().name("prefold-planner".to_owned()).spawn(move || pipeline.plan_batches())?
        };
        let runner = {
            let shared = Arc::clone(&pipeline);
            std::thread::Builder::new().name("prefold-backend".to_owned()).spawn(move || shared.run_batches(backend))
        };
        match runner {
            Ok(runner) => Ok((pipeline, [planner, runner])),
            Err(error) => {
                pipeline.close();
                Err(error)
            }
        }
    }

    /// Hands over a request or the first part of one, all of its sequences or none.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`]; [`Error::Overloaded`] where the queue is full.
    pub(crate) fn submit(self: &Arc<Self>, sequences: Vec<Vec<u32>>, wanted: Wanted) -> Result<Pending, Error> {
        let submission = Submission::new(sequences, wanted);
        let state = self.lock();
        self.waiting_room.check()?;
        self.config.limits.check(&state.queue)?;
        self.push(state, submission)
    }

    /// What may wait at once.
    pub(crate) fn limits(&self) -> QueueLimits {
        self.config.limits
    }

    /// Hands over a later part of a request when there is room for it.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`]
    pub(crate) async fn submit_when_room(
        self: &Arc<Self>,
        sequences: Vec<Vec<u32>>,
        wanted: Wanted,
    ) -> Result<Pending, Error> {
        let submission = Submission::new(sequences, wanted);
        // A part that finds room at once does not wait, and turns nobody away.
        let mut part = None;
        loop {
            let room = part.as_ref().map(WaitingPart::room);
            {
                let state = self.lock();
                if state.closed || self.config.limits.check(&state.queue).is_ok() {
                    return self.push(state, submission);
                }
            }
            match room {
                Some(room) => room.await,
                None => part = Some(self.waiting_room.enter()),
            }
        }
    }

    /// Hands over one token, however full the queue is.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`]
    pub(crate) fn submit_probe(self: &Arc<Self>) -> Result<Pending, Error> {
        self.push(self.lock(), Submission::new(vec![vec![0]], Wanted::Pooled))
    }

    fn push(self: &Arc<Self>, mut state: MutexGuard<'_, State>, submission: Submission) -> Result<Pending, Error> {
        if state.closed {
            return Err(Error::ShuttingDown);
        }
        let tickets = state.queue.push(submission.entries);
        metrics::queue(&state.queue);
        self.planner_wake.notify_one();
        drop(state);
        Ok(Pending { pipeline: Arc::clone(self), tickets, answers: submission.answers })
    }

    /// Accepts nothing more; what was accepted is still computed.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.planner_wake.notify_one();
    }

    /// Batches in a row, up to now, without a single good answer.
    pub(crate) fn failed_batches(&self) -> usize {
        self.failed_batches.load(Ordering::Relaxed)
    }

    /// How long the backend has had the batch that it has.
    pub(crate) fn busy_for(&self) -> Option<Duration> {
        self.lock().running_since.map(|since| since.elapsed())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock, and every field is valid at any moment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until closed and empty: takes entries, forms a batch outside the lock, puts it into the slot.
    fn plan_batches(&self) {
        while let Some((mut batch, entries)) = self.await_work() {
            let spans = plan_spans(&entries);
            let sequences = batch.len() + entries.len();
            // If this panics the entries are gone, and with them their reply channels: that is an answer.
            let formed = catch_unwind(AssertUnwindSafe(move || {
                batch.extend(entries);
                batch
            }));
            drop(spans);
            match formed {
                Ok(batch) => {
                    self.lock().slot = Some(batch);
                    self.backend_wake.notify_one();
                }
                Err(panic) => {
                    self.lock().queue.close_batch();
                    self.count_lost(sequences);
                    tracing::error!(error = panic_message(&*panic), "the planner panicked; a batch is lost");
                }
            }
        }
    }

    fn await_work(&self) -> Option<(FormingBatch, Vec<Entry>)> {
        let mut state = self.lock();
        loop {
            if let Some(work) = state.next_work(self.config) {
                metrics::queue(&state.queue);
                self.waiting_room.wake();
                return Some(work);
            }
            if state.closed && state.queue.is_empty() {
                state.drained = true;
                self.backend_wake.notify_one();
                return None;
            }
            state = self.planner_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Until drained: takes the batch out of the slot, runs it, answers its entries.
    fn run_batches(&self, mut backend: Box<dyn Backend>) {
        let mut id = 0;
        while let Some(batch) = self.await_batch() {
            id += 1;
            let sequences = batch.len();
            let run = catch_unwind(AssertUnwindSafe(|| self.run(&mut *backend, batch.finish(), id)));
            if let Err(panic) = run {
                self.count_lost(sequences);
                tracing::error!(error = panic_message(&*panic), "the backend's thread panicked; a batch is lost");
            }
        }
    }

    /// A batch that was lost outside the forward pass is a failed one too.
    fn count_lost(&self, sequences: usize) {
        metrics::failed_sequences(sequences);
        self.failed_batches.fetch_add(1, Ordering::Relaxed);
    }

    fn await_batch(&self) -> Option<FormingBatch> {
        let idle = Instant::now();
        let mut state = self.lock();
        state.running_since = None;
        loop {
            if let Some(batch) = state.slot.take() {
                state.backend_waits = false;
                state.running_since = Some(Instant::now());
                state.queue.close_batch();
                self.planner_wake.notify_one();
                metrics::backend_idle(idle.elapsed());
                return Some(batch);
            }
            if state.drained {
                return None;
            }
            state.backend_waits = true;
            state = self.backend_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn run(&self, backend: &mut dyn Backend, mut ready: ReadyBatch, id: u64) {
        ready.entries.iter_mut().for_each(|entry| entry.trace.leave_queue());
        let ReadyBatch { batch, entries, planning, .. } = &ready;
        let planning = *planning;
        if entries.is_empty() {
            return self.take_back(ready.take_apart().1);
        }
        let total_tokens = batch.ragged.total_tokens();
        let unique_tokens = batch.plan.as_ref().map_or(total_tokens, |plan| plan.unique_tokens());
        let span = tracing::debug_span!("batch", id, sequences = entries.len(), total_tokens, unique_tokens).entered();
        let sequences = entries.len();
        let spans = forward_spans(entries, &ForwardSpan { id, sequences, total_tokens, unique_tokens });
        let taken = Instant::now();
        let outputs = catch_unwind(AssertUnwindSafe(|| backend.forward(batch)))
            .unwrap_or_else(|panic| Err(BackendError::Panic(panic_message(&*panic))))
            .and_then(|outputs| check_count(outputs, entries.len()));
        let inference = taken.elapsed();
        drop(spans);
        let attention_work_saved = outputs.as_ref().map_or(0, |_| attention_work_saved(batch, backend.info()));
        let report = BatchReport { id, total_tokens, unique_tokens, attention_work_saved, planning, inference };
        metrics::batch(&report, entries.len());
        tracing::debug!(?planning, inference = ?report.inference, ok = outputs.is_ok(), "batch done");
        let computed_tokens = batch.computed_tokens();
        let (entries, buffers) = ready.take_apart();
        self.take_back(buffers);
        self.answer(Done { entries, computed_tokens, outputs, report: Arc::new(report), taken });
        drop(span);
    }

    fn take_back(&self, buffers: Buffers) {
        self.lock().spare.push(buffers);
    }

    fn answer(&self, done: Done) {
        let Done { entries, computed_tokens, outputs, report: batch, taken } = done;
        let replies: Vec<Reply> = match outputs {
            Ok(outputs) => {
                let answers = outputs.into_iter().zip(computed_tokens).zip(&entries);
                let answers = answers.map(|((output, computed_tokens), entry)| {
                    let queue = taken.duration_since(entry.enqueued).saturating_sub(batch.planning);
                    check_output(&output, entry)?;
                    Ok(Answer { output, computed_tokens, queue, batch: Arc::clone(&batch) })
                });
                answers.collect()
            }
            Err(error) => entries.iter().map(|_| Err(error.clone())).collect(),
        };
        if let Some(error) = replies.iter().find_map(|reply| reply.as_ref().err()) {
            let failed = replies.iter().filter(|reply| reply.is_err()).count();
            tracing::error!(batch = batch.id, failed, sequences = entries.len(), %error, "inference failed");
            metrics::failed_sequences(failed);
        }
        // Before the replies: who reads one and then asks for the health sees the new state.
        if replies.iter().any(Reply::is_ok) {
            self.failed_batches.store(0, Ordering::Relaxed);
        } else {
            self.failed_batches.fetch_add(1, Ordering::Relaxed);
        }
        entries.into_iter().zip(replies).for_each(|(entry, reply)| entry.answer(reply));
    }
}

/// A batch that ran: `entries[i]`, `computed_tokens[i]` and `outputs[i]` belong together.
struct Done {
    entries: Vec<Entry>,
    computed_tokens: Vec<usize>,
    outputs: Result<Vec<Output>, BackendError>,
    report: Arc<BatchReport>,
    /// When the backend took it.
    taken: Instant,
}

/// Pairs of a query and a key that a layer of full attention leaves out: none where attention runs over every row.
fn attention_work_saved(batch: &Batch, info: &ModelInfo) -> u64 {
    let plan = batch.plan.as_ref().filter(|_| info.attention == "compact");
    plan.map_or(0, |plan| batch.ragged.attention_work() - plan.attention_work())
}

fn check_count(outputs: Vec<Output>, expected: usize) -> Result<Vec<Output>, BackendError> {
    if outputs.len() == expected {
        return Ok(outputs);
    }
    Err(BackendError::Contract(format!("{} outputs for {expected} sequences", outputs.len())))
}

/// A wrong answer must never look like a right one: every value is finite, and of the form asked for.
fn check_output(output: &Output, entry: &Entry) -> Result<(), BackendError> {
    let (values, fits) = match (output, entry.wanted) {
        (Output::Embedding(values) | Output::Logits(values), Wanted::Pooled) => (values, !values.is_empty()),
        (Output::Tokens { data, dim }, Wanted::Tokens) => (data, *dim > 0 && data.len() == dim * entry.input_ids.len()),
        (Output::Embedding(values) | Output::Logits(values), Wanted::Tokens) => (values, false),
        (Output::Tokens { data, .. }, Wanted::Pooled) => (data, false),
    };
    if !fits {
        let tokens = entry.input_ids.len();
        let problem = format!("{} values do not answer {:?} for {tokens} tokens", values.len(), entry.wanted);
        return Err(BackendError::Contract(problem));
    }
    match values.iter().position(|value| !value.is_finite()) {
        None => Ok(()),
        Some(index) => Err(BackendError::NotFinite(format!(
            "value {index} is {}; an overflow of the number format is the usual cause, and --dtype float32 the cure",
            values[index]
        ))),
    }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

/// Answers to come, in the order of the sequences. Dropped early, its entries leave the queue.
#[derive(Debug)]
pub(crate) struct Pending {
    pipeline: Arc<Pipeline>,
    tickets: Range<Ticket>,
    answers: Vec<oneshot::Receiver<Reply>>,
}

/// What goes into the queue at once, and where its answers will come out.
struct Submission {
    entries: Vec<Entry>,
    answers: Vec<oneshot::Receiver<Reply>>,
}

impl Submission {
    fn new(sequences: Vec<Vec<u32>>, wanted: Wanted) -> Self {
        let trace = Trace::begin();
        let entry = |ids| {
            let (entry, answer) = Entry::new(ids, wanted);
            (Entry { trace: trace.clone(), ..entry }, answer)
        };
        let (entries, answers) = sequences.into_iter().map(entry).unzip();
        Self { entries, answers }
    }
}

impl Pending {
    /// Waits for all answers.
    ///
    /// # Errors
    /// [`Error::Backend`], the first in order.
    pub(crate) async fn collect(mut self) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::with_capacity(self.answers.len());
        for answer in &mut self.answers {
            let lost = |_| BackendError::Panic("the batch was lost".to_owned());
            answers.push(answer.await.map_err(lost)??);
        }
        self.answers.clear();
        Ok(answers)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answers.is_empty() {
            self.answers.clear();
            let mut state = self.pipeline.lock();
            state.queue.withdraw(self.tickets.clone());
            metrics::queue(&state.queue);
            self.pipeline.waiting_room.wake();
            // An empty queue may be what a closing planner waits for.
            self.pipeline.planner_wake.notify_one();
        }
    }
}

#[cfg(test)]
#[path = "pipeline_tests.rs"]
mod tests;
