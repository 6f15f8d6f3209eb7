//! Passes that are interrupted at their yield points by others over the same weights: none of them changes by a bit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::{CLASSIFIERS, EMBEDDERS, ROUTED, STATIC, TOKEN_CLASSIFIERS};
use crate::support::*;
use prefold_backends::{AttentionMode, Dtype, LoadOptions, in_smallest_parts};
use prefold_core::{
    Adapter, BackendError, Batch, Folding, Interrupting, ModelBackend, ModelInfo, Output, RadixPlan, RaggedBatch,
    Stopped, Tokens, Wanted, YieldPoint,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

const DTYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8];

/// One of each kind: decoders, with norms behind blocks too; encoders, with experts, adapters, and all tokens; a router.
const KINDS: [&str; 6] =
    ["qwen3-tiny", "gemma3-causal-tiny", "nomic-moe-tiny", "jina-v3-tiny", "bert-ner-tiny", "router-encoders-tiny"];

/// A batch and what a pass makes of it that nothing interrupts.
struct Case {
    batch: Batch,
    plan: Option<RadixPlan>,
    expected: Vec<Vec<u32>>,
}

impl Case {
    /// Random sequences of which some share prefixes, with token types and adapters where the model has them.
    fn random(backend: &mut ModelBackend, rng: &mut StdRng, most: usize) -> Self {
        let mut ragged = RaggedBatch::default();
        let mut last: Vec<u32> = vec![];
        for _ in 0..rng.random_range(1..=most) {
            let tokens = sequence(backend.info(), rng, &last);
            ragged.push(tokens.as_slice()).unwrap();
            last = ragged.input_ids()[ragged.rows(ragged.num_sequences() - 1)].to_vec();
        }
        let wanted = Wanted::pooled(&backend.info().capabilities);
        let plan = (backend.folding() == Folding::Prefix && rng.random()).then(|| RadixPlan::new(&ragged, 1));
        let mut case =
            Self { batch: Batch { wanted: vec![wanted; ragged.num_sequences()], ragged }, plan, expected: vec![] };
        case.expected = case.run(backend, &mut prefold_core::Uninterrupted).unwrap();
        case
    }

    fn run(&self, backend: &mut ModelBackend, yields: &mut dyn YieldPoint) -> Result<Vec<Vec<u32>>, BackendError> {
        let outputs = backend.forward_yielding(&self.batch, self.plan.as_ref(), yields)?;
        Ok(outputs.into_iter().map(bits).collect())
    }

    #[track_caller]
    fn check(&self, what: &str, backend: &mut ModelBackend, yields: &mut dyn YieldPoint) {
        assert_eq!(self.run(backend, yields).unwrap(), self.expected, "{what}");
    }
}

fn sequence(info: &ModelInfo, rng: &mut StdRng, last: &[u32]) -> Tokens {
    let longest = info.parts().map(|part| part.max_input_length.min(40)).min().unwrap();
    let vocab = info.parts().map(|part| part.vocab_size).min().unwrap() as u32;
    let kept = rng.random_range(0..=last.len().min(longest - 1));
    let rest = rng.random_range(1..=longest - kept);
    let ids: Vec<u32> = last[..kept].iter().copied().chain((0..rest).map(|_| rng.random_range(0..vocab))).collect();
    let types = info.parts().map(|part| part.token_types).min().unwrap() as u32;
    let adapters = info.capabilities.embed.as_ref().map_or(0, |embed| embed.adapters.len());
    let (len, adapter) = (ids.len(), Adapter(rng.random_range(0..=adapters) as u8));
    let tokens = Tokens::new(ids).with_adapter(adapter);
    match types {
        0 | 1 => tokens,
        types => tokens.with_token_types((0..len).map(|_| rng.random_range(0..types)).collect()).unwrap(),
    }
}

fn bits(output: Output) -> Vec<u32> {
    match output {
        Output::Embedding(values) | Output::Logits(values) | Output::Tokens { data: values, .. } => {
            values.iter().map(|value| value.to_bits()).collect()
        }
    }
}

