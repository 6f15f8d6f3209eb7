//! Support for this crate's tests: capabilities, values of the reference checkpoints, and a bidirectional backend.

use crate::backend::{Backend, Batch, ModelInfo};
use crate::capabilities::{Capabilities, Classify, Prompts, TaskProfile};
use crate::config::EngineConfig;
use crate::error::BackendError;
use crate::outputs::submitted::Submitted;
use crate::outputs::{Output, Outputs};
use crate::plan::tokens::Tokens;
use crate::request::{EncodeLimits, ForeignIds};
pub(crate) use crate::testing::*;
use crate::yield_point::YieldPoint;
use serde_json::Value;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Width of the fake embeddings.
pub(crate) const DIM: usize = 4;

pub(crate) fn expected(model: &str) -> Value {
    let text = std::fs::read_to_string(fixture(model, "expected.json")).expect("the fixture's values");
    serde_json::from_str(&text).expect("JSON")
}

/// A list of ids in `expected.json`.
pub(crate) fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|id| id.as_u64().expect("an id") as u32).collect()
}

pub(crate) fn embedder() -> Capabilities {
    Capabilities::embedding(embed(DIM), 500)
}

/// An embedder with tasks for these parts.
pub(crate) fn tasks(sub_models: &[usize]) -> Capabilities {
    let task = |&sub_model: &usize| TaskProfile {
        task: format!("sub_model {sub_model}"),
        sub_model,
        ..TaskProfile::default()
    };
    let mut capabilities = embedder();
    capabilities.embed.as_mut().expect("an embedder").tasks = sub_models.iter().map(task).collect();
    capabilities
}

pub(crate) fn reranker() -> Capabilities {
    Capabilities::prompted_reranker(qwen3_template(), 500)
}

pub(crate) fn classifier(labels: usize) -> Capabilities {
    let labels = (0..labels).map(|label| format!("label {label}")).collect();
    Capabilities::classifier(Classify::of_labels(labels, Prompts::default()), 500)
}

/// Limits of the models that [`info`] describes.
pub(crate) fn limits(max_input_length: usize, auto_truncate: bool) -> EncodeLimits {
    EncodeLimits { vocab_size: 1200, token_types: 0, max_input_length, auto_truncate, token_ids: ForeignIds::default() }
}

/// Settings under which neither time nor truncation plays a part.
pub(crate) fn config() -> EngineConfig {
    EngineConfig { max_batch_ms: Some(0), auto_truncate: false, ..crate::testing::config() }
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

    pub(crate) fn answer(tokens: &Tokens, wanted: Outputs) -> Output {
        let mut batch = Batch::default();
        batch.push(tokens.as_slice(), wanted).expect("a sequence");
        Self::output(&batch, 0)
    }

    fn output(batch: &Batch, b: usize) -> Output {
        let (ragged, rows) = (&batch.ragged, batch.ragged.rows(b));
        let types = ragged.token_type_ids().map_or(vec![0; rows.len()], |types| types[rows.clone()].to_vec());
        let words = [&ragged.input_ids()[rows.clone()], &types, &ragged.position_ids()[rows.clone()]].concat();
        let values = |end: usize, dim| fake_values(&[&words[..], &[end as u32]].concat(), dim);
        output(&embedder(), rows.len(), batch.wanted[b], values)
    }
}

impl Backend for Bidirectional {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn submit(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Submitted, BackendError> {
        let sequences = 0..batch.ragged.num_sequences();
        let ids = |b| batch.ragged.sequence(b).input_ids().to_vec();
        self.ran.lock().expect("nobody panics").extend(sequences.clone().map(ids));
        Ok(Submitted::Done(sequences.map(|b| Self::output(batch, b)).collect()))
    }
}

/// Waits for a condition that another thread is about to bring about.
pub(crate) fn wait_until(goal: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {goal}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
