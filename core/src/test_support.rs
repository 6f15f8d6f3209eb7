//! Fake backend that tests control, and the tokenizers of the reference checkpoints.

use crate::backend::{Backend, Batch, ModelBackend, ModelInfo, Output, PrefixBackend, Wanted};
use crate::capabilities::{Capabilities, Classify, Embed, Pooling, Prompts, RerankRecipe, RerankTemplate, TaskProfile};
use crate::config::EngineConfig;
use crate::engine::loaded_model::LoadedModel;
use crate::error::BackendError;
use crate::plan::radix::RadixPlan;
use crate::plan::ragged::RaggedBatch;
use crate::plan::tokens::Tokens;
use crate::request::EncodeLimits;
use crate::yield_point::YieldPoint;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use tokenizers::Tokenizer;

/// Width of the fake embeddings.
pub(crate) const DIM: usize = 4;

pub(crate) fn fixture(model: &str, file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures")).join(model).join(file)
}

pub(crate) fn tokenizer(model: &str) -> Tokenizer {
    Tokenizer::from_file(fixture(model, "tokenizer.json")).expect("the fixture's tokenizer")
}

/// The prompt of Qwen3-Reranker.
pub(crate) fn qwen3_template() -> RerankTemplate {
    RerankRecipe::builtin(RerankRecipe::QWEN3).expect("a built-in recipe").template
}

pub(crate) fn expected(model: &str) -> Value {
    let text = std::fs::read_to_string(fixture(model, "expected.json")).expect("the fixture's values");
    serde_json::from_str(&text).expect("JSON")
}

/// A list of ids in `expected.json`.
pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

pub(crate) fn embedder() -> Capabilities {
    let embed = Embed { dim: DIM, token_dim: DIM, pooling: vec![Pooling::LastToken], ..Embed::default() };
    Capabilities::embedding(embed, 500)
}

/// An embedder with tasks for these parts.
pub(crate) fn tasks(parts: &[usize]) -> Capabilities {
    let task = |&part: &usize| TaskProfile { task: format!("part {part}"), part, ..TaskProfile::default() };
    let mut capabilities = embedder();
    capabilities.embed.as_mut().expect("an embedder").tasks = parts.iter().map(task).collect();
    capabilities
}

pub(crate) fn reranker() -> Capabilities {
    Capabilities::prompted_reranker(qwen3_template(), 500)
}

pub(crate) fn classifier(labels: usize) -> Capabilities {
    let labels = (0..labels).map(|label| format!("label {label}")).collect();
    Capabilities::classifier(Classify::of_labels(labels, Prompts::default()), 500)
}

pub(crate) fn info(capabilities: Capabilities, max_input_length: usize) -> ModelInfo {
    ModelInfo {
        model_type: "fake".to_owned(),
        capabilities: Arc::new(Capabilities { max_input_length, ..capabilities }),
        vocab_size: 1200,
        token_types: 0,
        dtype: "float32",
        dtype_reason: "for tests".to_owned(),
        kernels: "none".to_owned(),
        kernels_reason: "for tests".to_owned(),
        int8: None,
        input_memory: crate::InputMemory::default(),
        further_parts: vec![],
        device: "cpu".to_owned(),
        attention: "ragged",
    }
}

/// Limits of the models that [`info`] describes.
pub(crate) fn limits(max_input_length: usize, auto_truncate: bool) -> EncodeLimits {
    EncodeLimits { vocab_size: 1200, token_types: 0, max_input_length, auto_truncate }
}

pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        max_batch_tokens: 1000,
        max_concurrent_requests: 64,
        max_client_batch_size: 32,
        tokenization_workers: 2,
        // Controlled backends wait for the test at every pass.
        warmup_tokens: 0,
        max_batch_ms: Some(0),
        auto_truncate: false,
        ..EngineConfig::default()
    }
}

