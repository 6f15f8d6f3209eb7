//! Passes that are interrupted at their yield points, and batches to run there.

use prefold_core::{
    BackendError, Batch, Folding, ModelBackend, ModelInfo, Output, Outputs, RadixPlan, RaggedBatch, Stopped, TaskId,
    Tokens, YieldPoint,
};
use rand::Rng;
use rand::rngs::StdRng;
use std::thread::{self, ThreadId};
use std::time::Duration;

/// A batch and what a pass makes of it that nothing interrupts.
pub struct Case {
    pub batch: Batch,
    pub plan: Option<RadixPlan>,
    pub expected: Vec<Vec<u32>>,
}

impl Case {
    /// Random sequences of which some share prefixes, with token types and adapters where the model has them.
    pub fn random(backend: &mut ModelBackend, rng: &mut StdRng, most: usize) -> Self {
        let mut ragged = RaggedBatch::default();
        let mut last: Vec<u32> = vec![];
        for _ in 0..rng.random_range(1..=most) {
            let tokens = sequence(backend.info(), rng, &last);
            ragged.push(tokens.as_slice()).unwrap();
            last = ragged.input_ids()[ragged.rows(ragged.num_sequences() - 1)].to_vec();
        }
        let wanted = Outputs::of_head(&backend.info().capabilities);
        let plan = (backend.folding() == Folding::Prefix && rng.random()).then(|| RadixPlan::new(&ragged, 1));
        let mut case =
            Self { batch: Batch { wanted: vec![wanted; ragged.num_sequences()], ragged }, plan, expected: vec![] };
        case.expected = case.run(backend, &mut prefold_core::Uninterrupted).unwrap();
        case
    }

    pub fn run(&self, backend: &mut ModelBackend, yields: &mut dyn YieldPoint) -> Result<Vec<Vec<u32>>, BackendError> {
        let outputs = backend.forward_yielding(&self.batch, self.plan.as_ref(), yields)?;
        Ok(outputs.into_iter().map(bits).collect())
    }

    #[track_caller]
    pub fn check(&self, what: &str, backend: &mut ModelBackend, yields: &mut dyn YieldPoint) {
        assert_eq!(self.run(backend, yields).unwrap(), self.expected, "{what}");
    }
}

fn sequence(info: &ModelInfo, rng: &mut StdRng, last: &[u32]) -> Tokens {
    let longest = info.sub_models.iter().map(|part| part.max_input_length.min(40)).min().unwrap();
    let vocab = info.sub_models.iter().map(|part| part.vocab_size).min().unwrap() as u32;
    let kept = rng.random_range(0..=last.len().min(longest - 1));
    let rest = rng.random_range(1..=longest - kept);
    let ids: Vec<u32> = last[..kept].iter().copied().chain((0..rest).map(|_| rng.random_range(0..vocab))).collect();
    let types = info.sub_models.iter().map(|part| part.token_types).min().unwrap() as u32;
    let adapters = info.capabilities.embed.as_ref().map_or(0, |embed| embed.tasks.len());
    let (len, adapter) = (ids.len(), TaskId(rng.random_range(0..=adapters) as u8));
    let tokens = Tokens::new(ids).with_task(adapter);
    match types {
        0 | 1 => tokens,
        types => tokens.with_token_types((0..len).map(|_| rng.random_range(0..types)).collect()).unwrap(),
    }
}

fn bits(output: Output) -> Vec<u32> {
    output.all().flat_map(|values| &values.data).map(|value| value.to_bits()).collect()
}

/// At some yield points a batch runs on the first of `others`, which the rest of them interrupt.
pub struct Preempting<'a> {
    others: &'a mut [ModelBackend],
    cases: &'a [Case],
    chance: f64,
    rng: &'a mut StdRng,
    thread: ThreadId,
    pub ran: usize,
}

impl<'a> Preempting<'a> {
    pub fn new(others: &'a mut [ModelBackend], cases: &'a [Case], chance: f64, rng: &'a mut StdRng) -> Self {
        Self { others, cases, chance, rng, thread: thread::current().id(), ran: 0 }
    }
}

impl YieldPoint for Preempting<'_> {
    fn reach(&mut self) -> Result<(), Stopped> {
        assert_eq!(thread::current().id(), self.thread, "a yield point in a task");
        if let Some((first, rest)) = self.others.split_first_mut()
            && self.rng.random_bool(self.chance)
        {
            let case = &self.cases[self.rng.random_range(0..self.cases.len())];
            let (cases, thread) = (self.cases, self.thread);
            let mut inner = Preempting { others: rest, cases, chance: 0.02, rng: self.rng, thread, ran: 0 };
            case.check("the batch that interrupts", first, &mut inner);
            self.ran += 1 + inner.ran;
        }
        Ok(())
    }

    fn away(&self) -> Duration {
        Duration::ZERO
    }
}

/// Counts yield points, and does something at one of them.
pub struct At<F> {
    point: usize,
    reached: usize,
    action: F,
}

pub fn at<F: FnMut() -> Result<(), Stopped>>(point: usize, action: F) -> At<F> {
    At { point, reached: 0, action }
}

impl<F: FnMut() -> Result<(), Stopped>> YieldPoint for At<F> {
    fn reach(&mut self) -> Result<(), Stopped> {
        self.reached += 1;
        if self.reached == self.point { (self.action)() } else { Ok(()) }
    }

    fn away(&self) -> Duration {
        Duration::ZERO
    }
}

pub fn count(case: &Case, backend: &mut ModelBackend) -> usize {
    let mut counter = at(0, || Ok(()));
    case.check("counted", backend, &mut counter);
    counter.reached
}
