//! Whole models on a GPU against Hugging Face's values and against themselves. Skipped with the words "no CUDA device" where
//! there is none, unless REQUIRE_CUDA=1. On the simulated device (SIMULATED_DEVICE, set by scripts/cuda-simulated.sh), where every thread
//! of a kernel is emulated, on short sequences and some of the combinations.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

mod interruptions;
mod overlap;
#[path = "../support/mod.rs"]
mod support;

use prefold_backends::{AttentionMode, DeviceChoice, Dtype, LoadOptions};
use prefold_core::{BatchLimits, LoadedModel, Pooling, Tokens};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use safetensors::{SafeTensors, serialize, tensor::TensorView};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::encoders::{CLASSIFIERS, EMBEDDERS, WIDE_HEADED_ENCODERS, check_cases, poolings, values};
use support::*;

/// Types, and the least cosine of a value with the one in float32.
const TYPES: [(Dtype, f32); 3] = [(Dtype::Float32, 0.999_99), (Dtype::Bfloat16, 0.999), (Dtype::Float16, 0.9999)];

fn no_gpu() -> bool {
    let Err(error) = prefold_kernels::cuda::device_count() else { return false };
    assert!(std::env::var_os("REQUIRE_CUDA").is_none(), "REQUIRE_CUDA is set, but there is no CUDA device: {error}");
    println!("skipped: no CUDA device: {error}");
    true
}

/// The device is simulated, and slow.
fn simulated() -> bool {
    std::env::var_os("SIMULATED_DEVICE").is_some()
}

/// True for the combination of this number: for one of `few` on the simulated device.
fn takes_turn(number: usize, few: usize) -> bool {
    !simulated() || number.is_multiple_of(few)
}

/// The cases that a test runs: the short ones on the simulated device.
fn runnable(cases: &[Value]) -> Vec<Value> {
    let longest = if simulated() { 40 } else { usize::MAX };
    let cases: Vec<Value> = cases.iter().filter(|case| ids(case).len() <= longest).cloned().collect();
    assert!(cases.len() >= 3, "{} cases of at most {longest} tokens", cases.len());
    cases
}

/// Fixtures that a test of many combinations runs: those that a GPU computes, on the simulated device without wide heads, which have a test
/// of their own.
fn fixtures<'a>(names: &'a [&str], wide_headed: &[&str]) -> impl Iterator<Item = &'a str> {
    let names = names.iter().copied().filter(|name| CPU_ONLY.iter().all(|(refused, _)| refused != name));
    names.filter(move |name| !simulated() || !wide_headed.contains(name))
}

fn on_gpu(path: PathBuf, dtype: Dtype) -> LoadOptions {
    LoadOptions { device: Some(DeviceChoice::Cuda(0)), dtype: Some(dtype), ..options(path) }
}

#[test]
fn what_has_no_kernel_is_refused_by_name() {
    if no_gpu() {
        return;
    }
    for (name, feature) in CPU_ONLY {
        let refused = prefold_backends::load(&on_gpu(fixture(name), Dtype::Float32)).err().unwrap().to_string();
        assert!(refused.contains(feature) && refused.contains("--device cpu"), "{name}: {refused}");
    }
}

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    normalized(a).iter().zip(normalized(b)).map(|(a, b)| a * b).sum()
}

#[test]
fn fixtures_agree_with_hugging_face_in_every_type_and_every_way() {
    if no_gpu() {
        return;
    }
    let mut combination = 0;
    for name in fixtures(&EMBEDDING_FIXTURES, &WIDE_HEADED_DECODERS) {
        let expected = expected(&fixture(name));
        let cases = runnable(cases(&expected, "cases"));
        let sequences: Vec<_> = cases.iter().map(ids).collect();
        for (dtype, least) in TYPES {
            for attention in ATTENTION_MODES {
                for pool in ["last", "mean", "cls"] {
                    combination += 1;
                    if !takes_turn(combination, 7) {
                        continue;
                    }
                    let options =
                        LoadOptions { attention, pooling: Some(pooling(pool)), ..on_gpu(fixture(name), dtype) };
                    let mut model = load(&options);
                    assert_eq!(model.backend.info().device, "cuda:0");
                    run_every_way(&mut model.backend, &sequences, |way, i, found| {
                        let cosine = cosine(found, &floats(&cases[i][pool]));
                        let what = format!("{name}, {}, {dtype}, {pool}, {attention:?}, {way}", cases[i]["name"]);
                        assert!(cosine >= least, "{what}: cosine {cosine}");
                    });
                }
            }
        }
    }
}

