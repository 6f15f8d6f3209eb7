//! Fake backend that tests control.

use crate::backend::{Backend, Batch, BatchLimits, ModelInfo, PrefixBackend};
use crate::capabilities::Capabilities;
use crate::error::BackendError;
use crate::outputs::submitted::{RunningPass, Submitted};
use crate::outputs::{Output, OutputKind, Outputs, Spec, Values};
use crate::plan::radix::RadixPlan;
use crate::plan::ragged::RaggedBatch;
use crate::yield_point::YieldPoint;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Time after which a wait has failed: only a fault reaches it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Outcome of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Fate {
    /// Outputs that depend on all tokens.
    Answer,
    /// The pass fails.
    Fail,
    /// The device fails for good.
    Lose,
    /// The pass panics.
    Panic,
    /// The value `.1` in the output of sequence `.0`.
    Poison(usize, f32),
    /// One output less than sequences.
    TooFew,
    /// Outputs of the wrong form.
    WrongForm,
    /// A yield point, after which a [`Control`] is asked again.
    Yield,
}

impl Fate {
    /// The outputs of a pass with this fate, from the right ones.
    fn outputs(self, mut outputs: Vec<Output>) -> Result<Vec<Output>, BackendError> {
        match self {
            Self::Answer | Self::Yield => {}
            Self::Fail => return Err(BackendError::Compute("the fake was told to fail".to_owned())),
            Self::Lose => return Err(BackendError::DeviceLost("the fake was told to lose its device".to_owned())),
            Self::Panic => panic!("the fake was told to panic"),
            Self::Poison(sequence, value) => outputs[sequence].all_mut().for_each(|values| values.data[1] = value),
            Self::TooFew => drop(outputs.pop()),
            Self::WrongForm => outputs.fill(Output::of(OutputKind::Tokens, vec![], 1)),
        }
        Ok(outputs)
    }
}

/// Decides the fate of each batch.
type Script =
    Box<dyn FnMut(&Batch, Option<&RadixPlan>, &mut dyn YieldPoint) -> Result<Fate, BackendError> + Send + 'static>;

/// Backend whose outputs are made up from the tokens. The first value of a text's vector is higher by the number of its task.
pub struct FakeBackend {
    info: ModelInfo,
    values: fn(&[u32], usize) -> Vec<f32>,
    script: Script,
    /// Free bytes, and bytes for each token of the largest batch.
    memory: Option<(usize, usize)>,
    /// Fates of submitted passes, in their order; `None` for a backend that is done when it returns.
    device: Option<Arc<Mutex<mpsc::Receiver<Fate>>>>,
}

/// A pass that ends as the test says.
struct FakePass {
    outputs: Vec<Output>,
    device: Arc<Mutex<mpsc::Receiver<Fate>>>,
}

impl RunningPass for FakePass {
    fn outputs(self: Box<Self>) -> Result<Vec<Output>, BackendError> {
        let fate = self.device.lock().expect("fates are received by one pass at a time").recv().unwrap_or(Fate::Answer);
        fate.outputs(self.outputs)
    }
}

/// A batch that a controlled backend has taken.
pub struct Started {
    /// The sequences.
    pub ragged: RaggedBatch,
    /// The plan, if they are compacted.
    pub plan: Option<RadixPlan>,
}

/// The test's end of a controlled backend. Dropped, it leaves the backend running freely.
pub struct Control {
    started: mpsc::Receiver<Started>,
    fates: mpsc::Sender<Fate>,
}

impl Control {
    /// Waits until the backend has taken a batch; it blocks until [`release`](Self::release).
    pub fn started(&self) -> Started {
        self.started.recv_timeout(PATIENCE).expect("a batch was to start")
    }

    /// Lets the backend go on with its batch.
    pub fn release(&self, fate: Fate) {
        self.fates.send(fate).expect("the backend runs");
    }

    /// Nothing has been taken since the last look.
    pub fn is_idle(&self) -> bool {
        self.try_started().is_none()
    }

    /// The batch that the backend has taken since the last look.
    pub fn try_started(&self) -> Option<Started> {
        self.started.try_recv().ok()
    }
}

impl FakeBackend {
    /// A backend that answers at once.
    pub fn new(info: ModelInfo) -> Self {
        Self::scripted(info, |_, _, _| Ok(Fate::Answer))
    }

    /// A backend whose passes end as `script` says.
    pub fn scripted(
        info: ModelInfo,
        script: impl FnMut(&Batch, Option<&RadixPlan>, &mut dyn YieldPoint) -> Result<Fate, BackendError> + Send + 'static,
    ) -> Self {
        Self { info, values: fake_values, script: Box::new(script), memory: None, device: None }
    }

