//! The passes of a warm-up.

use super::*;
use crate::backend::{Backend, ModelInfo, PrefixBackend, TokenLimits};
use crate::non_empty::NonEmpty;
use crate::outputs::submitted::Submitted;
use crate::testing::support::{embedder, info, tasks};
use crate::yield_point::YieldPoint;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

/// One call of the backend: what it reserved, or N and N' of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Reserve(usize),
    Pass { tokens: usize, compact: Option<usize> },
}

/// Records its calls.
struct Recorder {
    info: ModelInfo,
    calls: Arc<Mutex<Vec<Call>>>,
    fails: bool,
}

impl Recorder {
    fn pass(&mut self, batch: &Batch, compact: Option<usize>) -> Result<Submitted, BackendError> {
        self.calls.lock().unwrap().push(Call::Pass { tokens: batch.ragged.total_tokens(), compact });
        match self.fails {
            true => Err(BackendError::Compute("no".to_owned())),
            false => Ok(Submitted::Done(Vec::new())),
        }
    }
}

impl Backend for Recorder {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        self.calls.lock().unwrap().push(Call::Reserve(limits.max_tokens));
        Ok(())
    }

    fn submit(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        self.pass(batch, None)
    }
}

impl PrefixBackend for Recorder {
    fn submit_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        _: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        self.pass(batch, Some(plan.unique_tokens()))
    }
}

/// Calls that a warm-up of `tokens` makes on `device`, in batches of 1,000 tokens and inputs of 500.
fn calls(tokens: usize, device: &str, threshold: f32, folding: Folding) -> Vec<Call> {
    let calls = Arc::default();
    let info = ModelInfo { device: device.to_owned(), ..info(embedder(), 500) };
    let recorder = Recorder { info, calls: Arc::clone(&calls), fails: false };
    let mut backend = match folding {
        Folding::Prefix => ModelBackend::Prefix(Box::new(recorder)),
        Folding::Whole => ModelBackend::Whole(Box::new(recorder)),
    };
    let observed = RefCell::new(Vec::new());
    let observe = |sub_model, Work { rows, .. }, _| observed.borrow_mut().push((sub_model, rows));
    warm_up(tokens, threshold, folding).run(&mut backend, observe).unwrap();
    let calls = calls.lock().unwrap().clone();
    let rows = calls.iter().filter_map(|call| match *call {
        Call::Pass { tokens, compact } => Some(compact.unwrap_or(tokens)),
        Call::Reserve(_) => None,
    });
    assert!(rows.eq(observed.borrow().iter().map(|&(_, rows)| rows)), "{observed:?}");
    calls
}

fn warm_up(tokens: usize, threshold: f32, folding: Folding) -> WarmUp {
    WarmUp {
        tokens,
        limits: BatchLimits { max_tokens: 1000, max_ragged_tokens: 8000 },
        interrupting: None,
        compaction: Compaction { folding, threshold, pad_to_multiple: 1, max_tokens: 1000 },
    }
}

#[test]
fn each_mode_that_can_occur_runs_once() {
    let reserve = Call::Reserve(1000);
    let ragged = Call::Pass { tokens: 64, compact: None };
    let compact = Call::Pass { tokens: 160, compact: Some(64) };
    assert_eq!(calls(64, "cpu", 0.95, Folding::Prefix), [reserve, ragged, compact]);
    assert_eq!(calls(64, "cpu", 0.0, Folding::Prefix), [reserve, ragged], "nothing is ever compacted");
    assert_eq!(calls(64, "cpu", 0.95, Folding::Whole), [reserve, ragged]);
    assert_eq!(calls(0, "cpu", 0.95, Folding::Prefix), []);
    let full = Call::Pass { tokens: 1000, compact: None };
    let full_compact = Call::Pass { tokens: 1750, compact: Some(1000) };
    assert_eq!(calls(64, "cuda:0", 0.95, Folding::Prefix), [reserve, full, full_compact, ragged, compact]);
    assert_eq!(calls(5000, "cpu", 0.0, Folding::Prefix), [reserve, full], "no pass is larger than a batch");
    for tokens in 1..20 {
        calls(tokens, "cpu", 0.95, Folding::Prefix);
    }
}

#[test]
fn no_sequence_is_longer_than_the_model_takes() {
    for (tokens, longest) in [(64, 500), (64, 3), (64, 1), (1000, 500), (1, 1)] {
        for sequences in [distinct(tokens, longest), folded(tokens, longest)] {
            assert!(sequences.iter().all(|sequence| (1..=longest).contains(&sequence.len())), "{tokens} {longest}");
            let all: usize = sequences.iter().map(Vec::len).sum();
            assert!(2 * all <= 5 * tokens, "{tokens} {longest}: {all}");
        }
        assert_eq!(distinct(tokens, longest).concat(), (0..tokens).collect::<Vec<_>>());
    }
}

#[test]
fn a_backend_that_fails_is_reported() {
    let recorder = Recorder { info: info(embedder(), 500), calls: Arc::default(), fails: true };
    let mut backend = ModelBackend::Prefix(Box::new(recorder));
    let error = warm_up(64, 0.95, Folding::Prefix).run(&mut backend, |_, _, _| ()).unwrap_err();
    assert!(matches!(error, BackendError::Compute(_)), "{error}");
}

/// Records the task, the longest sequence and the largest id of each pass.
struct Parts {
    info: ModelInfo,
    passes: Arc<Mutex<Vec<(u8, usize, u32)>>>,
}

impl Backend for Parts {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn submit(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        let ragged = &batch.ragged;
        let longest = (0..ragged.num_sequences()).map(|b| ragged.rows(b).len()).max();
        let pass = (ragged.tasks()[0].0, longest.unwrap(), *ragged.input_ids().iter().max().unwrap());
        self.passes.lock().unwrap().push(pass);
        Ok(Submitted::Done(Vec::new()))
    }
}

#[test]
fn each_sub_model_runs_once_within_its_limits() {
    let sub_model = |(vocab_size, max_input_length)| TokenLimits { vocab_size, token_types: 0, max_input_length };
    let info = ModelInfo {
        sub_models: NonEmpty::collect([(1200, 500), (10, 7), (10, 9)].map(sub_model)).unwrap(),
        ..info(tasks(&[0, 1, 1, 2]), 500)
    };
    let passes = Arc::default();
    let mut backend = ModelBackend::Whole(Box::new(Parts { info, passes: Arc::clone(&passes) }));
    let observed = RefCell::new(Vec::new());
    let observe = |sub_model, Work { rows, pairs }, _| observed.borrow_mut().push((sub_model, rows, pairs));
    warm_up(64, 0.95, Folding::Whole).run(&mut backend, observe).unwrap();
    assert_eq!(*observed.borrow(), [(0, 64, 544), (1, 64, 253), (2, 64, 316)]);
    assert_eq!(*passes.lock().unwrap(), [(0, 16, 63), (2, 7, 9), (4, 9, 9)]);
}
