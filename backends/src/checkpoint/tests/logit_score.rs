//! Rerankers as sentence-transformers writes them: a LogitScore module after the language model.

use super::hub::{self, Hub};
use super::{copy_of, fixture, open, options, read_json, write_json};
use crate::checkpoint::{Checkpoint, HeadSource};
use crate::options::{LoadOptions, ModelSource};
use prefold_core::{RerankRecipe, Task};
use serde_json::{Value, json};
use tempfile::TempDir;

fn modules() -> Value {
    json!([
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {"idx": 1, "name": "1", "path": "1_LogitScore",
         "type": "sentence_transformers.cross_encoder.modules.logit_score.LogitScore"},
    ])
}

/// A checkpoint with the tokens of its score.
fn with_score(name: &str, config: &Value) -> TempDir {
    let dir = copy_of(name);
    write_json(&dir.path().join("modules.json"), &modules());
    write_json(&dir.path().join("1_LogitScore/config.json"), config);
    dir
}

/// The ids of "yes" and "no".
fn yes_no() -> (u64, u64) {
    let expected = read_json(&fixture("qwen3-reranker-tiny").join("expected.json"));
    (expected["yes_token_id"].as_u64().unwrap(), expected["no_token_id"].as_u64().unwrap())
}

fn head(dir: &TempDir, change: impl FnOnce(&mut LoadOptions)) -> Result<HeadSource, String> {
    let mut options = options(ModelSource::Path(dir.path().to_owned()));
    change(&mut options);
    Checkpoint::open(&options).map(|checkpoint| checkpoint.head).map_err(|error| error.to_string())
}

#[test]
fn a_checkpoint_with_the_recipes_tokens_is_a_reranker() {
    let expected = open(fixture("qwen3-reranker-tiny")).unwrap().head;
    let (yes, no) = yes_no();
    let config = json!({"true_token_id": yes, "false_token_id": no, "module_input_name": "causal_logits"});
    let dir = with_score("qwen3-reranker-tiny", &config);
    assert_eq!(head(&dir, |_| ()).unwrap(), expected);
    assert_eq!(head(&dir, |options| options.task = Some(Task::Rerank)).unwrap(), expected);

    // Null and absent both mean that there is no second token.
    for config in [json!({"true_token_id": yes, "false_token_id": null}), json!({"true_token_id": yes})] {
        let dir = with_score("qwen3-reranker-tiny", &config);
        let recipe = RerankRecipe { negative: None, ..RerankRecipe::builtin(RerankRecipe::QWEN3).unwrap() };
        let Ok(HeadSource::TokenRows(tokens)) = head(&dir, |options| options.rerank_recipe = Some(recipe)) else {
            panic!("{config} is refused")
        };
        assert_eq!((tokens.len(), tokens[0].id), (1, yes as u32));
    }
}

#[test]
fn a_checkpoint_with_other_tokens_wants_its_own_recipe() {
    let (yes, no) = yes_no();
    for config in [
        json!({"true_token_id": yes + 1, "false_token_id": no}),
        json!({"true_token_id": yes, "false_token_id": null}),
        json!({"true_token_id": no, "false_token_id": yes}),
        json!({"true_token_id": 4_000_000_000u32}),
    ] {
        let dir = with_score("qwen3-reranker-tiny", &config);
        for task in [None, Some(Task::Rerank)] {
            let refused = head(&dir, |options| options.task = task).unwrap_err();
            assert!(refused.starts_with("1_LogitScore/config.json: a score of token "), "{refused}");
            assert!(refused.contains("(\"yes\") against") && refused.contains("--rerank-recipe"), "{refused}");
        }
    }
    // The prompt of other families is unknown, whatever their tokens.
    let refused = head(&with_score("qwen2-tiny", &json!({"true_token_id": 5})), |_| ()).unwrap_err();
    assert!(refused.contains("unknown prompt") && refused.contains("--rerank-recipe"), "{refused}");
}

#[test]
fn what_is_wrong_with_the_module_is_named() {
    for (config, words) in [
        (json!({}), "`true_token_id` is missing"),
        (json!({"true_token_id": "yes"}), "`true_token_id` must be a whole number"),
        (json!({"true_token_id": 1u64 << 32}), "`true_token_id` must be a whole number"),
        (json!({"true_token_id": 5, "false_token_id": -1}), "`false_token_id` must be a whole number"),
        (json!({"true_token_id": 5, "module_input_name": "scores"}), "`module_input_name` \"scores\""),
        (json!([]), "must be a JSON object"),
    ] {
        let refused = head(&with_score("qwen3-reranker-tiny", &config), |_| ()).unwrap_err();
        assert!(refused.starts_with("1_LogitScore/config.json: ") && refused.contains(words), "{refused}");
    }
    let mut list = modules();
    list.as_array_mut().unwrap().push(json!({"path": "", "type": "sentence_transformers.models.Normalize"}));
    let dir = with_score("qwen3-reranker-tiny", &json!({}));
    write_json(&dir.path().join("modules.json"), &list);
    let refused = head(&dir, |_| ()).unwrap_err();
    assert!(refused.contains("Normalize after LogitScore"), "{refused}");
}

