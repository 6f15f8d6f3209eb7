//! Passes that are interrupted by others on streams of higher priority: none of them changes by a bit, whatever the device does first.

use crate::support::encoders::{EMBEDDERS, WIDE_HEADED_ENCODERS};
use crate::support::interruptions::{Case, Preempting, at, count};
use crate::support::*;
use crate::{fixtures, no_gpu, on_gpu, simulated};
use prefold_backends::{AttentionMode, Dtype, LoadOptions};
use prefold_core::{BackendError, Interrupting, ModelBackend, Stopped, Uninterrupted};
use rand::SeedableRng;
use rand::rngs::StdRng;

/// Of these the simulated device has time for.
const KINDS: [&str; 3] = ["qwen3-tiny", "qwen3-head128-tiny", "bert-mean-tiny"];

/// The backends of a model: the one that is interrupted, and the others.
fn backends(name: &str, dtype: Dtype, attention: AttentionMode) -> (ModelBackend, [ModelBackend; 2]) {
    let model = load(&LoadOptions { attention, ..on_gpu(fixture(name), dtype) });
    let Interrupting { due, urgent } = model.interrupting.unwrap();
    (model.backend, [due, urgent])
}

fn names() -> Vec<&'static str> {
    let decoders = fixtures(&EMBEDDING_FIXTURES, &WIDE_HEADED_DECODERS);
    let all = decoders.chain(fixtures(&EMBEDDERS, &WIDE_HEADED_ENCODERS));
    all.filter(|name| !simulated() || KINDS.contains(name)).chain(simulated().then_some(KINDS[1])).collect()
}

#[test]
fn equal_batches_have_equal_bits_on_all_streams_at_once() {
    if no_gpu() {
        return;
    }
    for (index, name) in names().into_iter().enumerate() {
        let (dtype, attention) = ([Dtype::Bfloat16, Dtype::Float32][index % 2], ATTENTION_MODES[index % 2]);
        let rng = &mut StdRng::seed_from_u64(17);
        let (mut backend, mut others) = backends(name, dtype, attention);
        let cases: Vec<Case> = (0..4).map(|_| Case::random(&mut backend, rng, 2)).collect();
        for other in &mut others {
            cases.iter().for_each(|case| case.check(name, other, &mut Uninterrupted));
        }
        let chance = if simulated() { 0.2 } else { 1.0 };
        let mut ran = 0;
        for case in &cases {
            let mut yields = Preempting::new(&mut others, &cases, chance, rng);
            case.check(name, &mut backend, &mut yields);
            ran += yields.ran;
        }
        assert!(ran > 0, "{name}");
    }
}

/// Operations are queued ahead, and memory of a batch may be used when its pass is over: the next one waits.
#[test]
fn a_pass_that_is_stopped_at_any_yield_point_leaves_the_next_as_it_is() {
    if no_gpu() {
        return;
    }
    for (name, dtype) in [("qwen3-tiny", Dtype::Bfloat16), ("bert-mean-tiny", Dtype::Float32)] {
        let rng = &mut StdRng::seed_from_u64(19);
        let (mut backend, [mut due, _]) = backends(name, dtype, AttentionMode::Ragged);
        let cases = [(); 2].map(|()| Case::random(&mut backend, rng, 2));
        for backend in [&mut backend, &mut due] {
            // At its end a pass waits for the device in some steps, whose number depends on the device's pace.
            let points = count(&cases[0], backend) - 6;
            for point in (1..=points).step_by(if simulated() { 5 } else { 1 }) {
                let stopped = cases[0].run(backend, &mut at(point, || Err(Stopped)));
                assert!(matches!(stopped, Err(BackendError::Stopped(Stopped))), "{name} {point} of {points}");
                cases[point % 2].check(name, backend, &mut at(0, || Ok(())));
            }
        }
    }
}

/// Memory is allocated and freed in the order of one stream and used in the order of another.
#[test]
fn buffers_that_grow_while_another_pass_runs_hold_its_values() {
    if no_gpu() {
        return;
    }
    let rng = &mut StdRng::seed_from_u64(23);
    let (mut backend, _) = backends("qwen3-tiny", Dtype::Float32, AttentionMode::Compact);
    let case = Case::random(&mut backend, rng, 2);
    let cases: Vec<Case> = (1..4).map(|most| Case::random(&mut backend, rng, 2 * most)).collect();
    for point in [2, 9, 17] {
        // New ones, whose buffers are empty; they are freed while the pass runs.
        let (_, [mut due, _]) = backends("qwen3-tiny", Dtype::Float32, AttentionMode::Compact);
        let mut grow = || {
            cases.iter().for_each(|case| case.check("grown", &mut due, &mut Uninterrupted));
            Ok(())
        };
        case.check("interrupted", &mut backend, &mut at(point, &mut grow));
    }
}
