//! An engine whose backend computes nothing and answers everything.

use prefold_core::{
    Backend, BackendError, Batch, Engine, EngineConfig, LoadedModel, ModelInfo, ModelKind, Output, Prompts,
    RerankRecipe, Scheduling, Wanted,
};
use tokenizers::Tokenizer;

/// Width of the vectors.
pub(crate) const DIM: usize = 8;

/// An engine over a model of this kind, with the tokenizer of a reference checkpoint.
pub(crate) fn engine(kind: ModelKind) -> Engine {
    let tokenizer = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/qwen3-tiny/tokenizer.json");
    let template = (kind == ModelKind::Reranker)
        .then(|| RerankRecipe::builtin(RerankRecipe::QWEN3).expect("it comes along").template);
    let info = ModelInfo {
        model_type: "fake".to_owned(),
        kind,
        vocab_size: 1024,
        max_input_length: 256,
        token_dim: DIM,
        dtype: "float32",
        device: "cpu".to_owned(),
        attention: "ragged",
    };
    let model = LoadedModel {
        backend: Box::new(Fake(info)),
        tokenizer: Tokenizer::from_file(tokenizer).expect("the fixture is whole"),
        prompts: Prompts { by_name: [("query".to_owned(), "Query: ".to_owned())].into(), default: None },
        template,
    };
    let config = EngineConfig {
        max_batch_tokens: 1024,
        max_batch_ragged_tokens: None,
        max_batch_requests: None,
        max_concurrent_requests: 8,
        max_queued_tokens: 100_000,
        max_queued_inputs: 1000,
        max_client_batch_size: 8,
        scheduling: Scheduling::Prefix,
        radix_mlp_threshold: 0.95,
        pad_to_multiple: 1,
        tokenization_workers: 1,
        auto_truncate: true,
    };
    Engine::new(model, config).expect("the configuration fits the model")
}

struct Fake(ModelInfo);

impl Backend for Fake {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn forward(&mut self, batch: &Batch) -> Result<Vec<Output>, BackendError> {
        let sequences = (0..batch.ragged.num_sequences()).map(|b| &batch.ragged.input_ids()[batch.ragged.rows(b)]);
        Ok(sequences.zip(&batch.wanted).map(|(ids, &wanted)| self.answer(ids, wanted)).collect())
    }
}

impl Fake {
    fn answer(&self, ids: &[u32], wanted: Wanted) -> Output {
        match (wanted, &self.0.kind) {
            (Wanted::Tokens, _) => {
                let data = (1..=ids.len()).flat_map(|end| values(&ids[..end], DIM)).collect();
                Output::Tokens { data, dim: DIM }
            }
            (Wanted::Pooled, ModelKind::Embedding { dim, .. }) => Output::Embedding(values(ids, *dim)),
            (Wanted::Pooled, ModelKind::Reranker) => Output::Logits(values(ids, 2)),
            (Wanted::Pooled, ModelKind::Classifier { labels }) => Output::Logits(values(ids, labels.len())),
        }
    }
}

/// Finite values that depend on all tokens: ordinary ones, zeros, and the largest and smallest that there are.
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