#[test]
fn the_module_is_downloaded() {
    let (yes, no) = yes_no();
    let mut repository = hub::repository("qwen3-reranker-tiny");
    let config = json!({"true_token_id": yes, "false_token_id": no});
    for (file, content) in [("modules.json", modules()), ("1_LogitScore/config.json", config)] {
        repository.files.insert(file.to_owned(), content.to_string().into_bytes());
    }
    let (hub, cache) = (Hub::start(repository), TempDir::new().unwrap());
    let checkpoint = hub::open(hub::model(&hub.endpoint, cache.path())).unwrap();
    assert!(matches!(checkpoint.head, HeadSource::TokenRows(_)));
}

#[test]
fn another_chat_template_than_the_prompts_is_named() {
    let (yes, no) = yes_no();
    let warning = |template: Option<&str>, in_config: bool| {
        let dir = with_score("qwen3-reranker-tiny", &json!({"true_token_id": yes, "false_token_id": no}));
        match template {
            Some(text) if in_config => {
                let path = dir.path().join("tokenizer_config.json");
                let mut config = read_json(&path);
                config["chat_template"] = json!(text);
                write_json(&path, &config);
            }
            Some(text) => std::fs::write(dir.path().join("chat_template.jinja"), text).unwrap(),
            None => {}
        }
        let warnings = open(dir.path()).unwrap().capabilities.warnings.clone();
        warnings.into_iter().find(|it| it.contains("chat template"))
    };
    let published = "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. \
                     {{ x }}<Instruct>: {{ y }}<Query>: {{ q }}<Document>: {{ d }}<think>\n\n</think>";
    for in_config in [false, true] {
        assert_eq!(warning(Some(published), in_config), None);
        assert!(warning(Some("{{ query }} {{ document }}"), in_config).unwrap().contains("another one"));
    }
    assert!(warning(None, false).unwrap().contains("is missing"));
    assert!(
        open(fixture("qwen3-reranker-tiny"))
            .unwrap()
            .capabilities
            .warnings
            .iter()
            .all(|it| !it.contains("chat template"))
    );
}

#[test]
fn a_reranker_that_its_name_or_chat_template_states_has_no_warning() {
    let warnings = |folder: &std::path::Path| open(folder).unwrap().capabilities.warnings.clone();
    assert_eq!(warnings(&fixture("qwen3-reranker-tiny")), [""; 0]);
    let dir = copy_of("qwen3-reranker-tiny");
    let [assumed] = &warnings(dir.path())[..] else { panic!("the folder's name says nothing") };
    assert!(assumed.contains("is assumed to be a Qwen3-Reranker"), "{assumed}");
    // A snapshot in the hub's cache has the commit as its name.
    let cached = dir.path().join("models--Qwen--Qwen3-Reranker-0.6B/snapshots/0123");
    std::fs::create_dir_all(&cached).unwrap();
    for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(dir.path().join(file), cached.join(file)).unwrap();
    }
    assert_eq!(warnings(&cached), [""; 0]);
    let template = "Judge whether the Document meets the requirements based on the Query and the Instruct provided. \
                    <Instruct>: a <Query>: b <Document>: c <think> </think>";
    std::fs::write(dir.path().join("chat_template.jinja"), template).unwrap();
    assert_eq!(warnings(dir.path()), [""; 0]);
}

#[test]
fn a_truncated_side_that_sentence_transformers_applies_to_the_prompt_is_named() {
    let (yes, no) = yes_no();
    for (side, is_named) in [("left", true), ("right", false)] {
        let dir = with_score("qwen3-reranker-tiny", &json!({"true_token_id": yes, "false_token_id": no}));
        let path = dir.path().join("tokenizer_config.json");
        let mut config = read_json(&path);
        config["truncation_side"] = json!(side);
        write_json(&path, &config);
        let named = |dir: &TempDir| {
            open(dir.path()).unwrap().capabilities.warnings.iter().any(|it| it.contains("`truncation_side`"))
        };
        assert_eq!(named(&dir), is_named);
        std::fs::remove_file(dir.path().join("modules.json")).unwrap();
        assert!(!named(&dir));
    }
}