pub(crate) fn model(backend: FakeBackend, tokenizer: Tokenizer) -> LoadedModel {
    LoadedModel {
        backend: ModelBackend::Prefix(Box::new(backend)),
        interrupting: None,
        replicas: Vec::new(),
        tokenizer,
        further_tokenizers: vec![],
    }
}

/// Outcome of a batch.
pub(crate) enum Fate {
    Answer,
    Fail,
    /// The device fails permanently.
    Lose,
    Panic,
    /// Value `.1` in the output of sequence `.0`.
    Poison(usize, f32),
    /// One output too few.
    TooFew,
    /// Outputs of another kind than requested.
    WrongForm,
    /// A yield point, after which the test decides again.
    Yield,
}

/// Backend that answers at once or, with a [`Control`], when the test decides.
pub(crate) struct FakeBackend {
    info: ModelInfo,
    /// Yield points of a pass, not counting those requested by the test.
    yield_points: usize,
    control: Option<(mpsc::Sender<Started>, mpsc::Receiver<Fate>)>,
}

/// A batch that a controlled backend has taken.
pub(crate) struct Started {
    pub(crate) ragged: RaggedBatch,
    pub(crate) plan: Option<RadixPlan>,
}

/// Handle of a controlled backend. When it is dropped, the backend runs freely.
pub(crate) struct Control {
    started: mpsc::Receiver<Started>,
    fates: mpsc::Sender<Fate>,
}

impl Control {
    /// Waits until the backend has taken a batch; it blocks until [`release`](Self::release).
    pub(crate) fn started(&self) -> Started {
        self.started.recv_timeout(PATIENCE).expect("a batch was to start")
    }

    pub(crate) fn release(&self, fate: Fate) {
        self.fates.send(fate).expect("the backend runs");
    }

    /// True if the backend has taken no batch since the last call.
    pub(crate) fn is_idle(&self) -> bool {
        self.try_started().is_none()
    }

    /// The batch that the backend has taken since the last call.
    pub(crate) fn try_started(&self) -> Option<Started> {
        self.started.try_recv().ok()
    }
}

impl FakeBackend {
    pub(crate) fn new(info: ModelInfo) -> Self {
        Self { info, yield_points: 0, control: None }
    }

    /// A backend whose passes reach this many yield points.
    pub(crate) fn yielding(info: ModelInfo, yield_points: usize) -> Self {
        Self { info, yield_points, control: None }
    }

    pub(crate) fn controlled(info: ModelInfo) -> (Self, Control) {
        let (start, started) = mpsc::channel();
        let (fates, fate) = mpsc::channel();
        (Self { info, yield_points: 0, control: Some((start, fate)) }, Control { started, fates })
    }
}

