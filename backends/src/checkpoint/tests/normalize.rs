//! Unit vectors by a model's own modules, by task.

use super::{copy_of, fixture, open, read_json, write_json};
use crate::checkpoint::Checkpoint;
use crate::options::ModelSource;
use serde_json::json;
use std::path::Path;

/// `true` if the vectors of texts without a task are scaled; the tasks whose vectors are, and those whose are not.
fn normalizes(path: &Path) -> (bool, [Vec<String>; 2]) {
    let sub_models = Checkpoint::open_all(&super::options(ModelSource::Path(path.to_owned()))).unwrap();
    let embed = sub_models[0].capabilities.embed.as_ref().unwrap();
    let tasks = |scaled| embed.tasks.iter().filter(move |it| it.normalizes == scaled).map(|it| it.task.clone());
    (embed.normalizes, [true, false].map(|scaled| tasks(scaled).collect()))
}

#[test]
fn modules_that_end_with_normalize_give_unit_vectors() {
    for (name, expected) in [
        ("qwen3-tiny", (true, [0, 0])),
        ("llama-tiny", (false, [0, 0])),
        ("model2vec-tiny", (true, [0, 0])),
        ("jina-v3-tiny", (true, [5, 0])),
        ("asym-tiny", (false, [0, 2])),
        ("router-encoders-tiny", (true, [2, 0])),
        ("router-static-tiny", (false, [0, 2])),
    ] {
        let (own, tasks) = normalizes(&fixture(name));
        assert_eq!((own, tasks.map(|tasks| tasks.len())), expected, "{name}");
    }
}

/// The Router has the routes `query` and `document`, of which the latter is the default.
#[test]
fn a_normalize_may_be_of_one_route() {
    for (route, other, of_default) in [("query", "document", false), ("document", "query", true)] {
        let dir = copy_of("router-encoders-tiny");
        let modules = json!([{"path": "", "type": "sentence_transformers.models.Router"}]);
        write_json(&dir.path().join("modules.json"), &modules);
        let path = dir.path().join("router_config.json");
        let mut router = read_json(&path);
        router["types"]["normalize"] = json!("sentence_transformers.models.Normalize");
        router["structure"][route].as_array_mut().unwrap().push(json!("normalize"));
        write_json(&path, &router);
        assert_eq!(normalizes(dir.path()), (of_default, [route, other].map(|task| vec![task.to_owned()])), "{route}");
    }
}

#[test]
fn a_folder_without_modules_has_no_normalize() {
    let dir = copy_of("bert-mean-tiny");
    std::fs::remove_file(dir.path().join("modules.json")).unwrap();
    assert!(!open(dir.path()).unwrap().capabilities.embed.as_ref().unwrap().normalizes);
}
