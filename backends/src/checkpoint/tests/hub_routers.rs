//! Downloads of models whose texts go through the modules of their task.

use super::hub::{Behaviour, COMMIT, Hub, model, repository};
use super::{fixture, options};
use crate::checkpoint::Checkpoint;
use crate::options::ModelSource;
use serde_json::json;
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Files of the repository that are fetched.
fn fetched(hub: &Hub) -> Vec<String> {
    let lines = hub.lines();
    let prefix = format!("GET /owner/tiny/resolve/{COMMIT}/");
    let files = lines.iter().filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next());
    let mut files: Vec<String> = files.map(str::to_owned).collect();
    files.sort_unstable();
    files
}

/// The fixture with files beside those that are read.
fn with_others(name: &str, folder: &str) -> Behaviour {
    let mut behaviour = repository(name);
    for file in ["onnx/model.onnx", "onnx/config.json", "pytorch_model.bin", "vocab.txt", "README.md"] {
        behaviour.files.insert(format!("{folder}/{file}"), b"not needed".to_vec());
    }
    behaviour.files.insert("openvino_1/model.safetensors".to_owned(), b"not needed".to_vec());
    behaviour
}

fn source(hub: &Hub, cache: &TempDir) -> ModelSource {
    ModelSource::Hub(model(&hub.endpoint, cache.path()))
}

#[test]
fn the_folders_of_all_routes_are_downloaded_and_nothing_else() {
    let (hub, cache) =
        (Hub::start(with_others("router-encoders-tiny", "document_0_Transformer")), TempDir::new().unwrap());
    let found = Checkpoint::open_all(&options(source(&hub, &cache))).unwrap();
    let expected = Checkpoint::open_all(&options(ModelSource::Path(fixture("router-encoders-tiny")))).unwrap();
    let told = |parts: &[Checkpoint]| -> Vec<_> {
        parts.iter().map(|part| (part.part.clone(), part.config.clone(), part.capabilities.clone())).collect()
    };
    assert_eq!(told(&found), told(&expected));
    let of = |folder: &str, files: &[&str]| files.iter().map(|file| format!("{folder}{file}")).collect::<Vec<_>>();
    let encoder =
        ["config.json", "model.safetensors", "sentence_bert_config.json", "tokenizer.json", "tokenizer_config.json"];
    let needed = [
        of("1_Normalize/", &["config.json"]),
        of("", &["config_sentence_transformers.json"]),
        of("document_0_Transformer/", &encoder),
        of("document_1_Pooling/", &["config.json"]),
        of("", &["modules.json"]),
        of("query_0_Transformer/", &encoder),
        of("query_1_Pooling/", &["config.json"]),
        of("query_2_Dense/", &["config.json", "model.safetensors"]),
        of("", &["router_config.json"]),
    ];
    assert_eq!(fetched(&hub), needed.concat());
}

#[test]
fn a_check_and_a_summary_leave_the_weights_of_all_routes() {
    let (hub, cache) =
        (Hub::start(with_others("router-encoders-tiny", "query_0_Transformer")), TempDir::new().unwrap());
    let summary = crate::model_summary(&source(&hub, &cache), None).unwrap();
    assert_eq!((summary.model_type.as_str(), summary.capabilities.max_input_length), ("xlm-roberta", 48));
    assert!(!fetched(&hub).iter().any(|file| file.contains("safetensors")), "{:?}", fetched(&hub));
    let found = crate::check_model(&options(source(&hub, &cache)));
    let local = crate::check_model(&options(ModelSource::Path(fixture("router-encoders-tiny")))).model.unwrap();
    assert_eq!(found.verdict, crate::Verdict::Runs);
    let found = found.model.unwrap();
    assert_eq!((found.parameters, &found.memory, &found.family), (local.parameters, &local.memory, &local.family));
    let snapshot = cache.path().join("models--owner--tiny/snapshots").join(COMMIT);
    assert!(snapshot.join("query_0_Transformer/config.json").exists());
    assert!(!snapshot.join("query_0_Transformer/model.safetensors").exists());
}

#[test]
fn tables_shards_and_older_routers_are_downloaded() {
    let mut behaviour = with_others("router-static-tiny", "query_0_StaticEmbedding");
    let folder = "document_0_Transformer";
    let weights = behaviour.files.remove(&format!("{folder}/model.safetensors")).unwrap();
    let names = super::read_tensors(&fixture("router-static-tiny").join(folder).join("model.safetensors")).into_keys();
    let weight_map: BTreeMap<String, &str> = names.map(|name| (name, "model-00001-of-00001.safetensors")).collect();
    let index = json!({"weight_map": weight_map}).to_string().into_bytes();
    behaviour.files.insert(format!("{folder}/model.safetensors.index.json"), index);
    behaviour.files.insert(format!("{folder}/model-00001-of-00001.safetensors"), weights);
    for behaviour in [behaviour, with_others("asym-tiny", "2_Asym/140266138126480_Dense")] {
        let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
        let check = crate::check_model(&options(source(&hub, &cache)));
        assert_eq!(check.verdict, crate::Verdict::Runs);
        Checkpoint::open_all(&options(source(&hub, &cache))).unwrap();
        for other in ["onnx", "README", "openvino", "vocab.txt", "pytorch"] {
            assert!(!fetched(&hub).iter().any(|file| file.contains(other)), "{other}: {:?}", fetched(&hub));
        }
    }
}

#[test]
fn a_repository_without_a_file_of_a_route_is_refused() {
    for (removed, words) in [
        ("query_0_Transformer/tokenizer.json", "cannot get query_0_Transformer/tokenizer.json"),
        ("document_0_Transformer/model.safetensors", "cannot get document_0_Transformer/model.safetensors"),
        ("router_config.json", "cannot get router_config.json"),
    ] {
        let mut behaviour = repository("router-encoders-tiny");
        behaviour.files.remove(removed);
        let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
        let message = Checkpoint::open_all(&options(source(&hub, &cache))).unwrap_err().to_string();
        assert!(message.contains(words) && message.contains("no such file"), "{message}");
    }
}