#[test]
fn classifiers_and_rerankers_agree_with_hugging_face() {
    if no_gpu() {
        return;
    }
    for name in CLASSIFIER_FIXTURES {
        let expected = expected(&fixture(name));
        let cases = runnable(cases(&expected, "cases"));
        let sequences: Vec<_> = cases.iter().map(ids).collect();
        let mut model = load(&on_gpu(fixture(name), Dtype::Float32));
        run_every_way(&mut model.backend, &sequences, |way, i, found| {
            let logits = floats(&cases[i]["logits"]);
            assert_close(&format!("{name}, {way}"), found, &logits, 2e-3 * norm(&logits) + 1e-3);
        });
    }
}

#[test]
fn encoders_agree_with_hugging_face_in_every_type() {
    if no_gpu() {
        return;
    }
    let mut combination = 0;
    for name in fixtures(&EMBEDDERS, &WIDE_HEADED_ENCODERS) {
        let expected = expected(&fixture(name));
        let cases = runnable(cases(&expected, "cases"));
        let cases: Vec<&Value> = cases.iter().collect();
        for (dtype, least) in TYPES {
            // Rounded states give a row another expert where two score nearly the same.
            let least = if name == "nomic-moe-tiny" && dtype != Dtype::Float32 { 0.99 } else { least };
            for (pool, key) in poolings(&expected) {
                combination += 1;
                if !takes_turn(combination, 5) {
                    continue;
                }
                let pooling = Some(pooling(pool));
                let mut model = load(&LoadOptions { pooling, ..on_gpu(fixture(name), dtype) });
                check_cases(&mut model, &cases, |what, case, found| {
                    let cosine = cosine(found, &floats(&case[key]));
                    assert!(cosine >= least, "{name}, {dtype}, {pool}, {what}: cosine {cosine}");
                });
            }
        }
    }
}

/// Every value of a vector of unit length is near, and so is its direction.
fn assert_near(what: &str, found: &[f32], expected: &[f32], dtype: Dtype, least_cosine: f32) {
    let tolerance = match dtype {
        Dtype::Float32 => 1e-4,
        Dtype::Float16 => 3e-3,
        _ => 2e-2,
    };
    let cosine = cosine(found, expected);
    assert!(cosine >= least_cosine, "{what}, {dtype}: cosine {cosine}");
    assert_close(&format!("{what}, {dtype}"), &normalized(found), &normalized(expected), tolerance);
}

/// The cases that a test of long sequences runs: all, or a few short ones and the first of more than 64 tokens, which are more than a
/// block of keys and than a tile of 64 queries.
fn with_a_long_one(cases: &[Value]) -> Vec<Value> {
    let long = cases.iter().find(|case| ids(case).len() > 64).unwrap();
    if simulated() { [&cases[..3], std::slice::from_ref(long)].concat() } else { cases.to_vec() }
}

#[test]
fn decoders_with_heads_of_64_and_128_agree_with_hugging_face_value_by_value() {
    if no_gpu() {
        return;
    }
    for name in WIDE_HEADED_DECODERS {
        let expected = expected(&fixture(name));
        let cases = with_a_long_one(cases(&expected, "cases"));
        let sequences: Vec<_> = cases.iter().map(ids).collect();
        for (dtype, least) in TYPES {
            for (attention, pool) in ATTENTION_MODES.into_iter().zip(["mean", "last"]) {
                let options = LoadOptions { attention, pooling: Some(pooling(pool)), ..on_gpu(fixture(name), dtype) };
                let mut model = load(&options);
                run_every_way(&mut model.backend, &sequences, |way, i, found| {
                    let what = format!("{name}, {}, {pool}, {attention:?}, {way}", cases[i]["name"]);
                    assert_near(&what, found, &floats(&cases[i][pool]), dtype, least);
                });
            }
        }
    }
}

#[test]
fn encoders_with_heads_of_64_and_128_agree_with_hugging_face_value_by_value() {
    if no_gpu() {
        return;
    }
    for name in WIDE_HEADED_ENCODERS {
        let expected = expected(&fixture(name));
        let cases = with_a_long_one(cases(&expected, "cases"));
        let cases: Vec<&Value> = cases.iter().collect();
        for (dtype, least) in TYPES {
            let mut model = load(&LoadOptions { pooling: Some(Pooling::Mean), ..on_gpu(fixture(name), dtype) });
            check_cases(&mut model, &cases, |what, case, found| {
                assert_near(&format!("{name}, {what}"), found, &floats(&case["mean"]), dtype, least);
            });
        }
    }
}

