//! Engine with a fake backend that returns made-up values.

use prefold_core::{
    Backend, BackendError, Batch, Capabilities, Engine, EngineConfig, LoadedModel, ModelBackend, ModelInfo, Output,
    PrefixBackend, RadixPlan, Wanted, YieldPoint,
};
use std::sync::Arc;
use tokenizers::Tokenizer;

/// Width of the vectors.
pub(crate) const DIM: usize = 8;

/// Engine for a model with these capabilities, with the tokenizer of a reference checkpoint.
pub(crate) fn engine(capabilities: Capabilities) -> Engine {
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/qwen3-tiny/tokenizer.json");
    let info = ModelInfo {
        model_type: "fake".to_owned(),
        capabilities: Arc::new(capabilities),
        vocab_size: 1024,
        token_types: 0,
        dtype: "float32",
        dtype_reason: "for tests".to_owned(),
        kernels: "none".to_owned(),
        kernels_reason: "for tests".to_owned(),
        int8: None,
        input_memory: prefold_core::InputMemory::default(),
        further_parts: vec![],
        device: "cpu".to_owned(),
        attention: "ragged",
    };
    let model = LoadedModel {
        backend: ModelBackend::Prefix(Box::new(Fake(info))),
        interrupting: None,
        replicas: Vec::new(),
        tokenizer: Tokenizer::from_file(tokenizer).expect("the fixture is whole"),
        further_tokenizers: vec![],
    };
    let config = EngineConfig {
        max_batch_tokens: 1024,
        max_concurrent_requests: 8,
        max_client_batch_size: 8,
        tokenization_workers: 1,
        warmup_tokens: 0,
        ..EngineConfig::default()
    };
    Engine::new(model, config).expect("the configuration fits the model")
}

struct Fake(ModelInfo);

impl Backend for Fake {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn forward(&mut self, batch: &Batch, _: &mut dyn YieldPoint) -> Result<Vec<Output>, BackendError> {
        let sequences = (0..batch.ragged.num_sequences()).map(|b| &batch.ragged.input_ids()[batch.ragged.rows(b)]);
        Ok(sequences.zip(&batch.wanted).map(|(ids, &wanted)| self.answer(ids, wanted)).collect())
    }
}

impl PrefixBackend for Fake {
    fn forward_compact(
        &mut self,
        batch: &Batch,
        _: &RadixPlan,
        yields: &mut dyn YieldPoint,
    ) -> Result<Vec<Output>, BackendError> {
        self.forward(batch, yields)
    }
}

impl Fake {
    fn answer(&self, ids: &[u32], wanted: Wanted) -> Output {
        match wanted {
            Wanted::Tokens => {
                let of_tokens = self.0.capabilities.classify_tokens.as_ref();
                let dim = of_tokens.map_or(DIM, |classify| classify.labels.len());
                let data = (1..=ids.len()).flat_map(|end| values(&ids[..end], dim)).collect();
                Output::Tokens { data, dim }
            }
            Wanted::Embedding => Output::Embedding(values(ids, DIM)),
            Wanted::Logits => {
                let num_labels = self.0.capabilities.classify.as_ref().map(|classify| classify.labels.len());
                Output::Logits(values(ids, num_labels.unwrap_or(2)))
            }
        }
    }
}

/// Finite values that depend on all tokens: ordinary values, zeros, the maximum and the minimum.
fn values(ids: &[u32], dim: usize) -> Vec<f32> {
    let mix = |hash: u32, value: u32| (hash ^ value).wrapping_mul(0x0100_0193).rotate_left(7);
    let hash = ids.iter().fold(0x811c_9dc5, |hash, &id| mix(hash, id));
    let value = |d: usize| {
        let small = (mix(hash, d as u32) % 2001) as f32 / 1000.0 - 1.0;
        match (hash % 8, d % 2) {
            (0, 0) => f32::MIN,
            (0, _) => f32::MAX,
            (1, 0) => small * f32::MIN_POSITIVE,
            (1, _) => 0.0,
            _ => small,
        }
    };
    (0..dim).map(value).collect()
}
