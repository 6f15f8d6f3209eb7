//! Engine with a fake backend that returns made-up values.

use prefold_core::testing::{self, FakeBackend};
use prefold_core::{
    Capabilities, Engine, EngineConfig, ModelInfo, NonEmpty, ProcessLimits, ProcessQuotas, TokenLimits,
};

/// Width of the vectors.
pub(crate) const DIM: usize = 8;

/// Engine for a model with these capabilities, with the tokenizer of a reference checkpoint.
pub(crate) fn engine(capabilities: Capabilities) -> Engine {
    let max_input_length = capabilities.max_input_length;
    let limits = TokenLimits { vocab_size: 1024, token_types: 0, max_input_length };
    let info = ModelInfo { sub_models: NonEmpty::one(limits), ..testing::info(capabilities, max_input_length) };
    let backend = FakeBackend::new(info).with_values(values);
    let config =
        EngineConfig { max_batch_tokens: 1024, max_client_batch_size: 8, tokenization_workers: 1, ..testing::config() };
    let limits = ProcessLimits { max_concurrent_requests: 8, ..ProcessLimits::default() };
    let quotas = ProcessQuotas::new(limits).expect("limits within their range");
    Engine::new(testing::model(backend, testing::tokenizer("qwen3-tiny")), config, quotas)
        .expect("the configuration fits the model")
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
