//! Downloads of models whose texts go through the modules of their task.

use super::hub::{Behaviour, COMMIT, Hub, model, repository};
use super::vocab_txt::vocab_txt;
use super::{fixture, options};
use crate::checkpoint::Checkpoint;
use crate::options::{LoadOptions, ModelSource};
use prefold_core::Pooling;
use serde_json::{Value, json};
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

/// The fixture with additional files that are not read.
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
    let told = |sub_models: &[Checkpoint]| -> Vec<_> {
        sub_models.iter().map(|it| (it.sub_model.clone(), it.config.clone(), it.capabilities.clone())).collect()
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

/// A fixture whose router has another structure and other parameters.
fn routed(name: &str, structure: Value, parameters: Value) -> Behaviour {
    let mut behaviour = repository(name);
    let file = behaviour.files.get_mut("router_config.json").unwrap();
    let mut config: Value = serde_json::from_slice(file).unwrap();
    config["structure"] = structure;
    config["parameters"] = parameters;
    for (id, class) in [("image_0_Transformer", "Transformer"), ("other_1_Pooling", "Pooling")] {
        config["types"][id] = json!(format!("sentence_transformers.models.{class}"));
    }
    *file = config.to_string().into_bytes();
    let pooling = json!({"pooling_mode": "cls"}).to_string();
    behaviour.files.insert("other_1_Pooling/config.json".to_owned(), pooling.into_bytes());
    behaviour
}

const QUERY: [&str; 3] = ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"];
const DOCUMENT: [&str; 2] = ["document_0_Transformer", "document_1_Pooling"];

#[test]
fn parts_of_one_folder_share_the_headers_of_its_tensors() {
    let structure = json!({"a": QUERY, "b": [QUERY[0], "other_1_Pooling", QUERY[2]]});
    let (hub, cache) = (Hub::start(routed("router-encoders-tiny", structure, json!({}))), TempDir::new().unwrap());
    let check = crate::check_model(&options(source(&hub, &cache)));
    assert_eq!(check.verdict, crate::Verdict::Runs);
    let folder = fixture("router-encoders-tiny").join(QUERY[0]);
    let values: usize =
        super::read_tensors(&folder.join("model.safetensors")).values().map(|it| it.values().len()).sum();
    let model = check.model.unwrap();
    assert_eq!((model.parameters, model.stored_dtype.as_deref()), (Some(values as u64), Some("float32")));
    assert_eq!(Checkpoint::open_all(&options(source(&hub, &cache))).unwrap().len(), 2);
}

#[test]
fn a_summary_downloads_at_most_the_table_of_the_default_route() {
    for (default, model_type, weights) in [
        ("query", "static_embedding", vec!["query_0_StaticEmbedding/model.safetensors"]),
        ("document", "xlm-roberta", vec![]),
    ] {
        let structure = json!({"query": ["query_0_StaticEmbedding"], "document": DOCUMENT});
        let behaviour = routed("router-static-tiny", structure, json!({"default_route": default}));
        let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
        let summary = crate::model_summary(&source(&hub, &cache), None).unwrap();
        let local = Checkpoint::open_all(&options(source(&hub, &TempDir::new().unwrap()))).unwrap().remove(0);
        assert_eq!((summary.model_type.as_str(), summary.vocab_size), (model_type, local.config.vocab_size));
        let (hub, cache) = (Hub::start(hub.behaviour.lock().unwrap().clone()), TempDir::new().unwrap());
        crate::model_summary(&source(&hub, &cache), None).unwrap();
        let found: Vec<String> = fetched(&hub).into_iter().filter(|file| file.contains("model.")).collect();
        assert_eq!(found, weights, "{default}");
    }
}

/// As in a folder, where a route of images needs no tokenizer.
#[test]
fn routes_that_no_text_reaches_are_not_downloaded() {
    let structure = json!({"text": QUERY, "image": ["image_0_Transformer", "other_1_Pooling"]});
    let mut behaviour =
        routed("router-encoders-tiny", structure, json!({"route_mappings": {"(None, 'text')": "text"}}));
    for file in ["config.json", "model.safetensors"] {
        behaviour.files.insert(format!("image_0_Transformer/{file}"), b"not needed".to_vec());
    }
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    assert_eq!(Checkpoint::open_all(&options(source(&hub, &cache))).unwrap().len(), 1);
    assert_eq!(crate::check_model(&options(source(&hub, &cache))).verdict, crate::Verdict::Runs);
    let other = ["image", "document", "other"];
    assert!(!fetched(&hub).iter().any(|file| other.iter().any(|name| file.starts_with(name))), "{:?}", fetched(&hub));
}

/// With options that overrule the list, as in a folder.
#[test]
fn routers_of_other_libraries_and_malformed_ones_are_left_out() {
    let module = |class: &str| json!([{"path": "", "type": class}]).to_string().into_bytes();
    let malformed = || json!({"structure": []}).to_string().into_bytes();
    for (class, words) in [
        ("custom_st.Router", "modules.json: the class custom_st.Router"),
        ("sentence_transformers.models.Router", "router_config.json: `structure` must be an object"),
    ] {
        for with_folder in [false, true] {
            let mut behaviour = repository("bert-mean-tiny");
            behaviour.files.insert("modules.json".to_owned(), module(class));
            behaviour.files.insert("router_config.json".to_owned(), malformed());
            if with_folder {
                behaviour.files.insert("onnx/tokenizer.json".to_owned(), b"not needed".to_vec());
            }
            let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
            let refused = Checkpoint::open_all(&options(source(&hub, &cache))).unwrap_err().to_string();
            assert!(refused.starts_with(words), "{refused}");
            let pooled = LoadOptions { pooling: Some(Pooling::Mean), ..options(source(&hub, &cache)) };
            assert_eq!(Checkpoint::open_all(&pooled).unwrap().len(), 1);
        }
    }
}

#[test]
fn a_vocabulary_takes_the_place_of_a_tokenizer_in_a_folder_too() {
    let mut behaviour = routed("router-encoders-tiny", json!({"query": QUERY}), json!({}));
    behaviour.files.retain(|file, _| !file.ends_with("tokenizer.json"));
    let (hub, cache) = (Hub::start(behaviour.clone()), TempDir::new().unwrap());
    let vocabulary = vocab_txt(&fixture("router-encoders-tiny").join(QUERY[0])).into_bytes();
    hub.behaviour.lock().unwrap().files.insert(format!("{}/vocab.txt", QUERY[0]), vocabulary);
    let found = Checkpoint::open_all(&options(source(&hub, &cache))).unwrap();
    assert_eq!(found[0].tokenizer.token_to_id("[CLS]").map(|id| id > 0), Some(true));
    // One that none is made from is named.
    behaviour.files.insert(format!("{}/spiece.model", QUERY[0]), vec![]);
    *hub.behaviour.lock().unwrap() = behaviour;
    let problem = Checkpoint::open_all(&options(source(&hub, &cache))).unwrap_err().to_string();
    assert!(problem.contains("query_0_Transformer/tokenizer.json") && problem.contains("spiece.model"), "{problem}");
}
