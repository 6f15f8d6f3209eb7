//! A model whose attention looks both ways, with compaction whenever anything is shared.

use super::*;
use crate::backend::{Batch, Folding, ModelBackend};
use crate::config::Scheduling;
use crate::execute;
use crate::flow::Flow;
use crate::non_empty::NonEmpty;
use crate::outputs::Outputs;
use crate::plan::radix::RadixPlan;
use crate::plan::ragged::RaggedBatch;
use crate::plan::tokens::Tokens;
use crate::postprocess::{embedding, token_vectors};
use crate::schedule::budget::AttentionRows;
use crate::testing::support::{Bidirectional, DIM};
use std::sync::Mutex;

type Ran = Arc<Mutex<Vec<Vec<u32>>>>;

fn bidirectional(radix_mlp_threshold: f32) -> (Engine, Ran) {
    let (backend, ran) = Bidirectional::new(info(embedder(), 1000));
    let backend = ModelBackend::Whole(Box::new(backend));
    let model = LoadedModel {
        backend,
        interrupting: None,
        replicas: Vec::new(),
        tokenizers: NonEmpty::one(tokenizer("qwen3-tiny")),
    };
    (Engine::new(model, EngineConfig { radix_mlp_threshold, ..config() }, quotas()).unwrap(), ran)
}

/// A common prefix, one that differs in the last token, one that is a prefix of another, and an equal one.
const INPUTS: [&[u32]; 5] = [&[1, 2, 3, 4, 5], &[1, 2, 3, 4, 6], &[1, 2, 3], &[1, 2, 3, 4, 5], &[9]];

fn inputs() -> Vec<Input> {
    INPUTS.map(|ids| Input::Ids(ids.to_vec())).into()
}

fn options() -> EmbedOptions {
    EmbedOptions { encode: EncodeOptions::new("input"), normalize: Some(false), dimensions: None }
}

#[tokio::test]
async fn a_common_prefix_is_computed_for_each_and_equal_inputs_once() {
    let (engine, ran) = bidirectional(1.0);
    let response = engine.embed(inputs(), options()).await.unwrap();
    let answer =
        |ids: &&[u32]| embedding(Bidirectional::answer(&Tokens::new(ids.to_vec()), Outputs::EMBEDDING), DIM).unwrap();
    assert_eq!(response.results, INPUTS.iter().map(answer).collect::<Vec<_>>());
    assert_eq!(*ran.lock().unwrap(), [INPUTS[0], INPUTS[1], INPUTS[2], INPUTS[4]]);
    let usage = response.usage;
    assert_eq!((usage.tokens, usage.computed_tokens, usage.saved_tokens()), (19, 14, 5));

    ran.lock().unwrap().clear();
    let response = engine.embed_tokens(inputs(), EncodeOptions::new("input")).await.unwrap();
    for (ids, rows) in INPUTS.iter().zip(response.results) {
        let expected = Bidirectional::answer(&Tokens::new(ids.to_vec()), Outputs::TOKENS);
        assert_eq!(rows, token_vectors(expected).unwrap());
    }
    assert_eq!(ran.lock().unwrap().len(), 4);
    engine.shutdown().await;
}

#[tokio::test]
async fn nothing_is_folded_at_threshold_0() {
    let (engine, ran) = bidirectional(0.0);
    let response = engine.embed(inputs(), options()).await.unwrap();
    assert_eq!(*ran.lock().unwrap(), INPUTS);
    assert_eq!(response.usage.computed_tokens, 19);
    engine.shutdown().await;
}

#[tokio::test]
async fn equal_ids_of_different_types_or_positions_are_different_inputs() {
    let ids = vec![1, 2, 3];
    let plain = Tokens::new(ids.clone());
    let typed = plain.clone().with_token_types(vec![0, 1, 1]).unwrap();
    let placed = plain.clone().with_positions(vec![0, 2, 3]).unwrap();
    let sequences = [&plain, &typed, &placed, &typed, &plain, &placed].map(Tokens::clone);
    let (backend, ran) = Bidirectional::new(info(embedder(), 1000));
    let config = PipelineConfig {
        budget: Budget { max_tokens: 100, max_ragged_tokens: 100, max_sequences: 100 },
        limits: QueueLimits { tokens: 100, inputs: 100 },
        scheduling: Scheduling::Prefix,
        compaction: Compaction { folding: Folding::Whole, threshold: 1.0, pad_to_multiple: 1, max_tokens: 100 },
        attention: AttentionRows::Compact,
        max_batch_time: None,
        interrupting: None,
    };
    let (pipeline, threads, _) =
        execute::spawn(vec![ModelBackend::Whole(Box::new(backend)).into()], config, WarmUp::off(config.compaction))
            .unwrap();
    let answers =
        pipeline.submit(sequences.to_vec(), Outputs::EMBEDDING, Flow::default()).unwrap().collect().await.unwrap();
    for (answer, tokens) in answers.iter().zip(&sequences) {
        assert_eq!(answer.output, Bidirectional::answer(tokens, Outputs::EMBEDDING));
    }
    assert_eq!((answers[0].batch.total_tokens, answers[0].batch.unique_tokens), (18, 9));
    assert_eq!(answers[0].batch.attention_work_saved, 3 * 9);
    assert_eq!(*ran.lock().unwrap(), [&ids[..]; 3]);
    pipeline.close();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_plan_does_not_reach_a_backend_that_is_not_causal() {
    let ragged = RaggedBatch::from_sequences(&[[1, 2, 3], [1, 2, 4]]).unwrap();
    let plan = RadixPlan::new(&ragged, 1);
    let batch = Batch { ragged, wanted: vec![Outputs::EMBEDDING; 2] };
    let (backend, _) = Bidirectional::new(info(embedder(), 1000));
    let mut backend = ModelBackend::Whole(Box::new(backend));
    assert_eq!(backend.folding(), Folding::Whole);
    let expected =
        [[1, 2, 3], [1, 2, 4]].map(|ids| Bidirectional::answer(&Tokens::new(ids.to_vec()), Outputs::EMBEDDING));
    assert_eq!(backend.forward(&batch, Some(&plan)).unwrap(), expected);
}
