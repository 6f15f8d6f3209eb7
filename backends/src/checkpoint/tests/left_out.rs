//! Modules that are not supported: the refusal, and what is said where options leave them out.

use super::{copy_of, options, read_json, write_json};
use crate::check::{Verdict, check_model};
use crate::options::{LoadOptions, ModelSource};
use prefold_core::{Pooling, RerankRecipe, Task};
use serde_json::json;
use std::path::Path;
use tempfile::TempDir;

/// A copy whose module of this index is of another class.
fn with_class(name: &str, index: usize, class: &str) -> TempDir {
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
    // A list that is no JSON is left out too.
    let dir = copy_of("bert-mean-tiny");
    std::fs::write(dir.path().join("modules.json"), "[").unwrap();
    let pooled = LoadOptions { pooling: Some(Pooling::Mean), ..asking(dir.path()) };
    let Verdict::RunsBut(notes) = check_model(&pooled).verdict else { panic!("the list is left out") };
    assert!(notes[0].contains("--pooling is given"), "{notes:?}");
    // A list that is missing has no names.
    let dir = copy_of("embeddinggemma-tiny");
    std::fs::remove_file(dir.path().join("modules.json")).unwrap();
    let pooled = LoadOptions { pooling: Some(Pooling::Mean), ..asking(dir.path()) };
    let Verdict::RunsBut(notes) = check_model(&pooled).verdict else { panic!("2_Dense is left out") };
    let [of_modules, others @ ..] = &notes[..] else { panic!() };
    assert!(of_modules.contains("2_Dense"), "{notes:?}");
    assert!(others.iter().all(|note| note.ends_with("does not read this file without modules.json")), "{notes:?}");
}

#[test]
fn modules_that_a_reranker_leaves_out_are_named() {
    let dir = copy_of("qwen3-reranker-tiny");
    let module = |class: &str| json!({"path": "", "type": format!("sentence_transformers.models.{class}")});
    write_json(&dir.path().join("modules.json"), &json!([module("Transformer"), module("Whatever")]));
    let asked = LoadOptions { task: Some(Task::Rerank), ..asking(dir.path()) };
    let Verdict::RunsBut(notes) = check_model(&asked).verdict else { panic!("the module is left out") };
    assert!(notes.iter().any(|note| note.contains("Whatever") && note.contains("ignored")), "{notes:?}");
    let many = (0..63).map(|index| module(&format!("Whatever{index}")));
    write_json(
        &dir.path().join("modules.json"),
        &json!([module("Transformer")].into_iter().chain(many).collect::<Vec<_>>()),
    );
    let Verdict::RunsBut(notes) = check_model(&asked).verdict else { panic!("the modules are left out") };
    assert!(notes.iter().any(|note| note.contains("\"Whatever7\", 55 more;")), "{notes:?}");
}

#[test]
fn modules_that_another_class_saved_are_followed_with_a_warning() {
    let dir = copy_of("bert-mean-tiny");
    let warned = |settings: serde_json::Value| {
        write_json(&dir.path().join("config_sentence_transformers.json"), &settings);
        let Verdict::RunsBut(notes) = check_model(&asking(dir.path())).verdict else { return false };
        notes.iter().any(|note| note.contains("`model_type` is") && note.contains("leaves out the modules and prompts"))
    };
    for class in [json!("SparseEncoder"), json!("CrossEncoder"), json!(null)] {
        assert!(warned(json!({ "model_type": class.clone() })), "{class}");
    }
    assert!(!warned(json!({"model_type": "SentenceTransformer"})) && !warned(json!({"prompts": {}})));
}

#[test]
fn a_second_router_is_refused_as_such() {
    let dir = with_class("router-encoders-tiny", 1, "Router");
    let refused = refusal(&asking(dir.path()));
    assert!(refused.contains("a Router after another Router is not supported"), "{refused}");
    assert!(!refused.contains("instead of any of these"), "{refused}");
}

/// Only a causal model with a head answers a prompt. The mask decides, not the family: gte-Qwen2, NVIDIA's Llama and EmbeddingGemma are
/// decoders without it, and EuroBERT has a decoder's tensors.
#[test]
fn a_model_without_a_causal_mask_is_no_reranker_by_a_prompt() {
    for name in [
        "bert-mean-tiny",
        "eurobert-tiny",
        "modernbert-tiny",
        "llama-bidirec-tiny",
        "embeddinggemma-tiny",
        "qwen3-bidirectional-tiny",
    ] {
        check_no_prompt(&copy_of(name), "attends in both directions", "causal");
    }
    let gte_qwen2 = copy_of("qwen2-tiny");
    let path = gte_qwen2.path().join("config.json");
    let mut config = read_json(&path);
    config["auto_map"] = json!({"AutoModel": "modeling_qwen.Qwen2Model"});
    write_json(&path, &config);
    check_no_prompt(&gte_qwen2, "attends in both directions", "causal");
}

#[test]
fn a_decoder_without_a_head_is_no_reranker_by_a_prompt() {
    check_no_prompt(&copy_of("mistral-tiny"), "has no language model head (tensor `lm_head.weight`)", "saved with it");
}

/// Checks that both flags for a prompt are refused, with the problem and the alternatives.
fn check_no_prompt(dir: &TempDir, problem: &str, needed: &str) {
    let recipe = RerankRecipe::builtin(RerankRecipe::QWEN3).ok();
    for (task, rerank_recipe, flag) in [(Some(Task::Rerank), None, "--task rerank"), (None, recipe, "--rerank-recipe")]
    {
        let refused = refusal(&LoadOptions { task, rerank_recipe, ..asking(dir.path()) });
        assert!(refused.starts_with(flag), "{refused}");
        for words in [problem, "cosine", needed] {
            assert!(refused.contains(words), "{refused}");
        }
    }
}

#[test]
fn modules_beside_a_classifier_are_named() {
    let warnings = |name: &str, modules: &[&str], task: Option<Task>| {
        let dir = copy_of(name);
        let module = |(index, name): (usize, &&str)| {
            let path = if index == 0 { String::new() } else { format!("{index}_{name}") };
            json!({"path": path, "type": format!("sentence_transformers.models.{name}")})
        };
        let modules: Vec<_> = modules.iter().enumerate().map(module).collect();
        write_json(&dir.path().join("modules.json"), &json!(modules));
        write_json(&dir.path().join("1_Pooling/config.json"), &json!({"pooling_mode": "mean"}));
        let asked = LoadOptions { task, ..asking(dir.path()) };
        let warnings = crate::load(&asked).unwrap().backend.info().capabilities.warnings.clone();
        warnings.into_iter().find(|it| it.contains("is served as the classifier"))
    };
    let pooled = ["Transformer", "Pooling", "Normalize"];
    let warning = warnings("bert-reranker-tiny", &pooled, None).unwrap();
    let words = "served as the classifier \"BertForSequenceClassification\", without its modules: \"Pooling\", \"Normalize\"; --task embed";
    assert!(warning.contains(words), "{warning}");
    assert!(warnings("bert-ner-tiny", &["Transformer", "Pooling", "LSTM"], None).unwrap().contains("LSTM"));
    assert_eq!(warnings("bert-reranker-tiny", &pooled, Some(Task::Classify)), None);
    assert_eq!(warnings("bert-reranker-tiny", &pooled, Some(Task::Embed)), None);
    assert_eq!(warnings("bert-reranker-tiny", &["Transformer"], None), None);
}
