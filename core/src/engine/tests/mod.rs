//! The engine against a fake backend and the fixtures' tokenizers.

mod answers;
mod folding;
mod memory;
mod operation;
mod shared_quotas;
mod sub_models;
mod warm_up;

use super::*;
use crate::config::ProcessLimits;
use crate::error::{BackendError, Resource};
use crate::request::{EmbedOptions, EncodeOptions, Input, ScoreRequest};
use crate::testing::support::{Control, FakeBackend, config, embedder, info, model, process_limits, quotas, tokenizer};

const MODEL: &str = "qwen3-tiny";

fn engine(capabilities: Capabilities, config: EngineConfig) -> Engine {
    Engine::new(loaded(capabilities), config, quotas()).unwrap()
}

fn loaded(capabilities: Capabilities) -> LoadedModel {
    model(FakeBackend::new(info(capabilities, 500)), tokenizer(MODEL))
}

fn controlled(config: EngineConfig) -> (Engine, Control) {
    let (backend, control) = FakeBackend::controlled(info(embedder(), 500));
    (Engine::new(model(backend, tokenizer(MODEL)), config, quotas()).unwrap(), control)
}

/// An embedding model with quotas of its own.
fn limited(limits: ProcessLimits) -> Engine {
    Engine::new(loaded(embedder()), config(), ProcessQuotas::new(limits).unwrap()).unwrap()
}

fn encode(field: &'static str) -> EncodeOptions {
    EncodeOptions::new(field)
}

fn raw() -> EmbedOptions {
    EmbedOptions { encode: encode("inputs"), normalize: Some(false), dimensions: None }
}

fn list(ids: &[u32]) -> Input {
    Input::Ids(ids.to_vec())
}

fn rerank_request(query: &str, documents: &[&str]) -> ScoreRequest {
    ScoreRequest {
        queries: vec![query.to_owned()],
        query_field: "query",
        documents: documents.iter().map(|&document| document.to_owned()).collect(),
        instruction: None,
        encode: encode("texts"),
    }
}

fn ids_of(text: &str) -> Vec<u32> {
    tokenizer(MODEL).encode(text, true).unwrap().get_ids().to_vec()
}
