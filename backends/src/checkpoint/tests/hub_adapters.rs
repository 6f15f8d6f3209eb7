//! LoRA adapters on the hub, whose base is another repository.

use super::adapters::{QUERY, lora};
use super::hub::{Hub, model, open, repository};
use super::{TempDir, options, read_tensors, write_tensors};
use crate::options::ModelSource;
use serde_json::json;
use std::fs;

/// A repository with an adapter of `owner/base` and, if `merged`, another model's config and weights.
fn adapter(base: &str, merged: bool) -> Hub {
    let mut behaviour = repository("bert-mean-tiny");
    behaviour.base = repository("bert-mean-tiny").files;
    let settings = json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["query"],
        "base_model_name_or_path": base});
    let file = TempDir::new().unwrap();
    let path = file.path().join("model.safetensors");
    write_tensors(&path, &lora(QUERY, [32, 32], 1).into_iter().collect());
    behaviour.files.insert("adapter_config.json".to_owned(), settings.to_string().into_bytes());
    behaviour.files.insert("adapter_model.safetensors".to_owned(), fs::read(&path).unwrap());
    if merged {
        fs::write(&path, &behaviour.base["model.safetensors"]).unwrap();
        let mut tensors = read_tensors(&path);
        tensors.values_mut().for_each(|tensor| tensor.bytes.fill(0));
        write_tensors(&path, &tensors);
        behaviour.files.insert("model.safetensors".to_owned(), fs::read(&path).unwrap());
        behaviour.files.insert("config.json".to_owned(), br#"{"model_type": "another"}"#.to_vec());
    } else {
        for name in ["config.json", "model.safetensors", "pytorch_model.bin"] {
            behaviour.files.remove(name);
        }
    }
    Hub::start(behaviour)
}

#[test]
fn the_base_is_the_repository_that_the_adapter_names_even_beside_merged_weights() {
    let weight = format!("bert.{QUERY}.weight");
    let read = |merged: bool| {
        let (hub, cache) = (adapter("owner/base", merged), TempDir::new().unwrap());
        let checkpoint = open(model(&hub.endpoint, cache.path())).unwrap();
        let warnings = checkpoint.capabilities.warnings.join("\n");
        assert!(warnings.contains("\"owner/base\""), "{warnings}");
        assert_eq!(merged, warnings.contains("not the repository's own config.json and weights"), "{warnings}");
        assert!(!hub.lines().iter().any(|line| line.contains("owner/tiny") && line.contains("/model.safetensors")));
        // Once more without the hub.
        let mut offline = model(&hub.endpoint, cache.path());
        offline.offline = true;
        open(offline).unwrap();
        checkpoint.weights.read::<f32>(&weight, &[32, 32]).unwrap()
    };
    assert_eq!(read(true), read(false));
}

#[test]
fn an_adapter_on_the_hub_names_no_folder_and_is_not_checked_without_its_base() {
    let folder = super::fixture("bert-mean-tiny").canonicalize().unwrap();
    let (hub, cache) = (adapter(folder.to_str().unwrap(), true), TempDir::new().unwrap());
    let refused = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(refused.contains("base_model_name_or_path") && refused.contains("no repository"), "{refused}");
    let found = crate::check_model(&options(ModelSource::Hub(model(&hub.endpoint, cache.path())))).verdict;
    assert!(matches!(&found, crate::Verdict::Unknown(problem) if problem.contains("adapter_config.json")), "{found:?}");
}
