//! Submission of sequences to the queue, and their answers.

use super::pipeline::Pipeline;
use crate::admission::queue_quota::QueueShare;
use crate::error::{BackendError, Error};
use crate::flow::Flow;
use crate::metrics;
use crate::outputs::Outputs;
use crate::plan::tokens::Tokens;
use crate::schedule::entry::{Answer, Entry, Reply, Ticket};
use crate::trace::Trace;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Pending answers, in the order of the sequences. If dropped early, the entries leave the queue.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(super) pipeline: Arc<Pipeline>,
    pub(crate) tickets: Range<Ticket>,
    pub(super) answers: Vec<oneshot::Receiver<Reply>>,
}

/// Entries that enter the queue together, and the receivers of their answers.
struct Submission {
    entries: Vec<Entry>,
    answers: Vec<oneshot::Receiver<Reply>>,
    tokens: usize,
}

impl Submission {
    fn new(sequences: Vec<Tokens>, wanted: Outputs) -> Self {
        let trace = Trace::begin();
        let (entries, answers): (Vec<Entry>, _) =
            sequences.into_iter().map(|tokens| Entry::new(tokens, wanted, trace.clone())).unzip();
        let tokens = entries.iter().map(|entry| entry.tokens.len()).sum();
        Self { entries, answers, tokens }
    }
}

impl Pipeline {
    /// Submits a request or its first chunk: all sequences or none.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`]; [`BackendError::DeviceLost`]; [`Error::Overloaded`] if the queue is full.
    pub(crate) fn submit(
        self: &Arc<Self>,
        sequences: Vec<Tokens>,
        wanted: Outputs,
        flow: Flow,
    ) -> Result<Pending, Error> {
        let submission = Submission::new(sequences, wanted);
        let share = self.quota.share_of(flow.account);
        share.grow(submission.tokens, submission.entries.len())?;
        self.push(submission, &share, flow, None)
    }

    /// Submits a later chunk of a request, which `follows` the one with this first ticket, as soon as there is room for it.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`]
    pub(crate) async fn submit_in_turn(
        self: &Arc<Self>,
        sequences: Vec<Tokens>,
        wanted: Outputs,
        flow: Flow,
        follows: Ticket,
    ) -> Result<Pending, Error> {
        let submission = Submission::new(sequences, wanted);
        let share = self.quota.share_of(flow.account);
        share.grow_in_turn(submission.tokens, submission.entries.len()).await;
        self.push(submission, &share, flow, Some(follows))
    }

    /// Submits one token, even if the queue is full.
    ///
    /// # Errors
    /// [`Error::ShuttingDown`]
    pub(crate) fn submit_probe(self: &Arc<Self>, wanted: Outputs) -> Result<Pending, Error> {
        let flow = Flow::default();
        let share = self.quota.share_of(flow.account);
        share.force(1, 1);
        self.push(Submission::new(vec![Tokens::new(vec![0])], wanted), &share, flow, None)
    }

    fn push(
        self: &Arc<Self>,
        submission: Submission,
        share: &QueueShare,
        flow: Flow,
        follows: Option<Ticket>,
    ) -> Result<Pending, Error> {
        let mut state = self.lock();
        if state.closed {
            return Err(self.lost_device().map_or(Error::ShuttingDown, Error::Backend));
        }
        state.shares.entry(flow.account).or_insert_with(|| self.quota.share_of(flow.account)).absorb(share);
        let tickets = state.queue.push(submission.entries, flow, follows);
        let [tokens, inputs] = state.queue.held();
        metrics::queue(tokens, inputs);
        let wake = if state.is_left_to_backend() { &self.backend_wake } else { &self.planner_wake };
        drop(state);
        wake.notify_one();
        Ok(Pending { pipeline: Arc::clone(self), tickets, answers: submission.answers })
    }
}

impl Pending {
    /// Waits for all answers.
    ///
    /// # Errors
    /// [`Error::Backend`], the first in order; [`Error::ShuttingDown`] if the pass was stopped.
    pub(crate) async fn collect(mut self) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::with_capacity(self.answers.len());
        for answer in &mut self.answers {
            let lost = |_| BackendError::Panic("the batch was lost".to_owned());
            match answer.await.map_err(lost)? {
                Ok(answer) => answers.push(answer),
                Err(BackendError::Stopped(_)) => return Err(Error::ShuttingDown),
                Err(error) => return Err(error.into()),
            }
        }
        self.answers.clear();
        Ok(answers)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answers.is_empty() {
            self.answers.clear();
            self.pipeline.signals.depart();
            let mut state = self.pipeline.lock();
            state.queue.withdraw(self.tickets.clone());
            state.entries_left();
            // A closing planner may be waiting for an empty queue.
            self.pipeline.planner_wake.notify_one();
        }
    }
}
