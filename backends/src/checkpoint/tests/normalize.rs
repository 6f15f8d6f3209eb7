//! Whether a model's own modules scale vectors to unit length, by task.

use super::{copy_of, fixture, open, read_json, write_json};
use crate::checkpoint::Checkpoint;
use crate::options::ModelSource;
use serde_json::json;
use std::path::Path;

/// Of texts without a task, and of those of each task.
fn normalizes(path: &Path) -> (bool, Vec<bool>) {
    let parts = Checkpoint::open_all(&super::options(ModelSource::Path(path.to_owned()))).unwrap();
    let embed = parts[0].capabilities.embed.as_ref().unwrap();
    (embed.normalizes, embed.adapters.iter().map(|task| task.normalizes).collect())
}

#[test]
fn modules_that_end_with_normalize_give_unit_vectors() {
    for (name, expected) in [
        ("qwen3-tiny", (true, vec![])),
        ("llama-tiny", (false, vec![])),
        ("model2vec-tiny", (true, vec![])),
        ("jina-v3-tiny", (true, vec![true; 5])),
        ("asym-tiny", (false, vec![false; 2])),
        ("router-encoders-tiny", (true, vec![true; 2])),
        ("router-static-tiny", (false, vec![false; 2])),
    ] {
        assert_eq!(normalizes(&fixture(name)), expected, "{name}");
    }
}

/// The Router has the routes `query` and `document`, of which the latter is the default.
#[test]
fn a_normalize_may_be_of_one_route() {
    for (route, expected) in [("query", (false, vec![true, false])), ("document", (true, vec![false, true]))] {
        let dir = copy_of("router-encoders-tiny");
        let modules = json!([{"path": "", "type": "sentence_transformers.models.Router"}]);
        write_json(&dir.path().join("modules.json"), &modules);
        let path = dir.path().join("router_config.json");
        let mut router = read_json(&path);
        router["types"]["normalize"] = json!("sentence_transformers.models.Normalize");
        router["structure"][route].as_array_mut().unwrap().push(json!("normalize"));
        write_json(&path, &router);
        assert_eq!(normalizes(dir.path()), expected, "{route}");
    }
}

#[test]
fn a_folder_without_modules_has_no_normalize() {
    let dir = copy_of("bert-mean-tiny");
    std::fs::remove_file(dir.path().join("modules.json")).unwrap();
    assert!(!open(dir.path()).unwrap().capabilities.embed.as_ref().unwrap().normalizes);
}
