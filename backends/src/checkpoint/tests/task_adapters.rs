//! Adapters of tasks in folders of their own, as in jina-embeddings-v5.

use super::configs::config_with;
use super::refusals::Change::{Delete, Set};
use super::refusals::{Change, check, config};
use super::{Stored, copy_of, fixture, open, read_json, read_tensors, write_json, write_tensors};
use crate::config::{MaskConfig, PositionsConfig};
use crate::formats::Weights;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

const MODELS: [&str; 2] = ["jina-v5-small-tiny", "jina-v5-nano-tiny"];

fn adapter(pointer: &'static str, value: Value) -> Change {
    Set("adapters/clustering/adapter_config.json", pointer, value)
}

/// Edits the tensors of an adapter.
fn edit(dir: &TempDir, change: impl FnOnce(&mut BTreeMap<String, Stored>)) {
    let path = dir.path().join("adapters/clustering/adapter_model.safetensors");
    let mut tensors = read_tensors(&path);
    change(&mut tensors);
    write_tensors(&path, &tensors);
}

#[test]
fn rank_and_scale_of_the_adapters_configs() {
    for (name, mask) in MODELS.into_iter().zip([MaskConfig::Causal, MaskConfig::Full]) {
        let checkpoint = open(fixture(name)).unwrap();
        let adapters = checkpoint.config.adapters.as_ref().unwrap();
        assert_eq!(
            (adapters.names.len(), adapters.rank, adapters.scale, adapters.default),
            (4, 3, 2.0, Some(1)),
            "{name}"
        );
        assert_eq!(checkpoint.config.attention.mask, mask, "{name}");
        assert!(matches!(checkpoint.config.positions, PositionsConfig::Rotary(_)), "{name}");
        assert!(matches!(checkpoint.weights, Weights::ByTask(_)), "{name}");
        // q, k and v have adapters of their own.
        assert_eq!(checkpoint.config.adapter_columns(), 3 * 4 * 3, "{name}");
    }
    // The config of text-nano may name EuroBERT's type.
    let named = config_with("jina-v5-nano-tiny", &[("model_type", json!("eurobert"))]);
    assert_eq!(named.adapters, config_with("jina-v5-nano-tiny", &[]).adapters);
}

#[test]
fn adapters_that_cannot_be_served_are_refused() {
    let names = |names: Value| config("/task_names", names);
    let many: Vec<String> = (0..65).map(|i| format!("task{i}")).collect();
    let long = "x".repeat(129);
    for name in MODELS {
        check(vec![
            (name, Delete("adapters/clustering/adapter_config.json"), &["adapters/clustering/adapter_config.json"]),
            (name, Delete("adapters/clustering/adapter_model.safetensors"), &["adapters/clustering/", "task_names"]),
            (name, adapter("/r", json!(4)), &["adapters/clustering/adapter_config.json", "another rank or scale"]),
            (name, adapter("/lora_alpha", json!(3)), &["another rank or scale"]),
            (name, adapter("/use_dora", json!(true)), &["use_dora"]),
            (name, adapter("/modules_to_save", json!(["norm"])), &["`modules_to_save`", "nothing else"]),
            (name, names(json!(["text-matching"])), &["`task_names` must have the task \"retrieval\""]),
            (name, names(json!(["retrieval", "retrieval"])), &["has `retrieval` as task 1"]),
            (name, names(json!(["retrieval", "../other"])), &["\"../other\"", "no name of a folder"]),
            (name, names(json!(["retrieval", "other"])), &["adapters/other/adapter_config.json"]),
            (name, names(json!(["retrieval", long])), &["129 bytes, the limit is 128"]),
            (name, names(json!(many)), &["has 65 tasks, the limit is 64"]),
        ]);
    }
}

#[test]
fn tensors_of_an_adapter_that_the_model_has_no_place_for_are_refused() {
    const PREFIX: &str = "base_model.model.";
    const QUERY: &str = "layers.1.self_attn.q_proj.lora_A.weight";
    for (from, to, words) in [
        (QUERY, "embed_tokens.lora_embedding_A", "lora_embedding_A"),
        (QUERY, "layers.1.self_attn.other.lora_A.weight", "layers.1.self_attn.q_proj.lora_A.weight"),
    ] {
        let dir = copy_of("jina-v5-small-tiny");
        edit(&dir, |tensors| {
            let tensor = tensors.remove(&format!("{PREFIX}{from}")).unwrap();
            tensors.insert(format!("{PREFIX}{to}"), tensor);
        });
        let refused = open(dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("adapters/clustering/adapter_model.safetensors") && refused.contains(words),
            "{refused}"
        );
    }
    let dir = copy_of("jina-v5-small-tiny");
    edit(&dir, |tensors| {
        let tensor = tensors[&format!("{PREFIX}{QUERY}")].clone();
        tensors.insert(format!("{PREFIX}layers.7.self_attn.q_proj.lora_A.weight"), tensor);
    });
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("LoRA of 15 modules") && refused.contains("up to 14, the matrices"), "{refused}");
}

#[test]
fn the_module_that_pools_is_the_only_one() {
    let dir = copy_of("jina-v5-small-tiny");
    let path = dir.path().join("modules.json");
    let mut list = read_json(&path);
    let normalize = json!({"idx": 1, "name": "1", "path": "", "type": "sentence_transformers.models.Normalize"});
    list.as_array_mut().unwrap().push(normalize);
    write_json(&path, &list);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("Normalize after custom_st.Transformer"), "{refused}");
    // Without adapters the class is not known.
    let dir = copy_of("pplx-tiny");
    std::fs::copy(fixture("jina-v5-small-tiny").join("modules.json"), dir.path().join("modules.json")).unwrap();
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("the class custom_st.Transformer"), "{refused}");
}
