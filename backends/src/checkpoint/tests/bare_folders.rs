//! Checks of folders that have configuration alone.

use super::refusals::config;
use super::{copy_of, open, options, read_json, write_json};
use crate::check::{ModelCheck, Verdict, check_model};
use crate::options::{LoadOptions, ModelSource};
use crate::source::licence::Licence;
use serde_json::json;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

fn check(path: &Path) -> ModelCheck {
    check_model(&options(ModelSource::Path(path.to_owned())))
}

/// A copy without tensors and tokenizer.
fn bare(name: &str) -> TempDir {
    bare_in(name, "")
}

/// The same of a model whose files are in a folder.
fn bare_in(name: &str, folder: &str) -> TempDir {
    let dir = copy_of(name);
    for file in ["model.safetensors", "tokenizer.json"] {
        fs::remove_file(dir.path().join(folder).join(file)).unwrap();
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
fn a_pooling_that_no_list_names_is_followed_with_a_warning() {
    for (model, is_causal, warning) in [
        ("bert-cls-tiny", None, Some("pool the mean")),
        ("bert-mean-tiny", None, None),
        // A ...ForCausalLM, like models that became embedders.
        ("llama-tiny", None, Some("pool the last token")),
        ("llama-tiny", Some(true), Some("pool the last token")),
        ("llama-tiny", Some(false), None),
        ("lfm2-tiny", None, None),
    ] {
        let dir = copy_of(model);
        if let Some(is_causal) = is_causal {
            config("/is_causal", json!(is_causal)).apply(dir.path());
        }
        let listed = open(dir.path()).unwrap().capabilities;
        fs::remove_file(dir.path().join("modules.json")).unwrap();
        let found = open(dir.path()).unwrap().capabilities;
        assert_eq!(found.embed.as_ref().unwrap().pooling, listed.embed.as_ref().unwrap().pooling);
        let pools = found.warnings.iter().filter_map(|warning| warning.split_once("sentence-transformers would "));
        let pools: Vec<&str> = pools.map(|(_, pools)| pools).collect();
        assert_eq!(pools, warning.as_slice(), "{model}: {:?}", found.warnings);
        assert!(!listed.warnings.iter().any(|warning| warning.contains("would pool")));
    }
}

#[test]
fn files_that_need_a_list_of_modules_in_the_library_are_followed_with_a_warning() {
    let dir = copy_of("bert-mean-tiny");
    write_json(
        &dir.path().join("config_sentence_transformers.json"),
        &json!({"prompts": {"query": "", "document": ""}}),
    );
    write_json(&dir.path().join("sentence_bert_config.json"), &json!({"max_seq_length": 7, "do_lower_case": false}));
    let of = || open(dir.path()).unwrap().capabilities;
    assert!(of().warnings.is_empty(), "{:?}", of().warnings);
    fs::remove_file(dir.path().join("modules.json")).unwrap();
    let found = of();
    assert_eq!(found.max_input_length, 7);
    let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
    let expected =
        "sentence_bert_config.json: `max_seq_length`: 7 is followed; sentence-transformers does not read this file";
    assert!(warning.starts_with(expected), "{warning}");
    write_json(&dir.path().join("config_sentence_transformers.json"), &json!({"prompts": {"query": "Q: "}}));
    assert!(of().warnings[1].contains("`prompts`: {\"query\":\"Q: \"} is followed"), "{:?}", of().warnings);
}

#[test]
fn a_reranker_by_its_prompt_is_checked_without_its_tokens() {
    let model = check(bare("qwen3-reranker-tiny").path()).model.unwrap();
    assert!(model.capabilities.rerank.is_some());
}

#[test]
fn a_classifier_of_tokens_is_checked_by_its_first_class() {
    let dir = bare("bert-ner-tiny");
    let capabilities = check(dir.path()).model.unwrap().capabilities;
    assert_eq!(capabilities.classify_tokens.unwrap().labels.len(), 5);
    config("/architectures", json!(["BertModel", "BertForTokenClassification"])).apply(dir.path());
    let Verdict::DoesNotRun(problem) = check(dir.path()).verdict else { panic!("the second class counts") };
    assert!(problem.contains("does not state its task"), "{problem}");
}

#[test]
fn a_table_of_vectors_is_described_as_far_as_its_configuration_says() {
    let ModelCheck { verdict, model, .. } = check(bare("model2vec-tiny").path());
    assert!(matches!(verdict, Verdict::RunsBut(notes) if notes.len() == 1));
    let model = model.unwrap();
    assert_eq!((model.family.as_str(), model.parameters, model.memory.len()), ("model2vec", None, 0));
    assert_eq!((model.capabilities.embed.unwrap().dim, model.capabilities.max_input_length), (24, 512));
    let dir = bare_in("static-embedding-tiny", "0_StaticEmbedding");
    let ModelCheck { verdict, model, .. } = check(dir.path());
    assert!(matches!(verdict, Verdict::RunsBut(notes) if notes.len() == 1));
    assert!(model.is_none(), "{model:?}");
    let path = dir.path().join("modules.json");
    let mut modules = read_json(&path);
    modules[0]["path"] = json!("./0_StaticEmbedding/");
    modules.as_array_mut().unwrap().push(json!({"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}));
    write_json(&path, &modules);
    assert!(matches!(check(dir.path()).verdict, Verdict::DoesNotRun(problem) if problem.contains("Pooling")));
}

#[test]
fn a_folder_that_is_not_there_is_refused_as_by_a_start() {
    let dir = copy_of("static-embedding-tiny");
    let path = dir.path().join("modules.json");
    let mut modules = read_json(&path);
    modules[0]["path"] = json!("0_Other");
    write_json(&path, &modules);
    let Verdict::DoesNotRun(problem) = check(dir.path()).verdict else { panic!("there are tensors elsewhere") };
    assert!(problem.contains("0_Other"), "{problem}");
    assert_eq!(open(dir.path()).unwrap_err().to_string(), problem);
}

#[test]
fn a_width_that_is_not_the_tables_is_told() {
    let with_width = |width| {
        let dir = copy_of("model2vec-tiny");
        config("/hidden_dim", width).apply(dir.path());
        dir
    };
    let dir = with_width(json!(25));
    let Verdict::RunsBut(notes) = check(dir.path()).verdict else { panic!("the field is stale") };
    assert!(
        notes.iter().any(|note| note.contains("`hidden_dim` in config.json is 25; the width of the table, 24,")),
        "{notes:?}"
    );
    assert_eq!(open(dir.path()).unwrap().capabilities.warnings, notes);
    let dir = with_width(json!("x"));
    let Verdict::DoesNotRun(problem) = check(dir.path()).verdict else { panic!("it is not a number") };
    assert!(problem.contains("`hidden_dim`"), "{problem}");
    assert_eq!(open(dir.path()).unwrap_err().to_string(), problem);
    // In the folder of a StaticEmbedding it is not the table's.
    let dir = copy_of("static-embedding-tiny");
    write_json(&dir.path().join("config.json"), &json!({"model_type": "distilbert", "hidden_dim": 3072}));
    assert!(open(dir.path()).unwrap().capabilities.warnings.is_empty());
}

#[test]
fn labels_of_the_same_name_are_told() {
    for name in ["bert-ner-tiny", "distilbert-nli-tiny"] {
        let dir = copy_of(name);
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        config["id2label"]["1"] = config["id2label"]["0"].clone();
        write_json(&path, &config);
        let Verdict::RunsBut(notes) = check(dir.path()).verdict else { panic!("{name}") };
        assert!(notes.iter().any(|note| note.contains("the labels 0 and 1 are both")), "{notes:?}");
    }
}

#[test]
fn adapters_that_the_config_does_not_name_are_told() {
    let dir = copy_of("jina-v3-tiny");
    config("/lora_adaptations", json!([])).apply(dir.path());
    let Verdict::RunsBut(notes) = check(dir.path()).verdict else { panic!("they are ignored") };
    assert!(notes.iter().any(|note| note.contains("lora_adaptations") && note.contains("lora_A")), "{notes:?}");
    assert_eq!(open(dir.path()).unwrap().capabilities.warnings, notes);
}

#[test]
fn a_table_is_no_reranker_in_words_of_its_own() {
    let source = || ModelSource::Path(super::fixture("model2vec-tiny"));
    let asked = LoadOptions { task: Some(prefold_core::Task::Rerank), ..options(source()) };
    let Verdict::DoesNotRun(problem) = check_model(&asked).verdict else { panic!("a table cannot") };
    assert!(problem.contains("static embedding") && !problem.contains("Qwen3"), "{problem}");
}

#[test]
fn half_a_model_is_refused() {
    for (missing, left) in [("model.safetensors", "tokenizer.json"), ("tokenizer.json", "model.safetensors")] {
        for (name, folder) in
            [("bert-mean-tiny", ""), ("model2vec-tiny", ""), ("static-embedding-tiny", "0_StaticEmbedding")]
        {
            let dir = copy_of(name);
            fs::remove_file(dir.path().join(folder).join(missing)).unwrap();
            let Verdict::DoesNotRun(problem) = check(dir.path()).verdict else { panic!("{name}: {left} is enough") };
            assert!(problem.contains(missing), "{problem}");
        }
    }
}

#[test]
fn what_the_configuration_lacks_is_refused() {
    let dir = bare("bert-mean-tiny");
    config("/model_type", json!("longt5")).apply(dir.path());
    assert!(matches!(check(dir.path()).verdict, Verdict::DoesNotRun(problem) if problem.contains("longt5")));
}

#[test]
fn weights_in_other_formats_are_named_where_there_are_no_others() {
    let dir = copy_of("bert-mean-tiny");
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    fs::create_dir(dir.path().join("onnx")).unwrap();
    fs::write(dir.path().join("onnx/model.onnx"), "x").unwrap();
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(
        refused.contains("has no model.safetensors nor pytorch_model.bin, but onnx/model.onnx (ONNX)"),
        "{refused}"
    );
}

#[test]
fn weights_under_another_name_are_refused_with_the_field_that_names_them() {
    let words = "`transformers_weights` \"tide.safetensors\" is not supported (model.safetensors: rename the file and remove the field)";
    for has_both in [false, true] {
        let dir = copy_of("bert-mean-tiny");
        config("/transformers_weights", json!("tide.safetensors")).apply(dir.path());
        fs::copy(dir.path().join("model.safetensors"), dir.path().join("tide.safetensors")).unwrap();
        if !has_both {
            fs::remove_file(dir.path().join("model.safetensors")).unwrap();
        }
        let refused = open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(words), "{refused}");
    }
    let dir = copy_of("bert-mean-tiny");
    config("/transformers_weights", json!("model.safetensors")).apply(dir.path());
    assert!(open(dir.path()).is_ok());
}

#[test]
fn a_licence_is_absent_only_from_a_card_that_was_read() {
    let dir = bare("bert-mean-tiny");
    assert_eq!(check(dir.path()).licence, Licence::Unread);
    fs::write(dir.path().join("README.md"), "# A model\n").unwrap();
    assert_eq!(check(dir.path()).licence, Licence::NotNamed);
    fs::write(dir.path().join("README.md"), "---\nlicense: mit\n---\n").unwrap();
    assert_eq!(check(dir.path()).licence, Licence::Named("mit".to_owned()));
    assert_eq!(check(&dir.path().join("none")).licence, Licence::Unread);
}
