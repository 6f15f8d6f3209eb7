//! Limits, chunks, failures, health and shutdown.

use super::*;
use crate::capabilities::Embed;
use crate::flow::{Flow, Priority};
use crate::outputs::Outputs;
use crate::plan::tokens::Tokens;
use crate::response::TextToken;
use crate::testing::support::{DIM, Fate, fake_values, wait_until};

#[tokio::test]
async fn a_response_counts_until_it_is_dropped() {
    let engine = engine(embedder(), config());
    let held = || engine.process_quotas().buffered().held() / (4 * DIM + 256);
    let tokens = engine.embed_tokens(vec![list(&[7, 8]), list(&[9])], encode("inputs")).await.unwrap();
    let pooled = engine.embed(vec![list(&[7, 8]), list(&[9])], raw()).await.unwrap();
    assert_eq!(held(), 3 + 2);
    drop(tokens);
    assert_eq!(held(), 2);
    drop(pooled);
    engine.embed(vec![list(&[9999])], raw()).await.unwrap_err();
    assert_eq!(held(), 0);
    let share = Arc::new(engine.process_quotas().buffered().share());
    let counted = engine.clone().counting_in(Arc::clone(&share)).embed(vec![list(&[9])], raw()).await.unwrap();
    assert_eq!((held(), share.held()), (1, engine.process_quotas().buffered().held()), "in the share of its request");
    drop((counted, share));
    assert_eq!(held(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_classified_texts_count_with_the_answer_and_let_others_tokenize() {
    let labels = (0..DIM).map(|label| format!("label {label}")).collect();
    let (backend, control) = FakeBackend::controlled(info(Capabilities::token_classifier(labels, 500), 500));
    let engine = Engine::new(model(backend, tokenizer(MODEL)), config(), quotas()).unwrap();
    let share = Arc::new(engine.process_quotas().buffered().share());
    let asking = tokio::spawn({
        let engine = engine.clone().counting_in(Arc::clone(&share));
        async move { engine.classify_tokens(vec!["some words ".repeat(30)], encode("inputs")).await }
    });
    control.started();
    assert_eq!(engine.process_quotas().tokenize().quota().held(), 0, "while the pass runs");
    control.release(Fate::Answer);
    let answer = asking.await.unwrap().unwrap();
    let logits = answer.usage.tokens * (4 * DIM + 256);
    assert!(share.held() >= logits + answer.usage.tokens * size_of::<TextToken>(), "{}", share.held());
    drop((answer, share));
    // A tokenizer's thread drops its handle to the share after it has handed over the tokens.
    wait_until("nothing is held", || engine.process_quotas().buffered().held() == 0);
}

#[tokio::test]
async fn a_request_for_too_large_a_response_is_not_run() {
    let embed = embedder().embed.map(|embed| Embed { dim: 1 << 25, token_dim: 1 << 23, ..embed });
    let (backend, control) = FakeBackend::controlled(info(Capabilities { embed, ..embedder() }, 2));
    let engine = Engine::new(model(backend, tokenizer(MODEL)), config(), quotas()).unwrap();
    // A batch that reaches the backend after all is answered.
    (0..2).for_each(|_| control.release(Fate::Answer));
    let error = engine.embed(vec![list(&[1]); 3], raw()).await.unwrap_err().to_string();
    assert!(error.starts_with("`inputs` asks for 100663296 values or more, 33554432 for each input; "), "{error}");
    let error = engine.embed_tokens(vec![list(&[1, 2]), list(&[1])], encode("texts")).await.unwrap_err().to_string();
    assert!(error.starts_with("`texts` asks for 25165824 values or more, 8388608 for each token; "), "{error}");
    assert!(control.is_idle());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_is_done_in_chunks() {
    let (engine, control) = controlled(EngineConfig { max_client_batch_size: 2, ..config() });
    let inputs: Vec<_> = (0..5).map(|id| list(&[id, id + 1])).collect();
    let running = tokio::spawn({
        let (engine, inputs) = (engine.clone(), inputs.clone());
        async move { engine.embed(inputs, raw()).await }
    });
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 5 {
        let batch = tokio::task::block_in_place(|| control.started());
        sizes.push(batch.ragged.num_sequences());
        control.release(Fate::Answer);
    }
    // A chunk may join the one before in the slot; the third comes when the first is done.
    assert!([&[2, 2, 1][..], &[2, 3], &[4, 1]].contains(&sizes.as_slice()), "{sizes:?}");
    let response = running.await.unwrap().unwrap();
    let expected: Vec<_> = (0..5).map(|id| fake_values(&[id, id + 1], DIM)).collect();
    assert_eq!(response.results, expected);
    assert_eq!(response.usage.tokens, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_many_tokens_leaves_room_for_others() {
    let (engine, control) = controlled(EngineConfig { max_queued_tokens: 16, max_batch_requests: Some(1), ..config() });
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.embed((0..10).map(|id| list(&[id; 4])).collect(), raw()).await }
    });
    for id in 0..10 {
        assert_eq!(control.started().ragged.input_ids(), [id; 4]);
        wait_until("another request may enter", || {
            engine.inner.pipeline.submit(vec![Tokens::new(vec![99])], Outputs::EMBEDDING, Flow::default()).is_ok()
        });
        control.release(Fate::Answer);
    }
    assert_eq!(running.await.unwrap().unwrap().results.len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_texts_of_a_large_request_are_not_all_encoded_before_the_first_are_computed() {
    let (engine, control) = controlled(EngineConfig { max_queued_tokens: 64, ..config() });
    let mut inputs = vec![list(&[7; 8]); 20];
    inputs.push(list(&[5000]));
    let running = tokio::spawn(async move { engine.embed(inputs, raw()).await });
    assert!(control.started().ragged.num_sequences() <= 4);
    drop(control);
    let error = running.await.unwrap().unwrap_err();
    assert!(error.to_string().starts_with("`inputs` item 20 has token id 5000"), "{error}");
}

#[tokio::test]
async fn tokens_that_are_shown_count_before_they_are_made() {
    let engine = limited(ProcessLimits { max_buffered_bytes: 1000, ..process_limits() });
    let share = Arc::new(engine.process_quotas().buffered().share());
    let counted = engine.clone().counting_in(Arc::clone(&share));
    let tokenize = || counted.tokenize(vec!["one two".to_owned()], encode("inputs"));
    let decode = || counted.decode(vec![ids_of("one two")], true);
    let other = engine.process_quotas().buffered().share();
    other.grow(1000).unwrap();
    for error in [tokenize().await.unwrap_err(), decode().await.unwrap_err()] {
        assert!(matches!(error, Error::Overloaded { resource: Resource::BufferedBytes, limit: 1000, .. }), "{error}");
    }
    drop(other);
    let tokens = tokenize().await.unwrap();
    let strings: usize = tokens[0].iter().map(|token| token.token.len()).sum();
    assert_eq!(share.held(), tokens[0].len() * (size_of::<crate::TokenInfo>() + 32) + strings + "one two".len());
    share.shrink_to(0);
    assert_eq!(decode().await.unwrap(), ["one two"]);
    assert_eq!(share.held(), "one two".len());
}

#[tokio::test(flavor = "multi_thread")]
async fn classified_tokens_count_in_their_request_and_not_in_the_quota_of_tokenization() {
    let labels = (0..DIM).map(|label| label.to_string()).collect();
    let (backend, control) = FakeBackend::controlled(info(Capabilities::token_classifier(labels, 500), 500));
    let engine = Engine::new(model(backend, tokenizer(MODEL)), config(), quotas()).unwrap();
    let running = tokio::spawn({
        let engine = engine.clone().counting_in(Arc::new(engine.process_quotas().buffered().share()));
        async move { engine.classify_tokens(vec!["one two".to_owned()], encode("inputs")).await }
    });
    let tokens = tokio::task::block_in_place(|| control.started()).ragged.input_ids().len();
    assert_eq!(engine.process_quotas().tokenize().quota().held(), 0);
    assert!(engine.process_quotas().buffered().held() > tokens * (size_of::<crate::TextToken>() + 4 * DIM + 256));
    control.release(Fate::Answer);
    drop(running.await.unwrap().unwrap());
    wait_until("nothing is held", || engine.process_quotas().buffered().held() == 0);
}

#[tokio::test]
async fn too_many_and_no_inputs_are_refused() {
    let engine = engine(embedder(), EngineConfig { max_client_batch_size: 2, ..config() });
    let limit = 2 * EngineConfig::MAX_CHUNKS;
    let error = engine.embed(vec![list(&[1]); limit + 1], raw()).await.unwrap_err();
    assert!(
        matches!(error, Error::BatchTooLarge { field: "inputs", got, limit: told } if got == limit + 1 && told == limit)
    );
    assert!(matches!(engine.embed(vec![], raw()).await, Err(Error::Empty { field: "inputs", .. })));
    assert!(matches!(engine.tokenize(vec![], encode("inputs")).await, Err(Error::Empty { .. })));
    assert!(matches!(
        engine.decode(vec![vec![1]; limit + 1], true).await,
        Err(Error::BatchTooLarge { field: "ids", .. })
    ));
}

#[tokio::test]
async fn the_first_bad_input_is_named_and_the_good_ones_are_not_run() {
    let (engine, control) = controlled(config());
    let inputs = vec![list(&[1]), list(&[5000]), list(&[6000])];
    let error = engine.embed(inputs, raw()).await.unwrap_err();
    assert_eq!(error.to_string(), "`inputs` item 1 has token id 5000 at position 0, ids must be below 1200");
    let alone = engine.embed(vec![list(&[5000])], raw()).await.unwrap_err();
    assert_eq!(alone.to_string(), "`inputs` has token id 5000 at position 0, ids must be below 1200");
    assert!(control.is_idle());
}

#[tokio::test]
async fn inputs_never_exceed_a_batch() {
    let engine = engine(embedder(), EngineConfig { max_batch_tokens: 8, ..config() });
    let Capabilities { max_input_length, warnings, .. } = &*engine.info().capabilities;
    assert_eq!(*max_input_length, 8);
    assert_eq!(warnings[..], ["inputs are limited to 8 tokens by --max-batch-tokens, although the model takes 500"]);
    let error = engine.embed(vec![list(&[1; 9])], raw()).await.unwrap_err();
    assert!(
        error.to_string().contains(
            "has 9 tokens, and truncation is off (`truncate`); this model's maximum context length is 8 tokens"
        ),
        "{error}"
    );
}

#[tokio::test]
async fn settings_out_of_range_are_named() {
    type Change = fn(&mut EngineConfig);
    let bad: [(&str, Change); 12] = [
        ("max_batch_tokens", |config| config.max_batch_tokens = 0),
        ("max_batch_tokens", |config| config.max_batch_tokens = usize::MAX),
        ("max_batch_ragged_tokens", |config| config.max_batch_ragged_tokens = Some(config.max_batch_tokens - 1)),
        ("max_batch_ragged_tokens", |config| config.max_batch_ragged_tokens = Some(usize::MAX)),
        ("max_batch_requests", |config| config.max_batch_requests = Some(0)),
        ("max_client_batch_size", |config| config.max_client_batch_size = 0),
        ("radix_mlp_pad", |config| config.radix_mlp_pad = 0),
        ("radix_mlp_pad", |config| config.radix_mlp_pad = 3),
        ("radix_mlp_pad", |config| config.radix_mlp_pad = 1 << 62),
        ("tokenization_workers", |config| config.tokenization_workers = 0),
        ("radix_mlp_threshold", |config| config.radix_mlp_threshold = 1.5),
        ("radix_mlp_threshold", |config| config.radix_mlp_threshold = f32::NAN),
    ];
    for (name, change) in bad {
        let mut config = config();
        change(&mut config);
        match Engine::new(loaded(embedder()), config, quotas()).err() {
            Some(StartError::Setting(error)) => assert_eq!(error.setting, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let limits_of =
        |max_concurrent_requests, max_buffered_bytes| ProcessLimits { max_concurrent_requests, max_buffered_bytes };
    for (name, limits) in [("max_concurrent_requests", limits_of(0, 1)), ("max_buffered_bytes", limits_of(1, 0))] {
        assert_eq!(ProcessQuotas::new(limits).unwrap_err().setting, name);
    }
    let contradiction = loaded(Capabilities { embed: None, ..embedder() });
    let error = Engine::new(contradiction, config(), quotas()).err();
    assert!(matches!(error, Some(StartError::Other(Error::Validation { field: "model", .. }))), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_beyond_the_limit_are_refused_until_one_is_done() {
    let (backend, control) = FakeBackend::controlled(info(embedder(), 500));
    let quotas = ProcessQuotas::new(ProcessLimits { max_concurrent_requests: 2, ..process_limits() }).unwrap();
    let engine = Engine::new(model(backend, tokenizer(MODEL)), config(), quotas).unwrap();
    let embed = |id: u32| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.embed(vec![list(&[id])], raw()).await })
    };
    let first = embed(1);
    control.started();
    let second = embed(2);
    wait_until("both places are taken", || engine.process_quotas().requests().held() == 2);
    let error = engine.embed(vec![list(&[3])], raw()).await.unwrap_err();
    assert!(matches!(error, Error::Overloaded { resource: Resource::Requests, limit: 2, .. }), "{error}");
    assert!(matches!(engine.tokenize(vec!["x".to_owned()], encode("inputs")).await, Err(Error::Overloaded { .. })));

    // A client that leaves frees its place at once, not when its batch is done.
    second.abort();
    wait_until("its place is free", || engine.process_quotas().requests().held() == 1);
    let third = embed(3);
    control.release(Fate::Answer);
    assert_eq!(first.await.unwrap().unwrap().results, [fake_values(&[1], DIM)]);
    assert_eq!(control.started().ragged.input_ids(), [3], "the entry of the client that left is gone too");
    control.release(Fate::Answer);
    third.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_batch_fails_its_requests_only() {
    let (engine, control) = controlled(config());
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.embed(vec![list(&[1])], raw()).await }
    });
    control.started();
    control.release(Fate::Panic);
    assert!(matches!(running.await.unwrap(), Err(Error::Backend(BackendError::Panic(_)))));
    drop(control);
    assert_eq!(engine.embed(vec![list(&[2])], raw()).await.unwrap().results, [fake_values(&[2], DIM)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_follows_the_backend() {
    let (engine, control) = controlled(config());
    engine.health().await.unwrap();
    assert!(control.is_idle(), "nothing is run while all is well");
    control.release(Fate::Fail);
    engine.embed(vec![list(&[1])], raw()).await.unwrap_err();
    control.release(Fate::Fail);
    assert!(matches!(engine.health().await, Err(Error::Backend(_))), "the probe failed too");
    control.release(Fate::Answer);
    engine.health().await.unwrap();
    for _ in 0..3 {
        control.started();
    }
    engine.health().await.unwrap();
    assert!(control.is_idle(), "well again");
    engine.shutdown().await;
    assert!(matches!(engine.health().await, Err(Error::ShuttingDown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_what_was_accepted_and_then_refuses() {
    let (engine, control) = controlled(EngineConfig { max_batch_requests: Some(1), ..config() });
    let requests: Vec<_> = (1..=5)
        .map(|id| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.embed(vec![list(&[id]), list(&[id, id])], raw()).await })
        })
        .collect();
    control.started();
    wait_until("all are accepted", || engine.process_quotas().requests().held() == 5);
    let shutdowns: Vec<_> = (0..2)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.shutdown().await })
        })
        .collect();
    wait_until("the engine has closed", || engine.inner.intake.is_closed());
    assert!(matches!(engine.embed(vec![list(&[9])], raw()).await, Err(Error::ShuttingDown)));
    assert!(!shutdowns[0].is_finished());
    drop(control);
    for (request, id) in requests.into_iter().zip(1..) {
        let expected = [fake_values(&[id], DIM), fake_values(&[id, id], DIM)];
        assert_eq!(request.await.unwrap().unwrap().results, expected);
    }
    for shutdown in shutdowns {
        shutdown.await.unwrap();
    }
    engine.shutdown().await;
    assert!(matches!(engine.embed(vec![list(&[9])], raw()).await, Err(Error::ShuttingDown)));
    assert!(matches!(engine.tokenize(vec!["x".to_owned()], encode("inputs")).await, Err(Error::ShuttingDown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_engines_priority_comes_before_that_of_a_request() {
    let (engine, control) = controlled(EngineConfig { max_batch_requests: Some(1), ..config() });
    let start = |id: u32, engine: Engine, priority: Option<i64>| {
        let mut options = raw();
        options.encode.priority = priority.map(Priority::new);
        tokio::spawn(async move { engine.embed(vec![list(&[id])], options).await })
    };
    let running = start(1, engine.clone(), None);
    control.started();
    // The first is in the slot before the others come, so none of them takes its place.
    let first = start(4, engine.clone(), Some(-3));
    wait_until("it waits", || engine.inner.pipeline.num_waiting() == 1);
    let account = Account::default();
    let others = [
        start(2, engine.clone().on_account(account, Some(Priority::new(2))), Some(-4)),
        start(5, engine.clone().on_account(account, None), Some(1)),
        start(3, engine.clone(), None),
    ];
    wait_until("all wait", || engine.inner.pipeline.num_waiting() == 4);
    control.release(Fate::Answer);
    for id in [4, 3, 5, 2] {
        assert_eq!(control.started().ragged.input_ids(), [id]);
        control.release(Fate::Answer);
    }
    for request in others.into_iter().chain([running, first]) {
        request.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn shutdown_waits_for_requests_that_are_still_being_encoded() {
    let engine = engine(embedder(), config());
    // Such a request is counted and has not submitted anything yet.
    let request = engine.admit().unwrap();
    let mut shutdown = std::pin::pin!(engine.shutdown());
    tokio::select! {
        biased;
        () = &mut shutdown => panic!("a request is under way"),
        () = std::future::ready(()) => {}
    }
    assert!(matches!(engine.admit(), Err(Error::ShuttingDown)));
    let pending =
        engine.inner.pipeline.submit(vec![Tokens::new(vec![1])], Outputs::EMBEDDING, Flow::default()).unwrap();
    drop(request);
    shutdown.await;
    assert_eq!(pending.collect().await.unwrap().len(), 1);
}

#[test]
fn an_account_leaves_places_to_others() {
    let engine = limited(ProcessLimits { max_concurrent_requests: 4, ..process_limits() });
    let [one, two, three] = [1, 2, 3].map(|account| engine.clone().on_account(Account(account), None));
    let _all: Vec<_> = (0..4).map(|_| one.admit().unwrap()).collect();
    assert!(matches!(one.admit(), Err(Error::Overloaded { resource: Resource::Requests, limit: 4, .. })));
    let others = [two.admit().unwrap(), two.admit().unwrap()];
    assert!(two.admit().is_err(), "it has half of the places");
    three.admit().unwrap();
    drop(others);
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_tell_what_is_held() {
    let (engine, control) = controlled(EngineConfig { max_batch_requests: Some(1), ..config() });
    let embed = |ids: &'static [u32]| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.embed(vec![list(ids)], raw()).await })
    };
    let running = embed(&[1]);
    control.started();
    let waiting = embed(&[2, 3, 4]);
    let held = || engine.quotas().map(|quota| quota.held());
    // The bytes of two answers, and none of tokens once they wait.
    wait_until("the second waits", || held()[..3] == [2, 1, 3]);
    assert!(held()[3] > 0 && held()[4] == 0, "{:?}", held());
    drop(control);
    for request in [running, waiting] {
        drop(request.await.unwrap().unwrap());
    }
    wait_until("nothing is held", || held() == [0; 5]);
    let EngineConfig { max_queued_inputs, max_queued_tokens, .. } = *engine.config();
    let ProcessLimits { max_concurrent_requests, max_buffered_bytes } = process_limits();
    let expected = [max_concurrent_requests, max_queued_inputs, max_queued_tokens, max_buffered_bytes, 1 << 22];
    assert_eq!(engine.quotas().map(|quota| quota.limit()), expected);
    assert_eq!(engine.quotas().map(|quota| quota.resource()), Resource::ALL);
}

#[tokio::test]
async fn threads_end_with_the_last_engine() {
    let (engine, control) = controlled(config());
    let pipeline = Arc::downgrade(&engine.inner.pipeline);
    drop((engine, control));
    wait_until("the threads have let go", || pipeline.strong_count() == 0);
}
