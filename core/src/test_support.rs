//! A backend that does as it is told, and the tokenizers of the reference checkpoints.

use crate::{
    Backend, BackendError, Batch, EncodeLimits, EngineConfig, LoadedModel, ModelInfo, ModelKind, Output, Pooling,
    Prompts, RerankRecipe, RerankTemplate, Scheduling, Wanted,
};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::mpsc;
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
    RerankRecipe::builtin(RerankRecipe::QWEN3).expect("it comes along").template
}

pub(crate) fn expected(model: &str) -> Value {
    let text = std::fs::read_to_string(fixture(model, "expected.json")).expect("the fixture's values");
    serde_json::from_str(&text).expect("JSON")
}

/// A list of ids in `expected.json`.
pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

pub(crate) fn embedding_kind() -> ModelKind {
    ModelKind::Embedding { dim: DIM, pooling: Pooling::LastToken }
}

pub(crate) fn classifier_kind(labels: usize) -> ModelKind {
    ModelKind::Classifier { labels: (0..labels).map(|label| format!("label {label}")).collect() }
}

pub(crate) fn info(kind: ModelKind, max_input_length: usize) -> ModelInfo {
    ModelInfo {
        model_type: "fake".to_owned(),
        kind,
        vocab_size: 1200,
        max_input_length,
        token_dim: DIM,
        dtype: "float32",
        device: "cpu".to_owned(),
        attention: "ragged",
    }
}

/// Of the models that [`info`] describes.
pub(crate) fn limits(max_input_length: usize, auto_truncate: bool) -> EncodeLimits {
    EncodeLimits { vocab_size: 1200, max_input_length, auto_truncate }
}

pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        max_batch_tokens: 1000,
        max_batch_ragged_tokens: None,
        max_batch_requests: None,
        max_concurrent_requests: 64,
        max_queued_tokens: 100_000,
        max_queued_inputs: 10_000,
        max_client_batch_size: 32,
        scheduling: Scheduling::Prefix,
        radix_mlp_threshold: 0.95,
        pad_to_multiple: 1,
        tokenization_workers: 2,
        auto_truncate: false,
    }
}

pub(crate) fn model(backend: FakeBackend, tokenizer: Tokenizer) -> LoadedModel {
    LoadedModel { backend: Box::new(backend), tokenizer, prompts: Prompts::default(), template: None }
}

/// What happens to a batch.
pub(crate) enum Fate {
    Answer,
    Fail,
    Panic,
    /// The value `.1` in the output of sequence `.0`.
    Poison(usize, f32),
    /// One output less than sequences.
    TooFew,
    /// Outputs of the wrong form.
    WrongForm,
}

/// Answers at once, or, with a [`Gate`], when the test says so.
pub(crate) struct FakeBackend {
    info: ModelInfo,
    gate: Option<(mpsc::Sender<Batch>, mpsc::Receiver<Fate>)>,
}

/// The test's end of a gated backend. Dropped, it leaves the backend running freely.
pub(crate) struct Gate {
    started: mpsc::Receiver<Batch>,
    fates: mpsc::Sender<Fate>,
}

impl Gate {
    /// Waits until the backend has taken a batch; it blocks until [`release`](Self::release).
    pub(crate) fn started(&self) -> Batch {
        self.started.recv_timeout(PATIENCE).expect("a batch was to start")
    }

    pub(crate) fn release(&self, fate: Fate) {
        self.fates.send(fate).expect("the backend runs");
    }

    /// Nothing has been taken since the last look.
    pub(crate) fn is_idle(&self) -> bool {
        self.started.try_recv().is_err()
    }
}

impl FakeBackend {
    pub(crate) fn new(info: ModelInfo) -> Self {
        Self { info, gate: None }
    }

    pub(crate) fn gated(info: ModelInfo) -> (Self, Gate) {
        let (start, started) = mpsc::channel();
        let (fates, fate) = mpsc::channel();
        (Self { info, gate: Some((start, fate)) }, Gate { started, fates })
    }
}

impl Backend for FakeBackend {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<Output>, BackendError> {
        let fate = self.gate.as_ref().map_or(Fate::Answer, |(start, fate)| {
            drop(start.send(batch.clone()));
            fate.recv().unwrap_or(Fate::Answer)
        });
        let sequences = (0..batch.ragged.num_sequences()).map(|b| &batch.ragged.input_ids()[batch.ragged.rows(b)]);
        let mut outputs: Vec<Output> =
            sequences.zip(&batch.wanted).map(|(ids, &wanted)| fake_output(&self.info.kind, ids, wanted)).collect();
        match fate {
            Fate::Answer => {}
            Fate::Fail => return Err(BackendError::Compute("the test said so".to_owned())),
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

/// What the fake backend answers for a sequence: every value depends on all of its tokens.
pub(crate) fn fake_output(kind: &ModelKind, ids: &[u32], wanted: Wanted) -> Output {
    match (wanted, kind) {
        (Wanted::Tokens, _) => {
            Output::Tokens { data: (1..=ids.len()).flat_map(|end| fake_values(&ids[..end], DIM)).collect(), dim: DIM }
        }
        (Wanted::Pooled, ModelKind::Embedding { dim, .. }) => Output::Embedding(fake_values(ids, *dim)),
        (Wanted::Pooled, ModelKind::Reranker) => Output::Logits(fake_values(ids, 2)),
        (Wanted::Pooled, ModelKind::Classifier { labels }) => Output::Logits(fake_values(ids, labels.len())),
    }
}

pub(crate) fn fake_values(ids: &[u32], dim: usize) -> Vec<f32> {
    let value = |d: usize| {
        let hash = ids.iter().fold(d as u32 + 1, |hash, id| hash.wrapping_mul(31).wrapping_add(*id));
        (hash % 2001) as f32 / 1000.0 - 1.0
    };
    (0..dim).map(value).collect()
}

/// Long enough that only a fault reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what another thread is about to do.
pub(crate) fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