#[test]
fn cross_encoders_agree_with_hugging_face() {
    if no_gpu() {
        return;
    }
    for name in CLASSIFIERS {
        let expected = expected(&fixture(name));
        let cases = runnable(&[cases(&expected, "cases"), cases(&expected, "pair_cases")].concat());
        let cases: Vec<&Value> = cases.iter().collect();
        let mut model = load(&on_gpu(fixture(name), Dtype::Float32));
        check_cases(&mut model, &cases, |what, case, found| {
            let logits = floats(&case["logits"]);
            assert_close(&format!("{name}, {what}"), found, &logits, 2e-3 * norm(&logits) + 1e-3);
        });
    }
}

#[test]
fn every_pooling_of_an_encoder_agrees_with_the_cpu() {
    if no_gpu() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(12);
    let poolings =
        [Pooling::Cls, Pooling::Mean, Pooling::LastToken, Pooling::Max, Pooling::MeanSqrtLen, Pooling::WeightedMean];
    let mut combination = 0;
    for name in ["bert-mean-tiny", "mpnet-tiny", "electra-tiny"] {
        for pooling in poolings.map(Some) {
            combination += 1;
            if !takes_turn(combination, 2) {
                continue;
            }
            let mut exact = load(&LoadOptions { pooling, ..options(fixture(name)) });
            let vocab_size = exact.backend.info().limits().vocab_size as u32;
            let mut sequences = sharing(&mut rng, vocab_size);
            // The tables of positions are short.
            sequences.iter_mut().for_each(|ids| ids.truncate(200));
            shorten(&mut sequences);
            let sequences: Vec<Tokens> = sequences.into_iter().map(Tokens::new).collect();
            let expected = values(&mut exact, &sequences);
            for (dtype, least) in TYPES {
                let mut model = load(&LoadOptions { pooling, ..on_gpu(fixture(name), dtype) });
                for (found, expected) in values(&mut model, &sequences).iter().zip(&expected) {
                    let cosine = cosine(found, expected);
                    assert!(cosine >= least, "{name}, {dtype}, {pooling:?}: cosine {cosine}");
                }
            }
        }
    }
}

/// Few and short sequences on the simulated device.
fn shorten(sequences: &mut Vec<Vec<u32>>) {
    if simulated() {
        sequences.truncate(6);
        sequences.iter_mut().for_each(|ids| ids.truncate(24));
    }
}

fn sharing(rng: &mut StdRng, vocab_size: u32) -> Vec<Vec<u32>> {
    let mut sequences: Vec<Vec<u32>> = vec![vec![]];
    for _ in 0..rng.random_range(1..30) {
        let parent = &sequences[rng.random_range(0..sequences.len())];
        let mut sequence = parent[..rng.random_range(0..=parent.len())].to_vec();
        sequence.extend((0..rng.random_range(1..90)).map(|_| rng.random_range(0..vocab_size)));
        sequences.push(sequence);
    }
    sequences.remove(0);
    sequences
}

