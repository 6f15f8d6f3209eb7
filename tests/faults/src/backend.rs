//! Backend with fault injection.

use crate::faults::{Fault, Faults};
use crate::freeze::freeze;
use crate::source::Source;
use prefold_core::{
    Backend, BackendError, Batch, BatchLimits, ModelInfo, Output, PrefixBackend, RadixPlan, Submitted, YieldPoint,
};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

/// Poll interval of a stalled batch.
const STALL_POLL: Duration = Duration::from_millis(5);

/// Wrapper of a backend that injects faults into batches.
pub(crate) struct FaultyBackend<B: ?Sized> {
    inner: Box<B>,
    source: Source,
    rng: SmallRng,
}

impl<B: Backend + ?Sized> FaultyBackend<B> {
    pub(crate) fn new(inner: Box<B>, source: Source) -> Self {
        let seed = source.read().map_or(0, |faults| faults.seed);
        Self { inner, source, rng: SmallRng::seed_from_u64(seed) }
    }

    fn faults(&self) -> Result<Faults, BackendError> {
        self.source.read().map_err(BackendError::Compute)
    }

    /// Makes one value of one output non-finite.
    fn poison(&mut self, outputs: &mut [Output]) {
        const VALUES: [f32; 3] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        if outputs.is_empty() {
            return;
        }
        let output = self.rng.random_range(0..outputs.len());
        let mut values: Vec<&mut f32> = outputs[output].all_mut().flat_map(|values| &mut values.data).collect();
        if !values.is_empty() {
            let place = self.rng.random_range(0..values.len());
            *values[place] = VALUES[self.rng.random_range(0..VALUES.len())];
        }
    }
}

impl<B: Backend + ?Sized> Backend for FaultyBackend<B> {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        self.inner.needed_bytes(limits)
    }

    fn free_bytes(&self) -> Option<usize> {
        self.inner.free_bytes()
    }

    fn reserve(&mut self, limits: BatchLimits) -> Result<(), BackendError> {
        self.inner.reserve(limits)
    }

    fn submit(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        self.run(|inner| inner.submit(batch, yields))
    }

    fn sub_model_times(&self) -> &[Duration] {
        self.inner.sub_model_times()
    }
}

impl<B: PrefixBackend + ?Sized> PrefixBackend for FaultyBackend<B> {
    fn submit_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        self.run(|inner| inner.submit_compact(batch, plan, yields))
    }
}