    /// A backend whose passes reach so many yield points.
    pub fn yielding(info: ModelInfo, yield_points: usize) -> Self {
        Self::scripted(info, move |_, _, yields| {
            (0..yield_points).try_for_each(|_| yields.reach())?;
            Ok(Fate::Answer)
        })
    }

    /// A backend that answers when the test says so.
    pub fn controlled(info: ModelInfo) -> (Self, Control) {
        let (start, started) = mpsc::channel();
        let (fates, next) = mpsc::channel();
        let backend = Self::scripted(info, move |batch, plan, yields| {
            drop(start.send(Started { ragged: batch.ragged.clone(), plan: plan.cloned() }));
            loop {
                match next.recv().unwrap_or(Fate::Answer) {
                    Fate::Yield => yields.reach()?,
                    fate => return Ok(fate),
                }
            }
        });
        (backend, Control { started, fates })
    }

    /// A backend that submits passes to a device, which ends them in their order as the test says; each submission is reported.
    pub fn on_device(info: ModelInfo) -> (Self, Control) {
        let (start, started) = mpsc::channel();
        let (fates, device) = mpsc::channel();
        let backend = Self::scripted(info, move |batch, plan, _| {
            drop(start.send(Started { ragged: batch.ragged.clone(), plan: plan.cloned() }));
            Ok(Fate::Answer)
        });
        (Self { device: Some(Arc::new(Mutex::new(device))), ..backend }, Control { started, fates })
    }

    /// The backend with values that `values` makes from token ids and a number of values, in place of [`fake_values`].
    #[must_use]
    pub fn with_values(self, values: fn(&[u32], usize) -> Vec<f32>) -> Self {
        Self { values, ..self }
    }

    /// The backend with so many bytes left, each token of whose batches needs `per_token`.
    #[must_use]
    pub fn with_memory(self, free: usize, per_token: usize) -> Self {
        Self { memory: Some((free, per_token)), ..self }
    }

    fn run(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        let fate = (self.script)(batch, plan, yields)?;
        let outputs = batch.wanted.iter().enumerate().map(|(b, &wanted)| self.answer(batch, b, wanted)).collect();
        match &self.device {
            None => fate.outputs(outputs).map(Submitted::Done),
            Some(device) => Ok(Submitted::Running(Box::new(FakePass { outputs, device: Arc::clone(device) }))),
        }
    }

    fn answer(&self, batch: &Batch, b: usize, wanted: Outputs) -> Output {
        let ids = &batch.ragged.input_ids()[batch.ragged.rows(b)];
        let mut output = output(&self.info.capabilities, ids.len(), wanted, |end, dim| (self.values)(&ids[..end], dim));
        if let Some(Values { data, .. }) = output.get_mut(OutputKind::Embedding) {
            data[0] += f32::from(batch.ragged.tasks()[b].0);
        }
        output
    }
}

impl Backend for FakeBackend {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn needed_bytes(&self, limits: BatchLimits) -> usize {
        self.memory.map_or(0, |(_, per_token)| limits.max_tokens.saturating_mul(per_token))
    }

    fn free_bytes(&self) -> Option<usize> {
        self.memory.map(|(free, _)| free)
    }

    fn submit(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        self.run(batch, None, yields)
    }
}

impl PrefixBackend for FakeBackend {
    fn submit_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Submitted, BackendError> {
        self.run(batch, Some(plan), yields)
    }
}

/// Wanted outputs for `len` tokens: `values(end, dim)` are the values for the first `end` tokens.
pub fn output(
    capabilities: &Capabilities,
    len: usize,
    wanted: Outputs,
    values: impl Fn(usize, usize) -> Vec<f32>,
) -> Output {
    let of_kind = |kind: OutputKind| {
        let Spec { rows, dim, .. } = kind.spec();
        let dim = dim(capabilities);
        let ends = len + 1 - rows.count(len)..=len;
        (kind, Values { data: ends.flat_map(|end| values(end, dim)).collect(), dim })
    };
    wanted.kinds().map(of_kind).collect()
}

/// Output of a fake backend for a sequence without a task.
pub fn fake_output(capabilities: &Capabilities, ids: &[u32], wanted: Outputs) -> Output {
    output(capabilities, ids.len(), wanted, |end, dim| fake_values(&ids[..end], dim))
}

/// Values from -1 to 1, each of which depends on all tokens.
pub fn fake_values(ids: &[u32], dim: usize) -> Vec<f32> {
    let value = |d: usize| {
        let hash = ids.iter().fold(d as u32 + 1, |hash, id| hash.wrapping_mul(31).wrapping_add(*id));
        (hash % 2001) as f32 / 1000.0 - 1.0
    };
    (0..dim).map(value).collect()
}
