//! Passes that are interrupted at their yield points by others over the same weights: none of them changes by a bit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::{CLASSIFIERS, EMBEDDERS, ROUTED, STATIC, TOKEN_CLASSIFIERS};
use crate::support::interruptions::{Case, Preempting, at, count};
use crate::support::*;
use prefold_backends::{AttentionMode, Dtype, LoadOptions, in_smallest_parts};
use prefold_core::{
    BackendError, Batch, Interrupting, ModelBackend, Outputs, RaggedBatch, Stopped, TaskId, Tokens, YieldPoint,
};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

const DTYPES: [Dtype; 3] = [Dtype::Float32, Dtype::Bfloat16, Dtype::Int8];

/// One of each kind: decoders, with norms behind blocks and with convolutions too; encoders, with experts, adapters, and all tokens; a
/// router.
const KINDS: [&str; 7] = [
    "qwen3-tiny",
    "gemma3-causal-tiny",
    "lfm2-tiny",
    "nomic-moe-tiny",
    "jina-v3-tiny",
    "bert-ner-tiny",
    "router-encoders-tiny",
];

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
        let vocab = backend.info().sub_models.iter().map(|part| part.vocab_size).max().unwrap() as u32;
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
        ragged.push(Tokens::new([1_u32, 2, 3]).with_task(TaskId(adapter)).as_slice()).unwrap();
    }
    let batch = Batch { wanted: vec![Outputs::EMBEDDING; ragged.num_sequences()], ragged };
    let mut yields = Pausing::default();
    let start = Instant::now();
    backend.forward_yielding(&batch, None, &mut yields).unwrap();
    let (all, away) = (start.elapsed(), yields.away());
    let parts: Duration = backend.sub_model_times().iter().sum();
    assert!(away > Duration::from_millis(50), "{away:?}");
    assert!(backend.sub_model_times().iter().all(|time| !time.is_zero()), "{:?}", backend.sub_model_times());
    assert!(parts <= all - away, "{parts:?} of {all:?}, {away:?} away");
}