impl<B: Backend + ?Sized> FaultyBackend<B> {
    /// Submits a pass, or injects a fault into it.
    #[allow(clippy::panic, reason = "a panic is one of the faults")]
    fn run(
        &mut self,
        submit: impl FnOnce(&mut B) -> Result<Submitted, BackendError>,
    ) -> Result<Submitted, BackendError> {
        let faults = self.faults()?;
        let fault = faults.choose(self.rng.random());
        match fault {
            Some(Fault::Panic) => panic!("injected panic"),
            Some(Fault::Error) => return Err(BackendError::Compute("injected error".to_owned())),
            Some(Fault::OutOfMemory) => {
                let message = "injected lack of memory; a smaller --max-batch-tokens needs less";
                return Err(BackendError::OutOfMemory(message.to_owned()));
            }
            Some(Fault::Delay) => std::thread::sleep(faults.delay),
            Some(Fault::Stall) => {
                while self.faults()?.stalls() {
                    std::thread::sleep(STALL_POLL);
                }
            }
            Some(Fault::Freeze) => freeze(),
            Some(Fault::NotFinite | Fault::TooFew) | None => {}
        }
        let submitted = submit(&mut self.inner)?;
        if !matches!(fault, Some(Fault::NotFinite | Fault::TooFew)) {
            return Ok(submitted);
        }
        let mut outputs = submitted.outputs()?;
        match fault {
            Some(Fault::NotFinite) => self.poison(&mut outputs),
            _ => drop(outputs.pop()),
        }
        Ok(Submitted::Done(outputs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prefold_core::testing::{FakeBackend, embed, info};
    use prefold_core::{Capabilities, OutputKind, Outputs, RaggedBatch, Uninterrupted};
    use std::fs;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const DIM: usize = 3;

    /// Over a backend that returns each sequence's first token.
    fn faulty(source: &str) -> FaultyBackend<FakeBackend> {
        let sound = FakeBackend::new(info(Capabilities::embedding(embed(DIM), 10), 10));
        let sound = sound.with_values(|ids, dim| vec![ids[0] as f32; dim]);
        FaultyBackend::new(Box::new(sound), Source::parse(source).unwrap())
    }

    fn batch() -> Batch {
        let ragged = RaggedBatch::from_sequences(&[vec![1, 2], vec![5], vec![7, 8, 9]]).unwrap();
        Batch { ragged, wanted: vec![Outputs::EMBEDDING; 3] }
    }

    #[test]
    fn without_faults_the_batch_passes() {
        let outputs = faulty("").forward(&batch(), &mut Uninterrupted).unwrap();
        assert_eq!(outputs, [1.0, 5.0, 7.0].map(|value| Output::of(OutputKind::Embedding, vec![value; DIM], DIM)));
        assert_eq!(faulty("delay=1,delay-ms=1").forward(&batch(), &mut Uninterrupted).unwrap(), outputs);
    }

    #[test]
    fn each_fault_is_what_it_is_called() {
        assert!(matches!(faulty("error=1").forward(&batch(), &mut Uninterrupted), Err(BackendError::Compute(_))));
        assert!(matches!(faulty("oom=1").forward(&batch(), &mut Uninterrupted), Err(BackendError::OutOfMemory(_))));
        assert_eq!(faulty("short=1").forward(&batch(), &mut Uninterrupted).unwrap().len(), 2);
        let mut backend = faulty("panic=1");
        assert!(catch_unwind(AssertUnwindSafe(|| backend.forward(&batch(), &mut Uninterrupted))).is_err());
    }

    #[test]
    fn one_value_of_one_output_is_poisoned() {
        let sound = faulty("").forward(&batch(), &mut Uninterrupted).unwrap();
        let mut backend = faulty("nan=1");
        let mut hit = [0; 3];
        for _ in 0..100 {
            let outputs = backend.forward(&batch(), &mut Uninterrupted).unwrap();
            let wrong: Vec<usize> = (0..3).filter(|&b| outputs[b] != sound[b]).collect();
            let &[b] = wrong.as_slice() else { panic!("{outputs:?}") };
            assert_eq!(outputs[b].all().flat_map(|values| &values.data).filter(|value| !value.is_finite()).count(), 1);
            hit[b] += 1;
        }
        assert!(hit.iter().all(|&hits| hits > 10), "{hit:?}");
    }

    #[test]
    fn faults_come_as_often_as_they_should_and_the_same_each_time() {
        let fates = |seed: u64| -> Vec<bool> {
            let mut backend = faulty(&format!("seed={seed},error=0.2"));
            (0..1000).map(|_| backend.forward(&batch(), &mut Uninterrupted).is_err()).collect()
        };
        let failed = fates(1).into_iter().filter(|failed| *failed).count();
        assert!((150..250).contains(&failed), "{failed}");
        assert_eq!(fates(1), fates(1));
        assert_ne!(fates(1), fates(2));
    }

    #[test]
    fn a_file_switches_faults_on_and_off_and_ends_a_stall() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("faults");
        let write = |text: &str| fs::write(&path, text).unwrap();
        assert!(Source::parse(&format!("@{}", path.display())).unwrap_err().contains("cannot read"));
        write("error=1\n");
        let mut backend = faulty(&format!("@{}", path.display()));
        assert!(backend.forward(&batch(), &mut Uninterrupted).is_err());
        write("");
        assert!(backend.forward(&batch(), &mut Uninterrupted).is_ok());
        write("stall=1");
        std::thread::scope(|scope| {
            let stalled = scope
                .spawn(move || backend.forward(&batch(), &mut Uninterrupted).map(|outputs| outputs.len()).unwrap());
            std::thread::sleep(STALL_POLL * 4);
            assert!(!stalled.is_finished());
            write("");
            assert_eq!(stalled.join().unwrap(), 3);
        });
    }
}
