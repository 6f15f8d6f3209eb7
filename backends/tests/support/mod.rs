//! Loading fixtures, forming batches and comparing numbers.
#![allow(dead_code, missing_docs, unreachable_pub)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

pub mod encoders;
pub mod interruptions;

use prefold_backends::{AttentionMode, DeviceChoice, Dtype, LoadOptions, ModelSource};
use prefold_core::{Batch, LoadedModel, ModelBackend, Outputs, Pooling, RadixPlan, RaggedBatch};
use serde_json::Value;
use std::path::{Path, PathBuf};

pub const EMBEDDING_FIXTURES: [&str; 10] = [
    "qwen3-tiny",
    "llama-tiny",
    "qwen2-tiny",
    "mistral-tiny",
    "gemma3-causal-tiny",
    "gemma2-tiny",
    "lfm2-tiny",
    "jina-v5-small-tiny",
    WIDE_HEADED_DECODERS[0],
    WIDE_HEADED_DECODERS[1],
];
/// Models that a GPU refuses, because it has no kernel for them, and what the refusal names.
pub const CPU_ONLY: [(&str, &str); 3] = [
    ("gemma2-tiny", "`attn_logit_softcapping`"),
    ("lfm2-tiny", "short convolutions"),
    ("lfm2-bidirectional-tiny", "short convolutions"),
];
/// Those whose heads have 64 or 128 values, for which there is the kernel of a GPU's tensor cores.
pub const WIDE_HEADED_DECODERS: [&str; 2] = ["qwen3-head128-tiny", "mistral-head64-tiny"];
pub const CLASSIFIER_FIXTURES: [&str; 2] = ["llama-seqcls-tiny", "qwen3-seqcls-tiny"];

/// Compaction of a batch: none, or a plan whose N' is a multiple of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Compaction {
    Off,
    On { multiple: usize },
}

pub const COMPACTIONS: [Compaction; 3] =
    [Compaction::Off, Compaction::On { multiple: 1 }, Compaction::On { multiple: 64 }];
pub const ATTENTION_MODES: [AttentionMode; 2] = [AttentionMode::Ragged, AttentionMode::Compact];

/// Directory of the fixtures: the sources, or the one that benches/gpu/pack.sh packed.
pub fn repository() -> PathBuf {
    match std::env::var_os("PREFOLD_FIXTURES") {
        Some(directory) => PathBuf::from(directory),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join(".."),
    }
}

pub fn fixture(name: &str) -> PathBuf {
    repository().join("tests/fixtures").join(name)
}

/// Copies a checkpoint.
pub fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_files(&entry.path(), &to),
            false => drop(std::fs::copy(entry.path(), to).unwrap()),
        }
    }
}

pub fn options(path: PathBuf) -> LoadOptions {
    LoadOptions {
        device: Some(DeviceChoice::Cpu),
        dtype: Some(Dtype::Float32),
        attention: AttentionMode::Ragged,
        source: ModelSource::Path(path),
        ..LoadOptions::default()
    }
}

pub fn load(options: &LoadOptions) -> LoadedModel {
    prefold_backends::load(options).unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

pub fn expected(directory: &Path) -> Value {
    let path = directory.join("expected.json");
    serde_json::from_slice(&std::fs::read(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"))).unwrap()
}

pub fn cases<'a>(expected: &'a Value, key: &str) -> &'a [Value] {
    expected[key].as_array().unwrap()
}

pub fn ids(case: &Value) -> Vec<u32> {
    case["input_ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

pub fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

pub fn batch(sequences: &[Vec<u32>], compaction: Compaction, wanted: Outputs) -> (Batch, Option<RadixPlan>) {
    let ragged = RaggedBatch::from_sequences(sequences).unwrap();
    let plan = match compaction {
        Compaction::Off => None,
        Compaction::On { multiple } => Some(RadixPlan::new(&ragged, multiple)),
    };
    (Batch { wanted: vec![wanted; ragged.num_sequences()], ragged }, plan)
}

pub fn run(backend: &mut ModelBackend, sequences: &[Vec<u32>], compaction: Compaction) -> Vec<Vec<f32>> {
    let wanted = Outputs::of_head(&backend.info().capabilities);
    let (batch, plan) = batch(sequences, compaction, wanted);
    let outputs = backend.forward(&batch, plan.as_ref()).unwrap();
    assert_eq!(outputs.len(), sequences.len());
    outputs.iter().map(|output| output.all().next().unwrap().data.clone()).collect()
}

/// Every way to compute the same sequences: each alone, and all in one batch.
pub fn run_every_way(backend: &mut ModelBackend, sequences: &[Vec<u32>], mut check: impl FnMut(&str, usize, &[f32])) {
    for compaction in COMPACTIONS {
        for (i, output) in run(backend, sequences, compaction).iter().enumerate() {
            check(&format!("one batch, {compaction:?}"), i, output);
        }
        for (i, sequence) in sequences.iter().enumerate() {
            let output = run(backend, std::slice::from_ref(sequence), compaction);
            check(&format!("alone, {compaction:?}"), i, &output[0]);
        }
    }
}

pub fn norm(values: &[f32]) -> f32 {
    values.iter().map(|x| x * x).sum::<f32>().sqrt()
}

pub fn normalized(values: &[f32]) -> Vec<f32> {
    let norm = norm(values);
    values.iter().map(|x| x / norm).collect()
}

/// NaN fails.
#[track_caller]
pub fn assert_close(what: &str, found: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs();
        assert!(error <= tolerance, "{what}: value {i} is {found}, expected {expected} within {tolerance}");
    }
}

pub fn pooling(name: &str) -> Pooling {
    match name {
        "last" => Pooling::LastToken,
        "mean" => Pooling::Mean,
        "cls" => Pooling::Cls,
        other => panic!("pooling {other}"),
    }
}
