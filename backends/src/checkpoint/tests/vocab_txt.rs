//! Tokenizers from `vocab.txt`, compared with the `tokenizer.json` of the same vocabulary.

use super::{check_same_tokens, copy_of, open, read_json, write_json};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// The `vocab.txt` of a reference checkpoint.
pub(super) fn vocab_txt(dir: &Path) -> String {
    let tokenizer = read_json(&dir.join("tokenizer.json"));
    let vocab = tokenizer["model"]["vocab"].as_object().unwrap();
    let mut pieces: Vec<_> = vocab.iter().map(|(piece, id)| (id.as_u64().unwrap(), piece.as_str())).collect();
    pieces.sort_unstable();
    pieces.into_iter().map(|(_, piece)| format!("{piece}\n")).collect()
}

/// Replaces `tokenizer.json` by the vocabulary alone.
fn strip(dir: &Path) {
    fs::write(dir.join("vocab.txt"), vocab_txt(dir)).unwrap();
    fs::remove_file(dir.join("tokenizer.json")).unwrap();
}

/// A checkpoint with these fields in its `tokenizer_config.json`, and the same with its vocabulary alone.
fn pair(name: &str, fields: &Value) -> [TempDir; 2] {
    let [whole, bare] = [copy_of(name), copy_of(name)];
    for dir in [&whole, &bare] {
        let path = dir.path().join("tokenizer_config.json");
        let mut config = read_json(&path);
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        write_json(&path, &config);
    }
    strip(bare.path());
    [whole, bare]
}

#[test]
fn settings_of_the_tokenizer_are_followed() {
    for (name, fields, normalizer) in [
        ("bert-mean-tiny", json!({}), json!({})),
        ("bert-mean-tiny", json!({"do_lower_case": false}), json!({"lowercase": false})),
        ("bert-mean-tiny", json!({"strip_accents": false}), json!({"strip_accents": false})),
        (
            "bert-mean-tiny",
            json!({"do_lower_case": false, "strip_accents": true}),
            json!({"lowercase": false, "strip_accents": true}),
        ),
        ("bert-mean-tiny", json!({"tokenize_chinese_chars": false}), json!({"handle_chinese_chars": false})),
        ("distilbert-tiny", json!({"tokenizer_class": "DistilBertTokenizerFast"}), json!({})),
        ("electra-tiny", json!({"tokenizer_class": null}), json!({})),
    ] {
        let [whole, bare] = pair(name, &fields);
        let path = whole.path().join("tokenizer.json");
        let mut tokenizer = read_json(&path);
        tokenizer["normalizer"].as_object_mut().unwrap().extend(normalizer.as_object().unwrap().clone());
        write_json(&path, &tokenizer);
        let [whole, bare] = [whole, bare].map(|dir| open(dir.path()).unwrap());
        check_same_tokens(&bare.tokenizer, &whole.tokenizer, &format!("{name} {fields}"));
        assert_eq!(bare.capabilities.max_input_length, whole.capabilities.max_input_length);
    }
}

#[test]
fn mpnet_has_special_tokens_of_its_own() {
    for fields in [json!({}), json!({"tokenizer_class": "MPNetTokenizer"})] {
        let [whole, bare] = pair("mpnet-tiny", &fields).map(|dir| open(dir.path()).unwrap().tokenizer);
        check_same_tokens(&bare, &whole, "mpnet-tiny");
    }
}

#[test]
fn special_tokens_have_the_names_in_the_files() {
    let dir = copy_of("bert-mean-tiny");
    strip(dir.path());
    let path = dir.path().join("vocab.txt");
    let vocab = fs::read_to_string(&path).unwrap().replace("[CLS]", "<first>").replace("[MASK]", "<hole>");
    fs::write(&path, vocab.replace('\n', "\r\n")).unwrap();
    let mut config = read_json(&dir.path().join("tokenizer_config.json"));
    let fields = config.as_object_mut().unwrap();
    fields.remove("cls_token");
    fields.insert("mask_token".to_owned(), json!({"content": "<hole>", "lstrip": true}));
    fields.insert("added_tokens_decoder".to_owned(), json!({"1": {"content": "[unused0]", "special": false}}));
    write_json(&dir.path().join("tokenizer_config.json"), &config);
    write_json(&dir.path().join("special_tokens_map.json"), &json!({"cls_token": "<first>", "mask_token": "[MASK]"}));
    let tokenizer = open(dir.path()).unwrap().tokenizer;
    let ids = tokenizer.encode("[UNUSED0] <hole> [unused1]", true).unwrap();
    assert_eq!(ids.get_ids()[..3], [6, 1, 8], "{ids:?}");
    assert_eq!(ids.get_offsets()[2], (9, 16), "the space belongs to the mask");
}

