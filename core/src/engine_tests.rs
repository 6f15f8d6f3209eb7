//! The front against a fake backend and the fixtures' tokenizers.

use super::*;
use crate::postprocess::sigmoid;
use crate::test_support::{
    DIM, FakeBackend, Fate, Gate, classifier_kind, config, embedding_kind, fake_values, info, model, qwen3_template,
    tokenizer, wait_until,
};
use crate::unqueued::MAX_OF_A_REQUEST;
use crate::{BackendError, TruncationDirection};

const MODEL: &str = "qwen3-tiny";

fn engine(kind: ModelKind, config: EngineConfig) -> Engine {
    Engine::new(loaded(kind), config).unwrap()
}

fn loaded(kind: ModelKind) -> LoadedModel {
    let is_reranker = kind == ModelKind::Reranker;
    let mut model = model(FakeBackend::new(info(kind, 500)), tokenizer(MODEL));
    model.template = is_reranker.then(qwen3_template);
    model
}

fn gated(config: EngineConfig) -> (Engine, Gate) {
    let (backend, gate) = FakeBackend::gated(info(embedding_kind(), 500));
    (Engine::new(model(backend, tokenizer(MODEL)), config).unwrap(), gate)
}

fn encode(field: &'static str) -> EncodeOptions {
    EncodeOptions::new(field)
}

