//! Modules that are not supported: the refusal, and what is said where options leave them out.

use super::{copy_of, options, read_json, write_json};
use crate::check::{Verdict, check_model};
use crate::options::{LoadOptions, ModelSource};
use prefold_core::{Pooling, RerankRecipe, Task};
use serde_json::json;
use std::path::Path;

/// A copy whose module of this index is of another class.
fn with_class(name: &str, index: usize, class: &str) -> tempfile::TempDir {
    let dir = copy_of(name);
    let path = dir.path().join("modules.json");
    let mut modules = read_json(&path);
    modules[index]["type"] = json!(format!("sentence_transformers.models.{class}"));
    write_json(&path, &modules);
    dir
}

fn asking(dir: &Path) -> LoadOptions {
    options(ModelSource::Path(dir.to_owned()))
}

fn refusal(options: &LoadOptions) -> String {
    let start = crate::load(options).err().unwrap().to_string();
    assert_eq!(check_model(options).verdict, Verdict::DoesNotRun(start.clone()));
    start
}

#[test]
fn modules_that_pooling_leaves_out_are_named_by_the_check_and_the_start() {
    for (index, class) in [(1, "WordWeights"), (2, "LSTM")] {
        let dir = with_class("bert-mean-tiny", index, class);
        for task in [None, Some(Task::Embed)] {
            let refused = refusal(&LoadOptions { task, ..asking(dir.path()) });
            assert!(refused.contains(class) && refused.contains("--pooling leaves the modules out"), "{refused}");
            assert!(!refused.contains("--task"), "{refused}");
        }
        let pooled = LoadOptions { pooling: Some(Pooling::Mean), ..asking(dir.path()) };
        let Verdict::RunsBut(notes) = check_model(&pooled).verdict else { panic!("{class} is left out") };
        assert!(notes.len() == 1 && notes[0].contains(class) && notes[0].contains("--pooling is given"), "{notes:?}");
        assert_eq!(crate::load(&pooled).unwrap().backend.info().capabilities.warnings, notes);
    }
    // A list that is missing has no names.
    let dir = copy_of("embeddinggemma-tiny");
    std::fs::remove_file(dir.path().join("modules.json")).unwrap();
    let pooled = LoadOptions { pooling: Some(Pooling::Mean), ..asking(dir.path()) };
    let Verdict::RunsBut(notes) = check_model(&pooled).verdict else { panic!("2_Dense is left out") };
    assert!(notes.len() == 1 && notes[0].contains("2_Dense"), "{notes:?}");
}

#[test]
fn modules_that_a_reranker_leaves_out_are_named() {
    let dir = copy_of("qwen3-reranker-tiny");
    let module = |class: &str| json!({"path": "", "type": format!("sentence_transformers.models.{class}")});
    write_json(&dir.path().join("modules.json"), &json!([module("Transformer"), module("Whatever")]));
    let asked = LoadOptions { task: Some(Task::Rerank), ..asking(dir.path()) };
    let Verdict::RunsBut(notes) = check_model(&asked).verdict else { panic!("the module is left out") };
    assert!(notes.iter().any(|note| note.contains("Whatever") && note.contains("ignored")), "{notes:?}");
}

#[test]
fn a_second_router_is_refused_as_such() {
    let dir = with_class("router-encoders-tiny", 1, "Router");
    let refused = refusal(&asking(dir.path()));
    assert!(refused.contains("a Router after another Router is not supported"), "{refused}");
    assert!(!refused.contains("instead of any of these"), "{refused}");
}

#[test]
fn an_encoder_is_no_reranker_by_a_prompt() {
    let dir = copy_of("bert-mean-tiny");
    let recipe = RerankRecipe::builtin(RerankRecipe::QWEN3).ok();
    for (task, rerank_recipe, flag) in [(Some(Task::Rerank), None, "--task rerank"), (None, recipe, "--rerank-recipe")]
    {
        let refused = refusal(&LoadOptions { task, rerank_recipe, ..asking(dir.path()) });
        assert!(refused.starts_with(flag), "{refused}");
        for words in ["is an encoder", "cosine", "needs a decoder"] {
            assert!(refused.contains(words), "{refused}");
        }
    }
}
