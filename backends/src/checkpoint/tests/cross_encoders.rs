//! Prompts of cross-encoders as sentence-transformers saves them.

use super::{copy_of, open, write_json};
use prefold_core::{Capabilities, Rerank};
use serde_json::{Value, json};

fn capabilities(model: &str, settings: &Value) -> Capabilities {
    let dir = copy_of(model);
    write_json(&dir.path().join("config_sentence_transformers.json"), settings);
    Capabilities::clone(&open(dir.path()).unwrap().capabilities)
}

fn saved_by(class: &str) -> Value {
    json!({"model_type": class, "prompts": {"web": "Search the web: "}, "default_prompt_name": "web"})
}

#[test]
fn a_classifier_has_the_prompts_of_a_cross_encoder_and_of_no_other_class() {
    let prompts = |settings| capabilities("bert-reranker-tiny", &settings).classify.unwrap().prompts;
    let found = prompts(saved_by("CrossEncoder"));
    assert_eq!(found.default.as_deref(), Some("Search the web: "));
    assert_eq!(found.by_name["web"], "Search the web: ");
    let without_default = prompts(json!({"model_type": "CrossEncoder", "prompts": {"web": "Search the web: "}}));
    assert_eq!((without_default.by_name.len(), without_default.default), (1, None));
    // As in sentence-transformers, which reads the prompts only with the class that saved them.
    for settings in [saved_by("SentenceTransformer"), json!({"prompts": {"web": "x"}, "default_prompt_name": "web"})] {
        assert!(prompts(settings.clone()).by_name.is_empty());
        let warnings = capabilities("bert-reranker-tiny", &settings).warnings;
        assert!(warnings[0].contains("the default prompt is ignored"), "{warnings:?}");
    }
    let warnings = capabilities("bert-reranker-tiny", &saved_by("CrossEncoder")).warnings;
    assert!(
        warnings.iter().all(|warning| warning.ends_with("does not read this file without modules.json")),
        "{warnings:?}"
    );
}

#[test]
fn the_prompt_of_a_prompted_reranker_is_its_instruction() {
    let instruction = |settings| match capabilities("qwen3-reranker-tiny", &settings).rerank {
        Some(Rerank::Prompt(template)) => template.default_instruction,
        other => panic!("{other:?}"),
    };
    assert_eq!(instruction(saved_by("CrossEncoder")).as_deref(), Some("Search the web: "));
    assert!(instruction(saved_by("SentenceTransformer")).unwrap().starts_with("Given a web search query"));
}
