//! Fields of a tokenizer's and a sentence-transformers' config that change what the model is given.

use super::refusals::Change::Set;
use super::{copy_of, fixture, options};
use crate::load;
use crate::options::{DeviceChoice, LoadOptions, ModelSource};
use prefold_core::LoadedModel;
use serde_json::{Value, json};
use std::path::Path;

fn loaded(path: &Path) -> LoadedModel {
    let source = ModelSource::Path(path.to_owned());
    load(&LoadOptions { device: Some(DeviceChoice::Cpu), ..options(source) }).unwrap()
}

fn with(file: &'static str, pointer: &'static str, value: Value) -> LoadedModel {
    let dir = copy_of("bert-reranker-tiny");
    if !dir.path().join(file).exists() {
        super::write_json(&dir.path().join(file), &json!({}));
    }
    Set(file, pointer, value).apply(dir.path());
    loaded(dir.path())
}

#[test]
fn a_tokenizer_without_token_types_gives_none() {
    let types = |pointer, value| with("tokenizer_config.json", pointer, value).backend.info().limits().token_types;
    let named = |names: Value| types("/model_input_names", names);
    assert_eq!(loaded(&fixture("bert-reranker-tiny")).backend.info().limits().token_types, 2);
    assert_eq!(named(json!(["input_ids", "token_type_ids", "attention_mask"])), 2);
    assert_eq!(named(json!(["input_ids", "attention_mask"])), 1);
    // Without the names the class decides, as in transformers 5.
    let of_class = |name: &str| types("/tokenizer_class", json!(name));
    assert_eq!(of_class("ElectraTokenizerFast"), 2);
    assert_eq!(of_class("PreTrainedTokenizerFast"), 1);
    assert_eq!(of_class("DistilBertTokenizerFast"), 1);
}

#[test]
fn texts_are_converted_to_lower_case_where_sentence_transformers_does() {
    // RoBERTa's tokenizer tells capital letters apart.
    let dir = copy_of("roberta-tiny");
    Set("sentence_bert_config.json", "/do_lower_case", json!(true)).apply(dir.path());
    let (lower, plain) =
        (loaded(dir.path()).tokenizers.into_first(), loaded(&fixture("roberta-tiny")).tokenizers.into_first());
    let ids = |tokenizer: &tokenizers::Tokenizer, text: &str| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
    assert_ne!(ids(&plain, "The RIVER"), ids(&plain, "the river"), "the text shows nothing");
    assert_eq!(ids(&lower, "The RIVER \u{c9}"), ids(&plain, "the river \u{e9}"));
}
