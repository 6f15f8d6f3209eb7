//! Checks of models without their weights: the verdicts equal the results of a start.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::*;
use crate::support::*;
use prefold_backends::{AttentionMode, Dtype, LoadOptions, Verdict, check_model};
use prefold_core::{BatchLimits, EngineConfig};
use std::fs;

/// The remark on jina-embeddings-v5, whose published code refuses texts without a task.
const WITHOUT_TASK: &str = "texts without a `task` have the adapter `retrieval`";

#[test]
fn every_fixture_runs_and_is_described() {
    for name in
        EMBEDDERS.into_iter().chain(STATIC).chain(CLASSIFIERS).chain(TOKEN_CLASSIFIERS).chain(EMBEDDING_FIXTURES)
    {
        let check = check_model(&options(fixture(name)));
        let verdict = match name {
            "jina-v5-small-tiny" | "jina-v5-nano-tiny" => Verdict::RunsBut(vec![WITHOUT_TASK.to_owned()]),
            _ => Verdict::Runs,
        };
        assert_eq!(check.verdict, verdict, "{name}");
        // The mode of a start without flags.
        let start = LoadOptions { attention: AttentionMode::Compact, ..options(fixture(name)) };
        let (found, loaded) = (check.model.unwrap(), load(&start));
        let info = loaded.backend.info();
        assert_eq!((&found.family, &found.capabilities), (&info.model_type, &*info.capabilities), "{name}");
        let memory = found.memory.iter().find(|it| it.dtype.as_str() == info.dtype).unwrap();
        let longest = info.input_memory.bytes(info.capabilities.max_input_length);
        assert!(longest > 0 && memory.longest_input_bytes == longest, "{name}: {longest}");
        let engine = EngineConfig::default();
        let ([due, urgent], interrupting) = (BatchLimits::interrupting(&engine), loaded.interrupting.unwrap());
        let batches = loaded.backend.needed_bytes(BatchLimits::of(&engine))
            + interrupting.due.needed_bytes(due)
            + interrupting.urgent.needed_bytes(urgent);
        assert!(batches > 0 && memory.default_batch_bytes == batches as u64, "{name}: {batches}");
    }
}

#[test]
fn memory_is_that_of_the_tensors_and_tables() {
    let model = check_model(&options(fixture("modernbert-tiny"))).model.unwrap();
    assert_eq!(model.attention, "full, windowed");
    // By hand: embeddings; per layer q, k, v, output, gate, up, down; norms, one fewer than two a layer and two around.
    let (embeddings, layer) = (448 * 32, 3 * 32 * 32 + 32 * 32 + 2 * 48 * 32 + 32 * 48);
    let (matrices, vectors) = (embeddings + 4 * layer, (2 * 4 - 1 + 2) * 32);
    assert_eq!(model.parameters, Some(matrices + vectors));
    // Two bases, 512 positions, heads of 8.
    let tables = 4 * 2 * 512 * 8;
    let weights = |dtype| model.memory.iter().find(|it| it.dtype == dtype).unwrap().weights_bytes;
    assert_eq!(weights(Dtype::Float32), 4 * (matrices + vectors) + tables);
    assert_eq!(weights(Dtype::Bfloat16), 2 * matrices + 4 * vectors + tables);
    let rows = 448 + 4 * (3 * 32 + 32 + 2 * 48 + 32);
    assert_eq!(weights(Dtype::Int8), matrices + 4 * rows + 4 * vectors + tables);
}

#[test]
fn what_is_missing_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let config = fs::read_to_string(fixture("bert-mean-tiny").join("config.json")).unwrap();
    for file in ["model.safetensors", "tokenizer.json"] {
        fs::copy(fixture("bert-mean-tiny").join(file), directory.path().join(file)).unwrap();
    }
    fs::write(directory.path().join("config.json"), &config).unwrap();
    let verdict = || check_model(&options(directory.path().to_owned())).verdict;
    let refused = |words: &str| match verdict() {
        Verdict::DoesNotRun(problem) => assert!(problem.contains(words), "{problem}"),
        other => panic!("{words}: {other:?}"),
    };
    refused("--pooling");
    fs::create_dir(directory.path().join("1_Pooling")).unwrap();
    fs::write(directory.path().join("1_Pooling/config.json"), r#"{"pooling_mode_mean_tokens": true}"#).unwrap();
    fs::write(directory.path().join("README.md"), "---\nlicense: mit\n---\n").unwrap();
    assert_eq!(verdict(), Verdict::Runs);
    assert_eq!(check_model(&options(directory.path().to_owned())).licence.name(), Some("mit"));
    fs::write(directory.path().join("config.json"), config.replace("\"bert\"", "\"longt5\"")).unwrap();
    refused("`model_type` \"longt5\"");
    assert_eq!(check_model(&options(directory.path().to_owned())).licence.name(), Some("mit"));
}

/// A start reads the weights of dense modules, and needs the list that says what they are for.
#[test]
fn damaged_dense_modules_are_seen() {
    let original = fixture("embeddinggemma-tiny");
    for damage in ["no weights", "half of them", "another width", "no list"] {
        let directory = tempfile::tempdir().unwrap();
        copy_files(&original, directory.path());
        let weights = directory.path().join("2_Dense/model.safetensors");
        match damage {
            "no weights" => fs::remove_file(&weights).unwrap(),
            "half of them" => {
                let bytes = fs::read(&weights).unwrap();
                fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
            }
            "another width" => drop(fs::copy(directory.path().join("3_Dense/model.safetensors"), &weights).unwrap()),
            _ => fs::remove_file(directory.path().join("modules.json")).unwrap(),
        }
        let Verdict::DoesNotRun(problem) = check_model(&options(directory.path().to_owned())).verdict else {
            panic!("{damage}: runs");
        };
        let start = prefold_backends::load(&options(directory.path().to_owned())).err().unwrap().to_string();
        assert_eq!(problem, start, "{damage}");
        assert!(problem.contains("2_Dense"), "{damage}: {problem}");
    }
}