impl Backend for FakeBackend {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(&mut self, batch: &Batch, yields: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError> {
        self.run(batch, None, yields)
    }
}

impl PrefixBackend for FakeBackend {
    fn forward_compact(
        &mut self,
        batch: &Batch,
        plan: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError> {
        self.run(batch, Some(plan), yields)
    }
}

impl FakeBackend {
    fn run(
        &mut self,
        batch: &Batch,
        plan: Option<&RadixPlan>,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError> {
        let fate = self.control.as_ref().map_or(Ok(Fate::Answer), |(start, fates)| {
            drop(start.send(Started { ragged: batch.ragged.clone(), plan: plan.cloned() }));
            loop {
                match fates.recv().unwrap_or(Fate::Answer) {
                    Fate::Yield => yields.reach()?,
                    fate => return Ok::<_, BackendError>(fate),
                }
            }
        })?;
        (0..self.yield_points).try_for_each(|_| yields.reach())?;
        let sequences = (0..batch.ragged.num_sequences()).map(|b| &batch.ragged.input_ids()[batch.ragged.rows(b)]);
        let mut outputs: Vec<Output> = sequences
            .zip(&batch.wanted)
            .map(|(ids, &wanted)| fake_output(&self.info.capabilities, ids, wanted))
            .collect();
        match fate {
            Fate::Answer | Fate::Yield => {}
            Fate::Fail => return Err(BackendError::Compute("the test said so".to_owned())),
            Fate::Lose => return Err(BackendError::DeviceLost("the test said so".to_owned())),
            Fate::Panic => panic!("the test said so"),
            Fate::Poison(sequence, value) => match &mut outputs[sequence] {
                Output::Embedding(data) | Output::Logits(data) | Output::Tokens { data, .. } => data[1] = value,
            },
            Fate::TooFew => drop(outputs.pop()),
            Fate::WrongForm => outputs.iter_mut().for_each(|output| *output = Output::Tokens { data: vec![], dim: 1 }),
        }
        Ok(outputs)
    }
}

/// Backend with bidirectional attention: every value depends on the whole sequence.
pub(crate) struct Bidirectional {
    info: ModelInfo,
    /// All sequences that ran.
    ran: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Bidirectional {
    pub(crate) fn new(info: ModelInfo) -> (Self, Arc<Mutex<Vec<Vec<u32>>>>) {
        let ran = Arc::default();
        (Self { info, ran: Arc::clone(&ran) }, ran)
    }

    pub(crate) fn answer(tokens: &Tokens, wanted: Wanted) -> Output {
        let mut batch = Batch::default();
        batch.push(tokens.as_slice(), wanted).expect("a sequence");
        Self::output(&batch, 0)
    }

    fn output(batch: &Batch, b: usize) -> Output {
        let (ragged, rows) = (&batch.ragged, batch.ragged.rows(b));
        let types = ragged.token_type_ids().map_or(vec![0; rows.len()], |types| types[rows.clone()].to_vec());
        let words = [&ragged.input_ids()[rows.clone()], &types, &ragged.position_ids()[rows.clone()]].concat();
        match batch.wanted[b] {
            Wanted::Embedding => Output::Embedding(fake_values(&words, DIM)),
            Wanted::Logits => Output::Logits(fake_values(&words, 2)),
            Wanted::Tokens => {
                let row = |row: usize| fake_values(&[&words[..], &[row as u32]].concat(), DIM);
                Output::Tokens { data: (0..rows.len()).flat_map(row).collect(), dim: DIM }
            }
        }
    }
}

impl Backend for Bidirectional {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError> {
        let sequences = 0..batch.ragged.num_sequences();
        let ids = |b| batch.ragged.sequence(b).input_ids().to_vec();
        self.ran.lock().expect("nobody panics").extend(sequences.clone().map(ids));
        Ok(sequences.map(|b| Self::output(batch, b)).collect())
    }
}

/// Output of the fake backend for a sequence: every value depends on all of its tokens.
pub(crate) fn fake_output(capabilities: &Capabilities, ids: &[u32], wanted: Wanted) -> Output {
    let dim = capabilities.embed.as_ref().map_or(DIM, |embed| embed.dim);
    match wanted {
        Wanted::Embedding => Output::Embedding(fake_values(ids, dim)),
        Wanted::Logits => {
            Output::Logits(fake_values(ids, capabilities.classify.as_ref().map_or(2, |classify| classify.labels.len())))
        }
        Wanted::Tokens => {
            Output::Tokens { data: (1..=ids.len()).flat_map(|end| fake_values(&ids[..end], DIM)).collect(), dim: DIM }
        }
    }
}

pub(crate) fn fake_values(ids: &[u32], dim: usize) -> Vec<f32> {
    let value = |d: usize| {
        let hash = ids.iter().fold(d as u32 + 1, |hash, id| hash.wrapping_mul(31).wrapping_add(*id));
        (hash % 2001) as f32 / 1000.0 - 1.0
    };
    (0..dim).map(value).collect()
}

/// Timeout that is reached only in case of a fault.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a condition that another thread will fulfil.
pub(crate) fn wait_until(goal: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {goal}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
