//! Fake backend and the models over it, for the tests of this crate and, with the feature `testing`, of others.
#![allow(clippy::expect_used, clippy::panic, reason = "for tests")]

mod fake_backend;
#[cfg(test)]
pub(crate) mod support;

pub use fake_backend::{Control, FakeBackend, Fate, PATIENCE, Started, fake_output, fake_values, output};

use crate::admission::process_quotas::ProcessQuotas;
use crate::backend::{InputMemory, ModelBackend, ModelInfo, TokenLimits};
use crate::capabilities::{Capabilities, Embed, Pooling, RerankRecipe, RerankTemplate};
use crate::config::{EngineConfig, ProcessLimits};
use crate::engine::loaded_model::LoadedModel;
use crate::non_empty::NonEmpty;
use std::path::PathBuf;
use std::sync::Arc;
use tokenizers::Tokenizer;

/// Path of a reference checkpoint's file.
pub fn fixture(model: &str, file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures")).join(model).join(file)
}

/// Tokenizer of a reference checkpoint.
pub fn tokenizer(model: &str) -> Tokenizer {
    Tokenizer::from_file(fixture(model, "tokenizer.json")).expect("the fixture's tokenizer")
}

/// The prompt of Qwen3-Reranker.
pub fn qwen3_template() -> RerankTemplate {
    RerankRecipe::builtin(RerankRecipe::QWEN3).expect("it comes along").template
}

/// An embedding model for vectors of this size.
pub fn embed(dim: usize) -> Embed {
    Embed { dim, token_dim: dim, pooling: vec![Pooling::LastToken], ..Embed::default() }
}

/// Properties of a fake model.
pub fn info(capabilities: Capabilities, max_input_length: usize) -> ModelInfo {
    ModelInfo {
        commit: None,
        model_type: "fake".to_owned(),
        capabilities: Arc::new(Capabilities { max_input_length, ..capabilities }),
        sub_models: NonEmpty::one(TokenLimits { vocab_size: 1200, token_types: 0, max_input_length }),
        dtype: "float32",
        dtype_reason: "for tests".to_owned(),
        kernels: "none".to_owned(),
        kernels_reason: "for tests".to_owned(),
        int8: None,
        input_memory: InputMemory::default(),
        device: "cpu".to_owned(),
        attention: "ragged",
    }
}

/// A model with one backend and one tokenizer.
pub fn model(backend: FakeBackend, tokenizer: Tokenizer) -> LoadedModel {
    LoadedModel {
        backend: ModelBackend::Prefix(Box::new(backend)),
        interrupting: None,
        replicas: Vec::new(),
        tokenizers: NonEmpty::one(tokenizer),
    }
}

/// Settings without a warm-up, since a fake backend may wait for the test at every pass.
pub fn config() -> EngineConfig {
    EngineConfig {
        max_batch_tokens: 1000,
        max_client_batch_size: 32,
        tokenization_workers: 2,
        warmup_tokens: 0,
        ..EngineConfig::default()
    }
}

/// Limits for few requests.
pub fn process_limits() -> ProcessLimits {
    ProcessLimits { max_concurrent_requests: 64, ..ProcessLimits::default() }
}

/// Unused quotas with [`process_limits`].
pub fn quotas() -> ProcessQuotas {
    ProcessQuotas::new(process_limits()).expect("limits within their range")
}
