//! Starts whose batches do not fit the memory.

use super::*;
use crate::backend::{Interrupting, ModelBackend, Replica};

/// Bytes that are left in the tests.
const FREE: usize = 160 << 20;
const PER_TOKEN: usize = 10 << 10;

fn backend() -> ModelBackend {
    ModelBackend::Prefix(Box::new(FakeBackend::new(info(embedder(), 500)).with_memory(FREE, PER_TOKEN)))
}

fn interrupting() -> Option<Interrupting> {
    Some(Interrupting { due: backend(), urgent: backend() })
}

/// Starts an engine of two replicas with interrupting backends, or of one backend.
fn start(replicated: bool, max_batch_tokens: usize, radix_mlp_pad: usize) -> Result<Engine, StartError> {
    let first = LoadedModel { backend: backend(), ..loaded(embedder()) };
    let model = if replicated {
        let replicas = vec![Replica { backend: backend(), interrupting: interrupting() }];
        LoadedModel { interrupting: interrupting(), replicas, ..first }
    } else {
        first
    };
    Engine::new(model, EngineConfig { max_batch_tokens, radix_mlp_pad, ..config() }, quotas())
}

fn problem(replicated: bool, max_batch_tokens: usize, radix_mlp_pad: usize) -> String {
    match start(replicated, max_batch_tokens, radix_mlp_pad).err() {
        Some(StartError::Setting(error)) if error.setting == "max_batch_tokens" => error.problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_batch_that_does_not_fit_is_refused_with_a_size_that_fits() {
    assert!(start(false, 16_384, 1).is_ok());
    let refused = problem(false, 16_448, 64);
    let needed = "is 16448, which needs 161 MiB of memory in addition to the model, and 160 MiB are free";
    assert_eq!(refused, format!("{needed}; 15360 fits"));
    assert!(problem(false, 32_000, 16_000).ends_with("; no batch fits"));
}

/// Two replicas, each with batches of as many and of 1,024 rows that interrupt others.
#[tokio::test]
async fn all_backends_together_must_fit() {
    let most = (FREE / PER_TOKEN / 2 - EngineConfig::MAX_URGENT_TOKENS) / 2;
    assert!(start(true, most, 1).is_ok());
    let refused = problem(true, most + 1, 1);
    assert!(refused.starts_with("is 3585, which needs 161 MiB"), "{refused}");
    let fits: usize = refused.split(' ').rev().nth(1).unwrap().parse().unwrap();
    assert!(start(true, fits, 1).is_ok(), "{refused}");
}
