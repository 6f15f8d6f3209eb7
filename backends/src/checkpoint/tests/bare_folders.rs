//! Checks of folders that have configuration alone.

use super::{copy_of, open, options, read_json, write_json};
use crate::options::ModelSource;
use crate::{ModelCheck, Verdict, check_model};
use serde_json::json;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn check(path: &Path) -> ModelCheck {
    check_model(&options(ModelSource::Path(path.to_owned())))
}

/// A copy without tensors and tokenizer.
fn bare(name: &str) -> TempDir {
    let dir = copy_of(name);
    for file in ["model.safetensors", "tokenizer.json"] {
        fs::remove_file(dir.path().join(file)).unwrap();
    }
    dir
}

#[test]
fn configuration_alone_is_checked_and_not_started() {
    let dir = bare("embeddinggemma-tiny");
    let ModelCheck { verdict, model, .. } = check(dir.path());
    let Verdict::RunsBut(notes) = verdict else { panic!("{verdict:?}") };
    assert!(notes.len() == 1 && notes[0].contains("only the configuration was checked"), "{notes:?}");
    let model = model.unwrap();
    assert_eq!((model.family.as_str(), model.parameters), ("gemma3_text", None));
    assert_eq!(model.capabilities.embed.unwrap().dim, 32);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("tokenizer.json"), "{refused}");
}

#[test]
fn a_reranker_by_its_prompt_is_checked_without_its_tokens() {
    let model = check(bare("qwen3-reranker-tiny").path()).model.unwrap();
    assert!(model.capabilities.rerank.is_some());
}

#[test]
fn half_a_model_is_refused() {
    for (missing, left) in [("model.safetensors", "tokenizer.json"), ("tokenizer.json", "model.safetensors")] {
        let dir = copy_of("bert-mean-tiny");
        fs::remove_file(dir.path().join(missing)).unwrap();
        let Verdict::DoesNotRun(problem) = check(dir.path()).verdict else { panic!("{left} alone is enough") };
        assert!(problem.contains(missing), "{problem}");
    }
}

#[test]
fn what_the_configuration_lacks_is_refused() {
    let dir = bare("bert-mean-tiny");
    let path = dir.path().join("config.json");
    let mut config = read_json(&path);
    config["model_type"] = json!("t5");
    write_json(&path, &config);
    assert!(matches!(check(dir.path()).verdict, Verdict::DoesNotRun(problem) if problem.contains("t5")));
}
