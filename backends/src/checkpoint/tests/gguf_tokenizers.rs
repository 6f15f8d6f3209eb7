//! Tokenizers of GGUF files, and the files of a tokenizer in the same folder.

use super::gguf::Gguf;
use super::gguf_encoders::{converted, list};
use super::{copy_of, fixture, open, read_json, write_json};
use candle_core::quantized::gguf_file::Value;
use serde_json::json;
use std::fs;
use tempfile::TempDir;
use tokenizers::{NormalizerWrapper, Tokenizer};

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// `lowercase` and `strip_accents` of a tokenizer's normalizer.
fn normalization(gguf: &Gguf) -> (bool, Option<bool>) {
    match gguf.open().unwrap().tokenizer.get_normalizer() {
        Some(NormalizerWrapper::BertNormalizer(it)) => (it.lowercase, it.strip_accents),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_vocabulary_tells_how_it_was_normalized() {
    let normalizer = |edit: &dyn Fn(&mut Vec<Value>)| {
        let mut gguf = converted("bert-mean-tiny");
        edit(list(&mut gguf, "tokens"));
        normalization(&gguf)
    };
    assert_eq!(normalizer(&|_| ()), (true, Some(true)));
    // Names in brackets are not words.
    assert_eq!(normalizer(&|tokens| tokens[1] = string("\u{2581}[Q]")), (true, Some(true)));
    assert_eq!(normalizer(&|tokens| tokens[20] = string("\u{2581}River")), (false, None));
    assert_eq!(normalizer(&|tokens| tokens[20] = string("caf\u{e9}")), (true, Some(false)));
    let tokens = |gguf: &Gguf| gguf.open().unwrap().tokenizer;
    let mut gguf = converted("bert-mean-tiny");
    let ids = |tokenizer: tokenizers::Tokenizer| tokenizer.encode("a", true).unwrap().get_ids().to_vec();
    let usual = ids(tokens(&gguf));
    // Older files name the first token otherwise, or have no ids at all.
    gguf.set("tokenizer.ggml.cls_token_id", Value::U32(6));
    gguf.set("tokenizer.ggml.bos_token_id", Value::U32(3));
    assert_eq!(ids(tokens(&gguf)), usual);
    for key in ["cls", "bos", "eos", "seperator", "unknown"] {
        gguf.metadata.remove(&format!("tokenizer.ggml.{key}_token_id"));
    }
    assert_eq!(ids(tokens(&gguf)), usual);
}

#[test]
fn a_stated_normalizer_overrules_the_vocabulary() {
    let normalizer = |stated: &[(&str, bool)]| {
        let mut gguf = converted("bert-mean-tiny");
        stated.iter().for_each(|(name, value)| {
            gguf.set(format!("tokenizer.ggml.normalizer.{name}"), Value::Bool(*value));
        });
        normalization(&gguf)
    };
    assert_eq!(normalizer(&[("lowercase", false)]), (false, None));
    assert_eq!(normalizer(&[("lowercase", true)]), (true, None), "accents as texts");
    assert_eq!(normalizer(&[("lowercase", true), ("strip_accents", false)]), (true, Some(false)));
    assert_eq!(normalizer(&[("strip_accents", false)]), (true, Some(false)));
}

#[test]
fn the_mask_that_is_not_in_the_file_of_sentencepiece_has_its_usual_name() {
    let ids = |gguf: &Gguf| gguf.open().unwrap().tokenizer.encode("a <mask> b", true).unwrap().get_ids().to_vec();
    let mut gguf = converted("xlm-roberta-tiny");
    let expected = ids(&gguf);
    assert!(expected.contains(&444), "{expected:?}");
    list(&mut gguf, "tokens")[444] = string("[PAD444]");
    list(&mut gguf, "token_type")[444] = Value::I32(5);
    list(&mut gguf, "scores")[444] = Value::F32(-10_000.0);
    assert_eq!(ids(&gguf), expected);
    // A token of that name is already there.
    list(&mut gguf, "tokens")[20] = string("<mask>");
    assert!(!ids(&gguf).contains(&444));
}

#[test]
fn the_unknown_token_in_a_text_is_a_special_token() {
    for (name, unknown) in [("xlm-roberta-tiny", 3), ("bert-mean-tiny", 5)] {
        let mut gguf = converted(name);
        list(&mut gguf, "token_type")[unknown] = Value::I32(2);
        let text = if name.starts_with("xlm") { "a<unk> b" } else { "a[UNK] b" };
        let ids = |tokenizer: &Tokenizer| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        let original = open(fixture(name)).unwrap().tokenizer;
        assert_eq!(ids(&gguf.open().unwrap().tokenizer), ids(&original), "{name}");
    }
}

/// The ids of a text in a folder with a checkpoint, and in one with its GGUF file and the tokenizer's files.
fn ids_beside(folder: &TempDir, text: &str) -> [Vec<u32>; 2] {
    let ids = |tokenizer: &Tokenizer| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
    let original = ids(&open(folder.path()).unwrap().tokenizer);
    fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    fs::remove_file(folder.path().join("config.json")).unwrap();
    converted("bert-mean-tiny").write(&folder.path().join("model.gguf"));
    [original, ids(&open(folder.path()).unwrap().tokenizer)]
}

#[test]
fn a_tokenizer_in_the_folder_is_read_as_its_class_reads_it() {
    let folder = copy_of("bert-mean-tiny");
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer = read_json(&path);
    // The class replaces these.
    tokenizer["normalizer"]["lowercase"] = json!(false);
    tokenizer["post_processor"] = json!(null);
    write_json(&path, &tokenizer);
    let path = folder.path().join("tokenizer_config.json");
    let mut config = read_json(&path);
    config["extra_special_tokens"] = json!(["river"]);
    config["tokenizer_class"] = json!("BertTokenizer");
    write_json(&path, &config);
    let [original, found] = ids_beside(&folder, "The river");
    assert_eq!(found, original);
    assert_eq!((found.first(), found.last()), (Some(&6), Some(&7)), "the class adds them");
}

#[test]
fn without_a_class_a_tokenizer_in_the_folder_is_what_it_says() {
    let folder = copy_of("bert-mean-tiny");
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut tokenizer = read_json(&path);
    tokenizer["post_processor"] = json!(null);
    write_json(&path, &tokenizer);
    // A file of `bert` can also be one of RoBERTa or DistilBERT, whose classes differ.
    let [_, found] = ids_beside(&folder, "the");
    assert_eq!(found.len(), 1, "{found:?}");
}
