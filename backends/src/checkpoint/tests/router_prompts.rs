//! Prompts of a Router's tasks, as sentence-transformers takes them.

use super::{copy_of, options, write_json};
use crate::options::ModelSource;
use prefold_core::TaskProfile;
use serde_json::{Value, json};

/// The tasks of a Router of two models with routes `query`, `document` and `doc`, with these prompts, and a pooling for queries that leaves
/// prompts out or not.
fn tasks(prompts: &Value, includes_prompts: bool) -> Vec<TaskProfile> {
    let dir = copy_of("router-encoders-tiny");
    let documents = json!(["document_0_Transformer", "document_1_Pooling"]);
    let structure = json!({"query": ["query_0_Transformer", "query_1_Pooling", "query_2_Dense"],
        "document": documents, "doc": documents});
    let mut router = super::read_json(&dir.path().join("router_config.json"));
    router["structure"] = structure;
    write_json(&dir.path().join("router_config.json"), &router);
    write_json(&dir.path().join("config_sentence_transformers.json"), prompts);
    let path = dir.path().join("query_1_Pooling/config.json");
    let mut pooling = super::read_json(&path);
    pooling["include_prompt"] = json!(includes_prompts);
    write_json(&path, &pooling);
    let model = crate::load(&options(ModelSource::Path(dir.path().to_owned()))).unwrap();
    let embed = model.backend.info().capabilities.embed.clone();
    embed.unwrap().tasks
}

#[test]
fn a_task_has_the_prompt_that_sentence_transformers_takes() {
    let all = json!({"query": "q: ", "passage": "p: ", "doc": "d: ", "x": "x: "});
    let config = json!({"prompts": all, "default_prompt_name": "x"});
    let found = tasks(&config, true);
    let instructions: Vec<(&str, &str)> = found.iter().map(|it| (&*it.task, &*it.instruction)).collect();
    assert_eq!(instructions, [("doc", "x: "), ("document", "p: "), ("query", "q: ")]);
    let found = tasks(&json!({"prompts": {"x": "x: "}, "default_prompt_name": "x"}), true);
    let instructions: Vec<&str> = found.iter().map(|it| &*it.instruction).collect();
    assert_eq!(instructions, ["x: ", "", ""]);
}

#[test]
fn each_part_says_whether_its_pooling_leaves_prompts_out() {
    let excludes = |includes| tasks(&json!({}), includes).iter().map(|it| it.excludes_prompts).collect::<Vec<_>>();
    assert_eq!(excludes(true), [false, false, false]);
    assert_eq!(excludes(false), [false, false, true]);
}
