//! Static embeddings on the hub: their files are in a module's folder without a `config.json`.

use super::hub::{COMMIT, Hub, model, open, repository};
use super::{Stored, copy_of, fixture, options, read_json, write_json, write_tensors};
use crate::check::{Verdict, check_model};
use crate::options::{HubModel, ModelSource};
use prefold_core::Task;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

#[test]
fn a_table_in_a_folder_is_downloaded_and_checked_before() {
    let (hub, cache) = (Hub::start(repository("static-embedding-tiny")), TempDir::new().unwrap());
    let source = || HubModel { token: None, ..model(&hub.endpoint, cache.path()) };
    let check = check_model(&options(ModelSource::Hub(source())));
    assert_eq!(check.verdict, Verdict::Runs);
    let table = format!("GET /owner/tiny/resolve/{COMMIT}/0_StaticEmbedding/model.safetensors ");
    assert!(hub.lines().iter().filter(|line| line.starts_with(&table)).count() == 2, "ranges of the header");
    let checkpoint = open(source()).unwrap();
    let expected = super::open(fixture("static-embedding-tiny")).unwrap();
    assert_eq!((&checkpoint.config, &checkpoint.capabilities), (&expected.config, &expected.capabilities));
    assert_eq!(check.model.unwrap().capabilities, *expected.capabilities);
    let offline = open(HubModel { offline: true, ..source() }).unwrap();
    assert_eq!(offline.config, expected.config);
}

/// Newer versions of sentence-transformers write the first module there.
#[test]
fn a_table_at_the_top_needs_no_config() {
    let mut behaviour = repository("static-embedding-tiny");
    for file in ["model.safetensors", "tokenizer.json"] {
        let bytes = behaviour.files.remove(&format!("0_StaticEmbedding/{file}")).unwrap();
        behaviour.files.insert(file.to_owned(), bytes);
    }
    let modules = behaviour.files.get_mut("modules.json").unwrap();
    *modules = String::from_utf8(modules.clone()).unwrap().replace("\"0_StaticEmbedding\"", "\"\"").into_bytes();
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    let source = || ModelSource::Hub(model(&hub.endpoint, cache.path()));
    assert_eq!(check_model(&options(source())).verdict, Verdict::Runs);
    assert_eq!(crate::model_summary(&source(), None).unwrap().model_type, "static_embedding");
    let expected = super::open(fixture("static-embedding-tiny")).unwrap();
    assert_eq!(open(model(&hub.endpoint, cache.path())).unwrap().config, expected.config);
}

#[test]
fn a_summary_needs_no_weights_where_the_config_has_the_width() {
    let (hub, cache) = (Hub::start(repository("model2vec-tiny")), TempDir::new().unwrap());
    let summary = crate::model_summary(&ModelSource::Hub(model(&hub.endpoint, cache.path())), None).unwrap();
    assert!(!hub.lines().iter().any(|line| line.contains("model.safetensors")));
    assert_eq!((summary.shape.hidden_size, summary.vocab_size), (24, 459));
    assert_eq!(summary.capabilities.tasks().collect::<Vec<_>>(), [Task::Embed, Task::Rerank]);
}

#[test]
fn a_repository_without_config_is_otherwise_a_gguf_file_or_none() {
    let mut behaviour = repository("static-embedding-tiny");
    behaviour.files.insert(
        "modules.json".to_owned(),
        br#"[{"type": "sentence_transformers.models.CLIPModel", "path": ""}]"#.to_vec(),
    );
    let (hub, cache) = (Hub::start(behaviour), TempDir::new().unwrap());
    let error = open(model(&hub.endpoint, cache.path())).unwrap_err();
    assert!(error.contains("config.json"), "{error}");
}

#[test]
fn inputs_are_as_long_as_the_config_of_model2vec_says() {
    let longest = |length: Value| {
        let dir = copy_of("model2vec-tiny");
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        config["max_length"] = length;
        write_json(&path, &config);
        super::open(dir.path()).unwrap().capabilities.max_input_length
    };
    for length in [1, 20, 64, 512, 100_000] {
        assert_eq!(longest(json!(length)), length);
    }
    assert_eq!(longest(json!(null)), 1 << 17);
}

/// A table of two rows with Model2Vec's tensors of the row and the factor of each token.
#[test]
fn rows_and_factors_of_tokens_fit_the_table() {
    let of_i32 = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let of_f64 = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let tokens = 445;
    let message = |last: i32, factors: usize| {
        let dir = copy_of("static-embedding-tiny");
        let mut rows = vec![1; tokens];
        rows[tokens - 1] = last;
        let tensors = BTreeMap::from([
            ("embedding.weight".to_owned(), Stored { dtype: Dtype::F32, shape: vec![2, 4], bytes: vec![0; 32] }),
            ("mapping".to_owned(), Stored { dtype: Dtype::I32, shape: vec![tokens], bytes: of_i32(&rows) }),
            (
                "weights".to_owned(),
                Stored { dtype: Dtype::F64, shape: vec![factors], bytes: of_f64(&vec![1.0; factors]) },
            ),
        ]);
        write_tensors(&dir.path().join("0_StaticEmbedding/model.safetensors"), &tensors);
        super::open(dir.path()).map_or_else(|error| error.to_string(), |_| String::new())
    };
    assert_eq!(message(0, tokens), "");
    for row in [2, -1] {
        assert!(message(row, tokens).contains("`mapping` must have values from 0 to 1"), "{}", message(row, tokens));
    }
    let message = message(0, tokens - 1);
    assert!(message.contains("`weights`") && message.contains("[444]") && message.contains("[445]"), "{message}");
}