#[test]
fn off_ragged_and_compact_agree_with_the_cpu() {
    if no_gpu() {
        return;
    }
    let builtin = repository().join("router/builtin");
    for path in [builtin].into_iter().chain(fixtures(&EMBEDDING_FIXTURES, &WIDE_HEADED_DECODERS).map(fixture)) {
        let mut rng = StdRng::seed_from_u64(11);
        let mut exact: LoadedModel = load(&options(path.clone()));
        let vocab_size = exact.backend.info().limits().vocab_size as u32;
        for (dtype, least) in TYPES {
            let mut models =
                ATTENTION_MODES.map(|attention| load(&LoadOptions { attention, ..on_gpu(path.clone(), dtype) }));
            for round in 0..if simulated() { 1 } else { 20 } {
                let mut sequences = sharing(&mut rng, vocab_size);
                shorten(&mut sequences);
                let expected = run(&mut exact.backend, &sequences, Compaction::Off);
                for model in &mut models {
                    for compaction in COMPACTIONS {
                        let found = run(&mut model.backend, &sequences, compaction);
                        for (found, expected) in found.iter().zip(&expected) {
                            let cosine = cosine(found, expected);
                            assert!(
                                cosine >= least,
                                "{path:?}, {dtype}, round {round}, {compaction:?}: cosine {cosine}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_batch_that_does_not_fit_needs_more_than_is_free() {
    if no_gpu() {
        return;
    }
    let model = load(&on_gpu(fixture("qwen3-tiny"), Dtype::Bfloat16));
    let needed = |max_tokens| model.backend.needed_bytes(BatchLimits { max_tokens, max_ragged_tokens: max_tokens });
    let free = model.backend.free_bytes().unwrap();
    assert!(needed(1024) <= free && free < needed(i32::MAX as usize), "{free}");
}

/// Buffers that grow from batch to batch: what was queued on the old memory must be done before it is given back.
#[test]
fn batches_of_growing_sizes_agree_with_the_cpu() {
    if no_gpu() {
        return;
    }
    let mut rng = StdRng::seed_from_u64(13);
    let mut exact = load(&options(fixture("qwen3-tiny")));
    let vocab_size = exact.backend.info().limits().vocab_size as u32;
    let attention = AttentionMode::Compact;
    let mut model = load(&LoadOptions { attention, ..on_gpu(fixture("qwen3-tiny"), Dtype::Float32) });
    for len in [1, 3, 9, 27, 2, 40] {
        let sequences: Vec<Vec<u32>> =
            (0..3).map(|_| (0..len).map(|_| rng.random_range(0..vocab_size)).collect()).collect();
        let expected = run(&mut exact.backend, &sequences, Compaction::Off);
        for (found, expected) in run(&mut model.backend, &sequences, Compaction::Off).iter().zip(&expected) {
            assert_close(&format!("{len} tokens"), &normalized(found), &normalized(expected), 1e-4);
        }
    }
}

/// More keys than the tensor cores' kernel takes at a time, and more queries than a tile has: both stages of its shared memory.
#[test]
fn sequences_longer_than_a_tile_agree_with_the_cpu() {
    if no_gpu() {
        return;
    }
    let path = repository().join("router/builtin");
    let mut exact = load(&options(path.clone()));
    let mut rng = StdRng::seed_from_u64(14);
    let vocab_size = exact.backend.info().limits().vocab_size as u32;
    let sequences: Vec<Vec<u32>> =
        [150, 70].map(|len| (0..len).map(|_| rng.random_range(0..vocab_size)).collect()).into();
    let expected = run(&mut exact.backend, &sequences, Compaction::Off);
    let mut model = load(&LoadOptions { attention: AttentionMode::Compact, ..on_gpu(path, Dtype::Bfloat16) });
    for (found, expected) in run(&mut model.backend, &sequences, Compaction::Off).iter().zip(&expected) {
        let cosine = cosine(found, expected);
        assert!(cosine >= 0.999, "cosine {cosine}");
    }
}

/// Heads of 64 values, as published models of this family have, which the fixture has not: random weights, four times as wide.
fn widened_deberta(directory: &Path) {
    let mut rng = StdRng::seed_from_u64(15);
    let from = fixture("deberta-v2-tiny");
    let mut config: Value = serde_json::from_slice(&std::fs::read(from.join("config.json")).unwrap()).unwrap();
    for (name, value) in [("hidden_size", 128), ("num_attention_heads", 2), ("intermediate_size", 256)] {
        config[name] = json!(value);
    }
    std::fs::write(directory.join("config.json"), config.to_string()).unwrap();
    std::fs::copy(from.join("tokenizer.json"), directory.join("tokenizer.json")).unwrap();
    let file = std::fs::read(from.join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let wide: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, tensor)| {
            // Words and distances are as many as before.
            let is_table = name.ends_with("embeddings.weight");
            let widths = tensor.shape().iter().enumerate();
            let shape: Vec<usize> =
                widths.map(|(axis, &size)| if is_table && axis == 0 { size } else { 4 * size }).collect();
            let middle = if name.ends_with("LayerNorm.weight") { 1.0_f32 } else { 0.0 };
            let values = (0..shape.iter().product()).map(|_| middle + rng.random_range(-0.3_f32..0.3));
            (name.to_owned(), shape, values.flat_map(f32::to_le_bytes).collect())
        })
        .collect();
    let views = wide
        .iter()
        .map(|(name, shape, values)| (name, TensorView::new(safetensors::Dtype::F32, shape.clone(), values).unwrap()));
    std::fs::write(directory.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
}

#[test]
fn distances_on_tensor_cores_agree_with_the_cpu() {
    if no_gpu() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    widened_deberta(directory.path());
    let plain = || LoadOptions { pooling: Some(Pooling::Mean), ..options(directory.path().to_owned()) };
    let mut exact = load(&plain());
    let mut rng = StdRng::seed_from_u64(16);
    let vocab_size = exact.backend.info().limits().vocab_size as u32;
    let sequences: Vec<Vec<u32>> =
        [150, 70, 3].map(|len| (0..len).map(|_| rng.random_range(0..vocab_size)).collect()).into();
    let expected = run(&mut exact.backend, &sequences, Compaction::Off);
    for (dtype, least) in [(Dtype::Bfloat16, 0.999), (Dtype::Float16, 0.9999)] {
        let path = directory.path().to_owned();
        let mut model = load(&LoadOptions { pooling: Some(Pooling::Mean), ..on_gpu(path, dtype) });
        for (found, expected) in run(&mut model.backend, &sequences, Compaction::Off).iter().zip(&expected) {
            let cosine = cosine(found, expected);
            assert!(cosine >= least, "{dtype}: cosine {cosine}");
        }
    }
}