#[test]
fn pieces_and_added_tokens_have_limits() {
    let refused = |config: &Value, line: &str| {
        let [_, dir] = pair("bert-mean-tiny", config);
        let path = dir.path().join("vocab.txt");
        fs::write(&path, format!("{}{line}\n", fs::read_to_string(&path).unwrap())).unwrap();
        open(dir.path()).unwrap_err().to_string()
    };
    let message = refused(&json!({}), &"x".repeat(2049));
    assert!(message.contains("vocab.txt: the vocabulary has a token with the id 459 of 2049 bytes"), "{message}");
    let long = "x".repeat(65);
    let message = refused(&json!({"unk_token": long}), &long);
    assert!(message.contains("has an unknown token of 65 bytes, the limit is 64"), "{message}");
    let token = json!({"content": " ", "lstrip": true});
    let message = refused(&json!({"added_tokens_decoder": {"459": token}}), " ");
    assert!(message.contains("the added tokens: item 5, \" \", has white space at its edge"), "{message}");
}

#[test]
fn what_is_missing_is_said() {
    let refused = |files: &[(&str, &str)], config: &Value| {
        let [_, dir] = pair("bert-mean-tiny", config);
        for (name, content) in files {
            fs::write(dir.path().join(name), content).unwrap();
        }
        if fs::read(dir.path().join("vocab.txt")).unwrap().is_empty() {
            fs::remove_file(dir.path().join("vocab.txt")).unwrap();
        }
        open(dir.path()).unwrap_err().to_string()
    };
    type Case<'a> = (&'a [(&'a str, &'a str)], Value, &'a [&'a str]);
    let cases: [Case<'_>; 9] = [
        (&[("vocab.txt", "")], json!({}), &["has no tokenizer.json"]),
        (
            &[("vocab.txt", ""), ("sentencepiece.bpe.model", "x")],
            json!({}),
            &["sentencepiece.bpe.model", "AutoTokenizer"],
        ),
        (
            &[("vocab.txt", ""), ("spiece.model", "x")],
            json!({}),
            &["none is made from spiece.model", "save_pretrained"],
        ),
        (&[("vocab.txt", ""), ("vocab.json", "{}")], json!({}), &["none is made from vocab.json"]),
        (&[("vocab.txt", "[PAD]\n[UNK]\n[SEP]\n")], json!({}), &["vocab.txt", "\"[CLS]\""]),
        (&[("added_tokens.json", "{}")], json!({}), &["added_tokens.json", "tokenizer.json"]),
        (&[], json!({"tokenizer_class": "BertJapaneseTokenizer"}), &["BertJapaneseTokenizer", "MPNetTokenizer"]),
        (&[], json!({"do_basic_tokenize": false}), &["do_basic_tokenize"]),
        (&[], json!({"do_lower_case": "yes"}), &["tokenizer_config.json", "do_lower_case"]),
    ];
    for (files, config, words) in cases {
        let message = refused(files, &config);
        assert!(words.iter().all(|word| message.contains(word)), "{message}\nlacks some of {words:?}");
    }
    let [_, dir] = pair("bert-mean-tiny", &json!({}));
    fs::write(dir.path().join("vocab.txt"), [0xff, b'\n']).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("vocab.txt: is not UTF-8"), "{message}");
}

#[test]
fn a_config_without_a_type_has_that_of_its_class() {
    for model in ["bert-nli-tiny", "qwen3-seqcls-tiny"] {
        let [whole, old] = [copy_of(model), copy_of(model)];
        if model.starts_with("bert") {
            strip(old.path());
        }
        let path = old.path().join("config.json");
        let mut config = read_json(&path);
        config.as_object_mut().unwrap().remove("model_type");
        write_json(&path, &config);
        let [whole, old] = [whole, old].map(|dir| open(dir.path()).unwrap_or_else(|error| panic!("{model}: {error}")));
        assert_eq!(whole.config, old.config);
        check_same_tokens(&old.tokenizer, &whole.tokenizer, model);
    }
    let dir = copy_of("bert-nli-tiny");
    let path = dir.path().join("config.json");
    let mut config = read_json(&path);
    config.as_object_mut().unwrap().remove("model_type");
    config["architectures"] = json!(["UnknownModel"]);
    write_json(&path, &config);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("`model_type` is missing, and follows from no class"), "{refused}");
}
