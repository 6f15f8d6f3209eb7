//! Two engines of a process, with its quotas.

use super::*;
use crate::testing::support::{Fate, wait_until};

/// Two embedding models with the same quotas; the backend of the first waits for the test.
fn two(limits: ProcessLimits, config: EngineConfig) -> ([Engine; 2], Control) {
    let quotas = ProcessQuotas::new(limits).unwrap();
    let (backend, control) = FakeBackend::controlled(info(embedder(), 500));
    let first = Engine::new(model(backend, tokenizer(MODEL)), config.clone(), quotas.clone()).unwrap();
    ([first, Engine::new(loaded(embedder()), config, quotas).unwrap()], control)
}

async fn embed(engine: &Engine) -> Result<(), Error> {
    engine.embed(vec![list(&[1])], raw()).await.map(drop)
}

fn is_refused(result: &Result<(), Error>, by: Resource) -> bool {
    matches!(result, Err(Error::Overloaded { resource, .. }) if *resource == by)
}

#[tokio::test]
async fn bytes_that_a_request_to_one_engine_holds_are_missing_in_the_other() {
    let ([first, second], control) = two(ProcessLimits { max_buffered_bytes: 100, ..process_limits() }, config());
    control.release(Fate::Answer);
    let answer = first.embed(vec![list(&[1])], raw()).await.unwrap();
    let refused = embed(&second).await;
    assert!(is_refused(&refused, Resource::BufferedBytes), "{refused:?}");
    drop(answer);
    embed(&second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_tokenized_bytes_of_one_engine_are_missing_in_the_other() {
    let ([first, second], _control) = two(ProcessLimits { max_concurrent_requests: 1, ..process_limits() }, config());
    let request = first.admit().unwrap();
    let refused = embed(&second).await;
    assert!(is_refused(&refused, Resource::Requests), "{refused:?}");
    drop(request);
    let quota = first.process_quotas().tokenize().quota();
    let tokenized = quota.share();
    tokenized.force(quota.limit());
    let refused = second.decode(vec![vec![1]], true).await.map(drop);
    assert!(is_refused(&refused, Resource::TokenizeInput), "{refused:?}");
    drop(tokenized);
    embed(&second).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_one_engine_leaves_the_other_alone() {
    let one_input = EngineConfig { max_queued_inputs: 1, max_batch_requests: Some(1), ..config() };
    let ([first, second], control) = two(process_limits(), one_input);
    let start = || {
        let first = first.clone();
        tokio::spawn(async move { embed(&first).await })
    };
    let running = start();
    control.started();
    let waiting = start();
    let [inputs, _] = first.inner.pipeline.quotas();
    wait_until("its queue is full", || inputs.held() == 1);
    let refused = embed(&first).await;
    assert!(is_refused(&refused, Resource::QueuedInputs), "{refused:?}");
    embed(&second).await.unwrap();
    drop(control);
    for request in [running, waiting] {
        request.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn shutdown_waits_for_the_engines_own_requests_only() {
    let ([first, second], _control) = two(process_limits(), config());
    let request = first.admit().unwrap();
    second.shutdown().await;
    assert!(matches!(embed(&second).await, Err(Error::ShuttingDown)));
    first.health().await.unwrap();
    drop(request);
}
