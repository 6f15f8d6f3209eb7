//! Every fixture against the values that Hugging Face transformers computed for it.
//!
//! Tolerances: `tests/fixtures/README.md`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::LoadOptions;
use prefold_core::{OutputKind, Outputs, Rerank, Task, Values};
use serde_json::Value;

fn check_embedding(what: &str, found: &[f32], case: &Value, pooling: &str) {
    let raw = floats(&case[pooling]);
    assert_close(what, found, &raw, 1e-4 * norm(&raw).max(1.0));
    let unit = floats(&case[format!("{pooling}_normalized")]);
    assert_close(&format!("{what}, normalized"), &normalized(found), &unit, 1e-4);
}

#[test]
fn embeddings_with_every_pooling_and_in_every_way() {
    for name in EMBEDDING_FIXTURES {
        let expected = expected(&fixture(name));
        let cases = cases(&expected, "cases");
        let sequences: Vec<_> = cases.iter().map(ids).collect();
        for attention in ATTENTION_MODES {
            for pool in ["last", "mean", "cls"] {
                let options = LoadOptions { pooling: Some(pooling(pool)), attention, ..options(fixture(name)) };
                let mut model = load(&options);
                run_every_way(&mut model.backend, &sequences, |way, i, found| {
                    let what = format!("{name}, {}, {pool}, {attention:?}, {way}", cases[i]["name"]);
                    check_embedding(&what, found, &cases[i], pool);
                });
            }
        }
    }
}

#[test]
fn the_default_pooling_is_the_checkpoint_s() {
    for name in EMBEDDING_FIXTURES {
        let model = load(&options(fixture(name)));
        let default = expected(&fixture(name))["default"]["pooling"].as_str().unwrap().to_owned();
        let found = &model.backend.info().capabilities.embed.as_ref().unwrap().pooling;
        assert_eq!(*found, [pooling(&default)], "{name}");
    }
}

#[test]
fn token_states_end_with_the_last_token_s() {
    let expected = expected(&fixture("qwen3-tiny"));
    let cases = cases(&expected, "cases");
    let sequences: Vec<_> = cases.iter().map(ids).collect();
    let mut model = load(&options(fixture("qwen3-tiny")));
    for compaction in COMPACTIONS {
        let (batch, plan) = batch(&sequences, compaction, Outputs::TOKENS);
        let outputs = model.backend.forward(&batch, plan.as_ref()).unwrap();
        for ((output, case), sequence) in outputs.iter().zip(cases).zip(&sequences) {
            let Values { data, dim } = output.get(OutputKind::Tokens).unwrap();
            assert_eq!(data.len(), sequence.len() * dim);
            let what = format!("{}, {compaction:?}", case["name"]);
            check_embedding(&what, &data[data.len() - dim..], case, "last");
            check_embedding(&what, &data[..*dim], case, "cls");
        }
    }
}

#[test]
fn a_batch_may_want_different_things() {
    let expected = expected(&fixture("qwen3-tiny"));
    let cases = &cases(&expected, "cases")[..4];
    let sequences: Vec<_> = cases.iter().map(ids).collect();
    let mut model = load(&options(fixture("qwen3-tiny")));
    let (mut batch, plan) = batch(&sequences, Compaction::On { multiple: 1 }, Outputs::EMBEDDING);
    batch.wanted[1] = Outputs::TOKENS;
    batch.wanted[2] = Outputs::EMBEDDING.and(Outputs::TOKENS);
    let outputs = model.backend.forward(&batch, plan.as_ref()).unwrap();
    for (i, output) in outputs.iter().enumerate() {
        for kind in [OutputKind::Embedding, OutputKind::Logits, OutputKind::Tokens] {
            assert_eq!(output.get(kind).is_some(), batch.wanted[i].contains(kind));
        }
        for Values { data, dim } in output.all() {
            check_embedding("the last row", &data[data.len() - dim..], &cases[i], "last");
        }
    }
}

fn check_logit(what: &str, found: f32, expected: &Value) {
    let expected = expected.as_f64().unwrap() as f32;
    assert_close(what, &[found], &[expected], 2e-3 * expected.abs() + 1e-4);
}

