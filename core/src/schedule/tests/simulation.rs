//! The queue in virtual time: one batch leaves per tick, whatever happens outside.

use super::budget::{AttentionRows, Budget, Policy};
use super::entry::{Entry, Reply};
use super::queue::Queue;
use crate::backend::Folding;
use crate::config::Scheduling;
use crate::flow::Flow;
use crate::outputs::Outputs;
use crate::plan::radix::PlanBuilder;
use crate::trace::Trace;
use tokio::sync::oneshot::Receiver;

pub(super) type Sequence = Vec<u32>;

/// A request, and what became of it.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) flow: Flow,
    pub(super) texts: Vec<Sequence>,
    /// Batches that had left when it arrived.
    pub(super) arrived: usize,
    /// Batches that had left when it was done.
    pub(super) done: usize,
    waiting: usize,
}

impl Request {
    pub(super) fn new(flow: Flow, texts: Vec<Sequence>) -> Self {
        Self { flow, waiting: texts.len(), texts, ..Self::default() }
    }

    /// Tokens of all texts.
    pub(super) fn cost(&self) -> usize {
        self.texts.iter().map(Vec::len).sum()
    }
}

/// A batch that has left.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) texts: Vec<Sequence>,
    /// Distinct ones.
    pub(super) tokens: usize,
    /// Requests that its texts are of.
    pub(super) owners: Vec<usize>,
}

pub(super) struct Simulation {
    queue: Queue,
    answers: Vec<Receiver<Reply>>,
    pub(super) requests: Vec<Request>,
    /// Request of each ticket.
    owners: Vec<usize>,
    pub(super) batches: Vec<Batch>,
}

impl Simulation {
    pub(super) fn new(scheduling: Scheduling, budget: Budget, quantum: usize) -> Self {
        let (folding, attention) = (Some(Folding::Prefix), AttentionRows::Compact);
        let queue = Queue::new(Policy { budget, scheduling, folding, attention, quantum }, None);
        Self { queue, answers: Vec::new(), requests: Vec::new(), owners: Vec::new(), batches: Vec::new() }
    }

    /// Runs until nothing waits. A tick's requests arrive before its batch forms, or while it can still grow.
    pub(super) fn run(mut self, ticks: Vec<[Vec<Request>; 2]>) -> Self {
        for arrivals in ticks {
            self.tick(arrivals);
        }
        while !self.queue.is_empty() {
            self.tick([vec![], vec![]]);
        }
        assert!(self.requests.iter().all(|request| request.waiting == 0), "each is served whole");
        self
    }

    /// Runs clients of which each sends its next request as soon as the one before is done.
    pub(super) fn run_clients(mut self, clients: Vec<Vec<Request>>) -> Self {
        let mut clients: Vec<_> = clients.into_iter().map(|requests| (requests.into_iter(), None)).collect();
        loop {
            let mut arrivals = Vec::new();
            for (requests, open) in &mut clients {
                if open.is_none_or(|open: usize| self.requests[open].waiting == 0)
                    && let Some(request) = requests.next()
                {
                    *open = Some(self.requests.len() + arrivals.len());
                    arrivals.push(request);
                }
            }
            if arrivals.is_empty() && self.queue.is_empty() {
                return self;
            }
            self.tick([arrivals, vec![]]);
        }
    }

    fn tick(&mut self, arrivals: [Vec<Request>; 2]) {
        let mut batch = Vec::new();
        for requests in arrivals {
            requests.into_iter().for_each(|request| self.arrive(request));
            batch.extend(self.queue.take());
            if self.queue.is_outdated() {
                self.queue.give_back(std::mem::take(&mut batch));
                batch = self.queue.take();
            }
            assert!(self.queue.is_empty() || !batch.is_empty(), "the backend does not idle while something waits");
        }
        self.queue.complete_batch();
        let owners = batch.iter().map(|entry| self.owners[entry.ticket as usize]).collect();
        let texts: Vec<Sequence> = batch.iter().map(|entry| entry.tokens.input_ids().to_vec()).collect();
        self.batches.push(Batch { tokens: unique_tokens(&texts), texts, owners });
        for &owner in &self.batches[self.batches.len() - 1].owners {
            self.requests[owner].waiting -= 1;
            self.requests[owner].done = self.batches.len();
        }
    }

    fn arrive(&mut self, mut request: Request) {
        request.arrived = self.batches.len();
        let entry = |ids: &Sequence| Entry::new(ids.clone(), Outputs::EMBEDDING, Trace::default());
        let (entries, answers): (Vec<_>, Vec<_>) = request.texts.iter().map(entry).unzip();
        self.owners.extend(vec![self.requests.len(); entries.len()]);
        self.queue.push(entries, request.flow, None);
        self.answers.extend(answers);
        self.requests.push(request);
    }

    /// Tokens computed by the batches with these numbers.
    pub(super) fn service(&self, batches: std::ops::Range<usize>) -> usize {
        self.batches[batches].iter().map(|batch| batch.tokens).sum()
    }

    pub(super) fn check_budget(&self, budget: Budget) {
        for Batch { texts, tokens, .. } in self.batches.iter().filter(|batch| batch.texts.len() > 1) {
            let ragged: usize = texts.iter().map(Vec::len).sum();
            assert!(*tokens <= budget.max_tokens && ragged <= budget.max_ragged_tokens);
            assert!(texts.len() <= budget.max_sequences);
        }
    }
}

/// Distinct tokens.
pub(super) fn unique_tokens(texts: &[Sequence]) -> usize {
    let mut plan = PlanBuilder::default();
    texts.iter().map(|ids| plan.push(ids)).sum()
}