/// At some yield points a batch runs on the first of `others`, which the rest of them interrupt.
struct Preempting<'a> {
    others: &'a mut [ModelBackend],
    cases: &'a [Case],
    chance: f64,
    rng: &'a mut StdRng,
    thread: ThreadId,
    ran: usize,
}

impl<'a> Preempting<'a> {
    fn new(others: &'a mut [ModelBackend], cases: &'a [Case], chance: f64, rng: &'a mut StdRng) -> Self {
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

/// The backends of a model: the one that is interrupted, and the others.
fn backends(name: &str, dtype: Dtype, attention: AttentionMode) -> (ModelBackend, [ModelBackend; 2]) {
    let model = load(&LoadOptions { dtype: Some(dtype), attention, ..options(fixture(name)) });
    let Interrupting { due, urgent } = model.interrupting.unwrap();
    (model.backend, [due, urgent])
}

fn check_preemption(name: &str, dtype: Dtype, attention: AttentionMode) {
    let what = format!("{name} {dtype} {attention}");
    let rng = &mut StdRng::seed_from_u64(7);
    let (mut backend, mut others) = backends(name, dtype, attention);
    let mut cases: Vec<Case> = (0..5).map(|_| Case::random(&mut backend, rng, 2)).collect();
    cases.extend((0..2).map(|_| Case::random(&mut backend, rng, 5)));
    let (small, large) = cases.split_at(5);
    // At every yield point between two operations.
    let mut yields = Preempting::new(&mut others, small, 1.0, rng);
    small[0].check(&what, &mut backend, &mut yields);
    assert!(yields.ran > 3, "{what}");
    // At random ones inside of operations too.
    for case in large {
        let mut yields = Preempting::new(&mut others, &cases, 0.02, rng);
        in_smallest_parts(|| case.check(&what, &mut backend, &mut yields));
        case.check(&what, &mut backend, &mut Preempting::new(&mut others, &cases, 0.1, rng));
    }
}

fn check_decoders(dtype: Dtype) {
    for name in EMBEDDING_FIXTURES.into_iter().chain(CLASSIFIER_FIXTURES) {
        for attention in ATTENTION_MODES {
            check_preemption(name, dtype, attention);
        }
    }
}

#[test]
fn decoders_in_float32() {
    check_decoders(Dtype::Float32);
}

#[test]
fn decoders_in_bfloat16() {
    check_decoders(Dtype::Bfloat16);
}

#[test]
fn decoders_in_int8() {
    check_decoders(Dtype::Int8);
}

#[test]
fn encoders_tables_and_routers() {
    let names = EMBEDDERS.into_iter().chain(STATIC).chain(ROUTED).chain(TOKEN_CLASSIFIERS).chain(CLASSIFIERS);
    for (index, name) in names.enumerate() {
        match KINDS.contains(&name) {
            true => DTYPES.iter().for_each(|&dtype| check_preemption(name, dtype, AttentionMode::Compact)),
            false => check_preemption(name, DTYPES[index % DTYPES.len()], AttentionMode::Compact),
        }
    }
}

/// Counts yield points, and does something at one of them.
struct At<F> {
    point: usize,
    reached: usize,
    action: F,
}

fn at<F: FnMut() -> Result<(), Stopped>>(point: usize, action: F) -> At<F> {
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

fn count(case: &Case, backend: &mut ModelBackend) -> usize {
    let mut counter = at(0, || Ok(()));
    case.check("counted", backend, &mut counter);
    counter.reached
}

#[test]
fn a_pass_that_is_stopped_at_any_yield_point_leaves_the_next_as_it_is() {
    for name in KINDS {
        for dtype in [Dtype::Bfloat16, Dtype::Int8] {
            let rng = &mut StdRng::seed_from_u64(11);
            let (mut backend, _) = backends(name, dtype, AttentionMode::Ragged);
            let cases = [(); 2].map(|()| Case::random(&mut backend, rng, 3));
            let is_stopped = |result| matches!(result, Err(BackendError::Stopped(Stopped)));
            let points = count(&cases[0], &mut backend);
            for point in 1..=points {
                let stopped = cases[0].run(&mut backend, &mut at(point, || Err(Stopped)));
                assert!(is_stopped(stopped), "{name} {dtype} {point} of {points}");
                cases[point % 2].check(name, &mut backend, &mut at(0, || Ok(())));
            }
            in_smallest_parts(|| {
                let points = count(&cases[0], &mut backend);
                for point in (1..=points).step_by(points / 20 + 1) {
                    let stopped = cases[0].run(&mut backend, &mut at(point, || Err(Stopped)));
                    assert!(is_stopped(stopped), "{name} {dtype} {point} of {points}, smallest parts");
                    cases[point % 2].check(name, &mut backend, &mut at(0, || Ok(())));
                }
            });
        }
    }
}

#[test]
fn failures_of_either_pass_leave_the_other_as_it_is() {
    for name in KINDS {
        let rng = &mut StdRng::seed_from_u64(13);
        let (mut backend, [mut due, _]) = backends(name, Dtype::Float32, AttentionMode::Compact);
        let [case, other] = [(); 2].map(|()| Case::random(&mut backend, rng, 3));
        let vocab = backend.info().parts().map(|part| part.vocab_size).max().unwrap() as u32;
        let (batch, _) = batch(&[vec![1, vocab, 1]], Compaction::Off, other.batch.wanted[0]);
        let unknown = Case { batch, plan: None, expected: vec![] };
        let (points, inner) = (count(&case, &mut backend), count(&other, &mut due));
        let panic = |_: usize| -> Result<(), Stopped> { panic!("at a yield point") };
        for point in 1..=points {
            // The pass goes on after a panic of the batch that interrupts it, after an error and after a stop.
            let within = 1 + point % inner;
            let mut fail = || {
                let pass = AssertUnwindSafe(|| other.run(&mut due, &mut at(within, || panic(within))));
                assert!(catch_unwind(pass).is_err());
                assert!(matches!(unknown.run(&mut due, &mut at(0, || Ok(()))), Err(BackendError::Compute(_))));
                assert!(other.run(&mut due, &mut at(within, || Err(Stopped))).is_err());
                Ok(())
            };
            case.check(name, &mut backend, &mut at(point, &mut fail));
            other.check(name, &mut due, &mut at(0, || Ok(())));
            // A panic ends the pass, after the other has run.
            let mut end = || {
                other.check(name, &mut due, &mut at(0, || Ok(())));
                panic(point)
            };
            let pass = AssertUnwindSafe(|| case.run(&mut backend, &mut at(point, &mut end)));
            assert!(catch_unwind(pass).is_err());
            other.check(name, &mut due, &mut at(0, || Ok(())));
        }
        case.check(name, &mut backend, &mut at(0, || Ok(())));
    }
}

/// Time passes at each yield point.
#[derive(Default)]
struct Pausing(Duration);

impl YieldPoint for Pausing {
    fn reach(&mut self) -> Result<(), Stopped> {
        let start = Instant::now();
        thread::sleep(Duration::from_millis(2));
        self.0 += start.elapsed();
        Ok(())
    }

    fn away(&self) -> Duration {
        self.0
    }
}

#[test]
fn times_of_parts_are_without_what_ran_at_yield_points() {
    let (mut backend, _) = backends("router-encoders-tiny", Dtype::Float32, AttentionMode::Compact);
    let mut ragged = RaggedBatch::default();
    for adapter in 0..3 {
        ragged.push(Tokens::new([1_u32, 2, 3]).with_adapter(Adapter(adapter)).as_slice()).unwrap();
    }
    let batch = Batch { wanted: vec![Wanted::Embedding; ragged.num_sequences()], ragged };
    let mut yields = Pausing::default();
    let start = Instant::now();
    backend.forward_yielding(&batch, None, &mut yields).unwrap();
    let (all, away) = (start.elapsed(), yields.away());
    let parts: Duration = backend.part_times().iter().sum();
    assert!(away > Duration::from_millis(50), "{away:?}");
    assert!(backend.part_times().iter().all(|time| !time.is_zero()), "{:?}", backend.part_times());
    assert!(parts <= all - away, "{parts:?} of {all:?}, {away:?} away");
}