#[test]
fn the_reranker_s_logits() {
    let expected = expected(&fixture("qwen3-reranker-tiny"));
    let cases = cases(&expected, "cases");
    let sequences: Vec<_> = cases.iter().map(ids).collect();
    for attention in ATTENTION_MODES {
        let mut model = load(&LoadOptions { attention, ..options(fixture("qwen3-reranker-tiny")) });
        assert!(model.backend.info().capabilities.rerank_template().is_some());
        run_every_way(&mut model.backend, &sequences, |way, i, found| {
            let what = format!("{}, {attention:?}, {way}", cases[i]["name"]);
            let &[no, yes] = found else { panic!("two logits") };
            check_logit(&what, no, &cases[i]["logit_no"]);
            check_logit(&what, yes, &cases[i]["logit_yes"]);
            let score = 1.0 / (1.0 + (no - yes).exp());
            assert_close(&what, &[score], &[cases[i]["score"].as_f64().unwrap() as f32], 1e-4);
        });
    }
}

#[test]
fn the_classifiers_logits() {
    for name in CLASSIFIER_FIXTURES {
        let expected = expected(&fixture(name));
        let all: Vec<&Value> = cases(&expected, "cases").iter().chain(cases(&expected, "pair_cases")).collect();
        let sequences: Vec<_> = all.iter().map(|case| ids(case)).collect();
        for attention in ATTENTION_MODES {
            let mut model = load(&LoadOptions { attention, ..options(fixture(name)) });
            run_every_way(&mut model.backend, &sequences, |way, i, found| {
                let logits = all[i]["logits"].as_array().unwrap();
                assert_eq!(found.len(), logits.len());
                for (found, expected) in found.iter().zip(logits) {
                    check_logit(&format!("{name}, {}, {attention:?}, {way}", all[i]["name"]), *found, expected);
                }
            });
        }
    }
}

#[test]
fn padding_at_the_end_of_a_text_is_not_read_by_a_classifier() {
    let expected = expected(&fixture("qwen3-seqcls-tiny"));
    let cases = cases(&expected, "pad_id_cases");
    assert!(!cases.is_empty());
    let mut model = load(&options(fixture("qwen3-seqcls-tiny")));
    for case in cases {
        // Further padding and texts that go on elsewhere change nothing.
        let (given, mut padded, mut other) = (ids(case), ids(case), ids(case));
        let pad = *given.last().unwrap();
        padded.push(pad);
        other.push(pad + 1);
        let logits = case["at_last_non_pad"]["logits"].as_array().unwrap();
        run_every_way(&mut model.backend, &[given, other, padded], |way, i, found| {
            for (found, expected) in found.iter().zip(logits).filter(|_| i != 1) {
                check_logit(way, *found, expected);
            }
        });
        // Of nothing but padding the first state is read.
        let found = run(&mut model.backend, &[vec![pad], vec![pad, pad]], Compaction::Off);
        assert_eq!(found[0], found[1]);
    }
}

#[test]
fn a_classifier_with_one_label_is_loaded_for_reranking_too() {
    let model = load(&LoadOptions { task: Some(Task::Rerank), ..options(fixture("llama-seqcls-tiny")) });
    assert_eq!(model.backend.info().capabilities.rerank, Some(Rerank::Pair));
}

#[test]
fn the_built_in_model() {
    let directory = repository().join("router/builtin");
    let expected = expected(&directory);
    let texts = cases(&expected, "texts");
    let token_ids = |case: &Value| -> Vec<u32> {
        case["token_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    let sequences: Vec<_> = texts.iter().map(token_ids).collect();
    for attention in ATTENTION_MODES {
        let mut model = load(&LoadOptions { attention, ..options(directory.clone()) });
        for (case, sequence) in texts.iter().zip(&sequences) {
            let text = case["text"].as_str().unwrap();
            assert_eq!(model.tokenizers.first().encode(text, true).unwrap().get_ids(), sequence);
        }
        run_every_way(&mut model.backend, &sequences, |way, i, found| {
            let what = format!("{}, {attention:?}, {way}", texts[i]["text"]);
            let l2 = texts[i]["l2_raw"].as_f64().unwrap() as f32;
            assert_close(&what, &[norm(found)], &[l2], 1e-4 * l2);
            assert_close(&what, &normalized(found)[..32], &floats(&texts[i]["embedding_first32"]), 1e-4);
        });
    }
}