fn raw() -> EmbedOptions {
    EmbedOptions { encode: encode("inputs"), normalize: false, dimensions: None }
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

#[tokio::test]
async fn embeddings_in_order_with_usage_and_timings() {
    let engine = engine(embedding_kind(), config());
    let texts = ["grün bread", "grün bread rises", "tide"];
    let inputs = texts.iter().map(|&text| Input::Text(text.to_owned())).collect();
    let response = engine.embed(inputs, raw()).await.unwrap();
    let ids = texts.map(ids_of);
    let expected: Vec<_> = ids.iter().map(|ids| fake_values(ids, DIM)).collect();
    assert_eq!(response.results, expected);
    let tokens: usize = ids.iter().map(Vec::len).sum();
    let Usage { characters, tokens: counted, computed_tokens, batch_tokens, batch_unique_tokens } = response.usage;
    assert_eq!((characters, counted, batch_tokens), (30, tokens, tokens));
    assert!(batch_unique_tokens < batch_tokens, "two texts share a prefix");
    assert_eq!(computed_tokens, batch_unique_tokens);
    assert_eq!(response.usage.saved_tokens(), tokens - computed_tokens);
    let Timings { total, tokenization, queue, planning, inference } = response.timings;
    assert!(total >= tokenization + inference && !tokenization.is_zero() && !planning.is_zero());
    assert!(total >= queue);
    engine.shutdown().await;
}

#[tokio::test]
async fn usage_counts_each_batch_once() {
    let engine = engine(embedding_kind(), EngineConfig { max_batch_tokens: 4, ..config() });
    let response = engine.embed(vec![list(&[1, 2]), list(&[1, 3]), list(&[4, 5, 6])], raw()).await.unwrap();
    assert_eq!((response.usage.batch_tokens, response.usage.batch_unique_tokens), (7, 6));
    assert_eq!(response.usage.compaction_ratio(), 6.0 / 7.0);
}

#[tokio::test]
async fn vectors_are_cut_and_then_normalized() {
    let engine = engine(embedding_kind(), config());
    let embed =
        |normalize, dimensions| engine.embed(vec![list(&[7, 8, 9])], EmbedOptions { normalize, dimensions, ..raw() });
    let whole = fake_values(&[7, 8, 9], DIM);
    assert_eq!(embed(false, Some(2)).await.unwrap().results, [&whole[..2]]);
    let norm = whole[0].hypot(whole[1]);
    let unit = &embed(true, Some(2)).await.unwrap().results[0];
    assert!((unit[0] - whole[0] / norm).abs() < 1e-6 && (unit[1] - whole[1] / norm).abs() < 1e-6);
    for dimensions in [0, DIM + 1] {
        let error = embed(true, Some(dimensions)).await.unwrap_err();
        assert!(matches!(error, Error::Validation { field: "dimensions", .. }));
        assert_eq!(
            error.to_string(),
            format!("`dimensions` is {dimensions}; the served model has 1 to {DIM} dimensions")
        );
    }
}

#[tokio::test]
async fn one_row_for_each_token() {
    let engine = engine(embedding_kind(), config());
    let response = engine.embed_tokens(vec![list(&[7, 8]), list(&[9])], encode("inputs")).await.unwrap();
    let expected = [vec![fake_values(&[7], DIM), fake_values(&[7, 8], DIM)], vec![fake_values(&[9], DIM)]];
    assert_eq!(response.results, expected);
}

#[tokio::test]
async fn an_answer_counts_until_it_is_dropped() {
    let engine = engine(embedding_kind(), config());
    let held = || engine.inner.answer_sizes.held();
    let tokens = engine.embed_tokens(vec![list(&[7, 8]), list(&[9])], encode("inputs")).await.unwrap();
    let pooled = engine.embed(vec![list(&[7, 8]), list(&[9])], raw()).await.unwrap().map(|vectors| vec![vectors.len()]);
    assert_eq!(held(), 3 * DIM + 2 * DIM);
    drop(tokens);
    assert_eq!(held(), 2 * DIM);
    drop(pooled);
    engine.embed(vec![list(&[9999])], raw()).await.unwrap_err();
    assert_eq!(held(), 0);
}

#[tokio::test]
async fn what_has_too_large_an_answer_is_not_run() {
    let kind = ModelKind::Embedding { dim: 1 << 25, pooling: crate::Pooling::LastToken };
    let (backend, gate) = FakeBackend::gated(ModelInfo { token_dim: 1 << 23, ..info(kind, 2) });
    let engine = Engine::new(model(backend, tokenizer(MODEL)), config()).unwrap();
    // What comes to the backend after all is answered.
    (0..2).for_each(|_| gate.release(Fate::Answer));
    let error = engine.embed(vec![list(&[1]); 3], raw()).await.unwrap_err().to_string();
    assert!(error.starts_with("`inputs` asks for 100663296 values or more, 33554432 for each input; "), "{error}");
    let error = engine.embed_tokens(vec![list(&[1, 2]), list(&[1])], encode("texts")).await.unwrap_err().to_string();
    assert!(error.starts_with("`texts` asks for 25165824 values or more, 8388608 for each token; "), "{error}");
    assert!(gate.is_idle());
}

#[tokio::test]
async fn reranking_with_a_reranker() {
    let engine = engine(ModelKind::Reranker, config());
    let response = engine.score(rerank_request("bread", &["yeast", "tide"])).await.unwrap();
    let template = qwen3_template();
    let bare = |text: &str| tokenizer(MODEL).encode(text, false).unwrap().get_ids().to_vec();
    for (score, document) in response.results.iter().zip(["yeast", "tide"]) {
        let body = template.head(None, "bread") + document;
        let logits = fake_values(&[bare(&template.before[0]), bare(&body), bare(&template.after[0])].concat(), 2);
        assert_eq!(score.raw, logits[1] - logits[0]);
        assert_eq!(score.score, sigmoid(score.raw));
    }
    assert_eq!(response.results.len(), 2);
    assert!(response.usage.compaction_ratio() < 0.6, "the prompt is shared up to the document");

    let asked =
        ScoreRequest { instruction: Some("Be strict".to_owned()), ..rerank_request("bread", &["yeast", "tide"]) };
    assert_ne!(engine.score(asked).await.unwrap().results, response.results);
}

#[tokio::test]
async fn reranking_with_a_classifier_of_one_label() {
    let engine = engine(classifier_kind(1), config());
    let response = engine.score(rerank_request("bread", &["yeast"])).await.unwrap();
    let pair = tokenizer(MODEL).encode(("bread", "yeast"), true).unwrap().get_ids().to_vec();
    let logit = fake_values(&pair, 1)[0];
    assert_eq!(response.results, [RerankScore { raw: logit, score: sigmoid(logit) }]);
}

#[tokio::test]
async fn reranking_with_an_embedding_model_is_the_cosine() {
    let engine = engine(embedding_kind(), EngineConfig { max_client_batch_size: 2, ..config() });
    let response = engine.score(rerank_request("bread", &["yeast", "bread"])).await.unwrap();
    let [query, document] = ["bread", "yeast"].map(|text| fake_values(&ids_of(text), DIM));
    let expected = cosine(&query, &document);
    assert_eq!(response.results[0], RerankScore { raw: expected, score: expected });
    assert!((response.results[1].score - 1.0).abs() < 1e-6 && expected < 0.999);
    assert_eq!(response.usage.characters, 15);
    let none = engine.score(rerank_request("bread", &[])).await.unwrap_err();
    assert!(matches!(none, Error::Empty { field: "texts", .. }));
}

#[tokio::test]
async fn a_query_that_is_too_long_is_named() {
    let engine = engine(ModelKind::Reranker, config());
    let score = |queries: &[&str]| {
        let queries = queries.iter().map(|&query| query.to_owned()).collect();
        engine.score(ScoreRequest { queries, query_field: "text_1", ..rerank_request("", &["yeast", "moon"]) })
    };
    let long = "tide ".repeat(600);
    for (queries, named) in
        [(&[long.as_str()][..], "`text_1` and its "), (&["bread", &long], "`text_1` item 1 and its ")]
    {
        let error = score(queries).await.unwrap_err().to_string();
        assert!(error.starts_with(named), "{error}");
    }
}

#[tokio::test]
async fn each_document_may_have_a_query_of_its_own() {
    let queries = || vec!["bread".to_owned(), "tide".to_owned()];
    for kind in [embedding_kind(), ModelKind::Reranker, classifier_kind(1)] {
        let engine = engine(kind, config());
        let mut alone = Vec::new();
        for (query, document) in [("bread", "yeast"), ("tide", "moon")] {
            alone.extend(engine.score(rerank_request(query, &[document])).await.unwrap().results);
        }
        let paired = ScoreRequest { queries: queries(), ..rerank_request("", &["yeast", "moon"]) };
        assert_eq!(engine.score(paired).await.unwrap().results, alone);
        let crossed = ScoreRequest { queries: queries(), ..rerank_request("", &["moon", "yeast"]) };
        assert_ne!(engine.score(crossed).await.unwrap().results, alone);
        let odd = ScoreRequest { queries: queries(), ..rerank_request("", &["a", "b", "c"]) };
        let error = engine.score(odd).await.unwrap_err().to_string();
        assert_eq!(error, "`query` has 2 items and `texts` 3; give one, or one for each");
        let none = ScoreRequest { queries: vec![], ..rerank_request("", &["a"]) };
        assert!(matches!(engine.score(none).await, Err(Error::Empty { field: "query", .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_request_is_done_in_parts() {
    let (engine, gate) = gated(EngineConfig { max_client_batch_size: 2, ..config() });
    let inputs: Vec<_> = (0..5).map(|id| list(&[id, id + 1])).collect();
    let running = tokio::spawn({
        let (engine, inputs) = (engine.clone(), inputs.clone());
        async move { engine.embed(inputs, raw()).await }
    });
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 5 {
        let batch = tokio::task::block_in_place(|| gate.started());
        sizes.push(batch.ragged.num_sequences());
        gate.release(Fate::Answer);
    }
    // A part may join the one before in the slot; the third comes when the first is done.
    assert!([&[2, 2, 1][..], &[2, 3], &[4, 1]].contains(&sizes.as_slice()), "{sizes:?}");
    let response = running.await.unwrap().unwrap();
    let expected: Vec<_> = (0..5).map(|id| fake_values(&[id, id + 1], DIM)).collect();
    assert_eq!(response.results, expected);
    assert_eq!((response.usage.tokens, response.usage.batch_tokens), (10, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_many_tokens_leaves_room_for_others() {
    let (engine, gate) = gated(EngineConfig { max_queued_tokens: 16, max_batch_requests: Some(1), ..config() });
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.embed((0..10).map(|id| list(&[id; 4])).collect(), raw()).await }
    });
    for id in 0..10 {
        assert_eq!(gate.started().ragged.input_ids(), [id; 4]);
        wait_until("another request may enter", || {
            engine.inner.pipeline.submit(vec![vec![99]], Wanted::Pooled).is_ok()
        });
        gate.release(Fate::Answer);
    }
    assert_eq!(running.await.unwrap().unwrap().results.len(), 10);
}

#[tokio::test]
async fn a_request_may_ask_for_fewer_tokens() {
    let engine = engine(embedding_kind(), config());
    let embed = |max_tokens, direction| {
        let encode = EncodeOptions { max_tokens, direction, truncate: Some(false), ..encode("inputs") };
        engine.embed(vec![list(&[1, 2, 3])], EmbedOptions { encode, ..raw() })
    };
    let right = TruncationDirection::Right;
    assert_eq!(embed(Some(2), right).await.unwrap().results, [fake_values(&[1, 2], DIM)]);
    assert_eq!(embed(Some(2), TruncationDirection::Left).await.unwrap().results, [fake_values(&[2, 3], DIM)]);
    assert_eq!(embed(Some(500), right).await.unwrap().results, [fake_values(&[1, 2, 3], DIM)]);
    for max_tokens in [0, 501] {
        let error = embed(Some(max_tokens), right).await.unwrap_err().to_string();
        let expected = format!("`truncate_prompt_tokens` is {max_tokens}; the served model takes 1 to 500 tokens");
        assert_eq!(error, expected);
    }
}

#[tokio::test]
async fn classification_gives_logits() {
    let engine = engine(classifier_kind(3), config());
    let response = engine.classify(vec![list(&[1, 2])], encode("inputs")).await.unwrap();
    assert_eq!(response.results, [fake_values(&[1, 2], 3)]);
}

#[tokio::test]
async fn a_task_for_another_model_is_refused_with_advice() {
    let expect = |error: Error, task: &str, served: &str| {
        let text = error.to_string();
        assert!(matches!(error, Error::WrongModelKind(_)) && text.contains(task) && text.contains(served), "{text}");
    };
    let inputs = || vec![list(&[1])];
    let embedder = engine(embedding_kind(), config());
    expect(embedder.classify(inputs(), encode("inputs")).await.unwrap_err(), "classification", "makes embeddings");
    let reranker = engine(ModelKind::Reranker, config());
    expect(reranker.embed(inputs(), raw()).await.unwrap_err(), "embedding", "is a reranker; use /rerank");
    expect(reranker.embed_tokens(inputs(), encode("inputs")).await.unwrap_err(), "embedding", "is a reranker");
    expect(reranker.classify(inputs(), encode("inputs")).await.unwrap_err(), "classification", "is a reranker");
    let classifier = engine(classifier_kind(3), config());
    expect(classifier.score(rerank_request("q", &["d"])).await.unwrap_err(), "reranking", "3 labels; use /predict");
    expect(classifier.embed(inputs(), raw()).await.unwrap_err(), "embedding", "3 labels; use /predict");
}

#[tokio::test]
async fn too_many_and_no_inputs_are_refused() {
    let engine = engine(embedding_kind(), EngineConfig { max_client_batch_size: 2, ..config() });
    let limit = 2 * EngineConfig::MAX_PARTS;
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
    let (engine, gate) = gated(config());
    let inputs = vec![list(&[1]), list(&[5000]), list(&[6000])];
    let error = engine.embed(inputs, raw()).await.unwrap_err();
    assert_eq!(error.to_string(), "`inputs` item 1 has token id 5000 at position 0, ids must be below 1200");
    let alone = engine.embed(vec![list(&[5000])], raw()).await.unwrap_err();
    assert_eq!(alone.to_string(), "`inputs` has token id 5000 at position 0, ids must be below 1200");
    assert!(gate.is_idle());
}

#[tokio::test]
async fn inputs_never_exceed_a_batch() {
    let engine = engine(embedding_kind(), EngineConfig { max_batch_tokens: 8, ..config() });
    assert_eq!(engine.info().max_input_length, 8);
    let error = engine.embed(vec![list(&[1; 9])], raw()).await.unwrap_err();
    assert!(error.to_string().contains("has 9 tokens, the limit is 8"), "{error}");
}

#[tokio::test]
async fn settings_out_of_range_are_named() {
    type Change = fn(&mut EngineConfig);
    let bad: [(&str, Change); 14] = [
        ("max_batch_tokens", |config| config.max_batch_tokens = 0),
        ("max_batch_tokens", |config| config.max_batch_tokens = usize::MAX),
        ("max_batch_ragged_tokens", |config| config.max_batch_ragged_tokens = Some(config.max_batch_tokens - 1)),
        ("max_batch_ragged_tokens", |config| config.max_batch_ragged_tokens = Some(usize::MAX)),
        ("max_batch_requests", |config| config.max_batch_requests = Some(0)),
        ("max_concurrent_requests", |config| config.max_concurrent_requests = 0),
        ("max_concurrent_requests", |config| config.max_concurrent_requests = usize::MAX),
        ("max_client_batch_size", |config| config.max_client_batch_size = 0),
        ("pad_to_multiple", |config| config.pad_to_multiple = 0),
        ("pad_to_multiple", |config| config.pad_to_multiple = 3),
        ("pad_to_multiple", |config| config.pad_to_multiple = 1 << 62),
        ("tokenization_workers", |config| config.tokenization_workers = 0),
        ("radix_mlp_threshold", |config| config.radix_mlp_threshold = 1.5),
        ("radix_mlp_threshold", |config| config.radix_mlp_threshold = f32::NAN),
    ];
    for (name, change) in bad {
        let mut config = config();
        change(&mut config);
        match Engine::new(loaded(embedding_kind()), config).err() {
            Some(Error::Validation { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {other:?}"),
        }
    }
    let without_template = LoadedModel { template: None, ..loaded(ModelKind::Reranker) };
    assert!(matches!(Engine::new(without_template, config()), Err(Error::Validation { field: "template", .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn more_requests_than_places_are_turned_away_until_one_is_free() {
    let (engine, gate) = gated(EngineConfig { max_concurrent_requests: 2, ..config() });
    let embed = |id: u32| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.embed(vec![list(&[id])], raw()).await })
    };
    let first = embed(1);
    gate.started();
    let second = embed(2);
    wait_until("both places are taken", || engine.inner.permits.available_permits() == 0);
    let error = engine.embed(vec![list(&[3])], raw()).await.unwrap_err();
    assert!(matches!(&error, Error::Overloaded(text) if text.contains("2 requests")), "{error}");
    assert!(matches!(engine.tokenize(vec!["x".to_owned()], encode("inputs")).await, Err(Error::Overloaded(_))));

    // A client that leaves frees its place at once, not when its batch is done.
    second.abort();
    wait_until("its place is free", || engine.inner.permits.available_permits() == 1);
    let third = embed(3);
    gate.release(Fate::Answer);
    assert_eq!(first.await.unwrap().unwrap().results, [fake_values(&[1], DIM)]);
    assert_eq!(gate.started().ragged.input_ids(), [3], "the entry of the client that left is gone too");
    gate.release(Fate::Answer);
    third.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_batch_fails_its_requests_only() {
    let (engine, gate) = gated(config());
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.embed(vec![list(&[1])], raw()).await }
    });
    gate.started();
    gate.release(Fate::Panic);
    assert!(matches!(running.await.unwrap(), Err(Error::Backend(BackendError::Panic(_)))));
    drop(gate);
    assert_eq!(engine.embed(vec![list(&[2])], raw()).await.unwrap().results, [fake_values(&[2], DIM)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_follows_the_backend() {
    let (engine, gate) = gated(config());
    engine.health().await.unwrap();
    assert!(gate.is_idle(), "nothing is run while all is well");
    gate.release(Fate::Fail);
    engine.embed(vec![list(&[1])], raw()).await.unwrap_err();
    gate.release(Fate::Fail);
    assert!(matches!(engine.health().await, Err(Error::Backend(_))), "the probe failed too");
    gate.release(Fate::Answer);
    engine.health().await.unwrap();
    for _ in 0..3 {
        gate.started();
    }
    engine.health().await.unwrap();
    assert!(gate.is_idle(), "well again");
    engine.shutdown().await;
    assert!(matches!(engine.health().await, Err(Error::ShuttingDown)));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_what_was_accepted_and_then_refuses() {
    let (engine, gate) = gated(EngineConfig { max_batch_requests: Some(1), ..config() });
    let requests: Vec<_> = (1..=5)
        .map(|id| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.embed(vec![list(&[id]), list(&[id, id])], raw()).await })
        })
        .collect();
    gate.started();
    wait_until("all are accepted", || engine.inner.permits.available_permits() == 64 - 5);
    let shutdowns: Vec<_> = (0..2)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { engine.shutdown().await })
        })
        .collect();
    wait_until("the engine has closed", || !engine.inner.accepting.load(Ordering::SeqCst));
    assert!(matches!(engine.embed(vec![list(&[9])], raw()).await, Err(Error::ShuttingDown)));
    assert!(!shutdowns[0].is_finished());
    drop(gate);
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

#[tokio::test]
async fn shutdown_waits_for_requests_that_are_still_being_encoded() {
    let engine = engine(embedding_kind(), config());
    // Such a request holds a permit and has not submitted anything yet.
    let permit = engine.admit().unwrap();
    let mut shutdown = std::pin::pin!(engine.shutdown());
    tokio::select! {
        biased;
        () = &mut shutdown => panic!("a request is under way"),
        () = std::future::ready(()) => {}
    }
    assert!(matches!(engine.admit(), Err(Error::ShuttingDown)));
    let pending = engine.inner.pipeline.submit(vec![vec![1]], Wanted::Pooled).unwrap();
    drop(permit);
    shutdown.await;
    assert_eq!(pending.collect().await.unwrap().len(), 1);
}

#[tokio::test]
async fn threads_end_with_the_last_engine() {
    let (engine, gate) = gated(config());
    let pipeline = Arc::downgrade(&engine.inner.pipeline);
    drop((engine, gate));
    wait_until("the threads have let go", || pipeline.strong_count() == 0);
}

#[tokio::test]
async fn tokenize_and_decode() {
    let engine = engine(embedding_kind(), config());
    let tokens = engine.tokenize(vec!["bread".to_owned(), "tide".to_owned()], encode("inputs")).await.unwrap();
    let ids: Vec<Vec<u32>> = tokens.iter().map(|text| text.iter().map(|token| token.id).collect()).collect();
    assert_eq!(ids, [ids_of("bread"), ids_of("tide")]);
    assert_eq!(engine.decode(ids, true).await.unwrap(), ["bread", "tide"]);
    let error = engine.decode(vec![vec![1], vec![9999]], true).await.unwrap_err();
    assert_eq!(error.to_string(), "`ids` item 1 has token id 9999 at position 0, ids must be below 1200");
    let limit = MAX_OF_A_REQUEST;
    let error = engine.tokenize(vec!["a".repeat(limit), "a".to_owned()], encode("inputs")).await.unwrap_err();
    let counted = "bytes of text with its prompts and one for each text";
    let problem = format!("`inputs` has {} {counted}, the limit is {limit} ", limit + 3);
    assert!(error.to_string().starts_with(&problem), "{error}");
    let error = engine.decode(vec![vec![1; limit], vec![1]], true).await.unwrap_err();
    assert!(
        error.to_string().starts_with(&format!("`ids` has {} ids in all, the limit is {limit} ", limit + 1)),
        "{error}"
    );
}
