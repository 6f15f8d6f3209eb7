//! The normalizer of BERT's tokenizer classes. The ids were computed by transformers 5.24 from the same files; comments name differences of 4.51.

use super::refusals::Change::{Delete, Remove, Set};
use super::{copy_of, open, write_json};
use serde_json::{Value, json};

const TEXT: &str = "The Caf\u{e9} in \u{5317}\u{4eac} ARRIVES";
/// In lower case, without accents, Chinese characters as words.
const LOWER: [u32; 14] = [6, 192, 132, 34, 39, 38, 202, 5, 174, 130, 51, 269, 369, 7];
/// As it is.
const CASED: [u32; 8] = [6, 5, 5, 202, 5, 174, 5, 7];

fn normalizer(lowercase: bool) -> Value {
    json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
        "lowercase": lowercase})
}

fn ids(change: impl FnOnce(&std::path::Path)) -> Vec<u32> {
    let dir = copy_of("bert-mean-tiny");
    change(dir.path());
    open(dir.path()).unwrap().tokenizer.encode(TEXT, true).unwrap().get_ids().to_vec()
}

/// Ids with another normalizer in `tokenizer.json` and fields of `tokenizer_config.json`.
fn with(saved: Value, fields: &[(&'static str, Value)]) -> Vec<u32> {
    ids(|dir| {
        Set("tokenizer.json", "/normalizer", saved).apply(dir);
        fields.iter().for_each(|&(field, ref value)| Set("tokenizer_config.json", field, value.clone()).apply(dir));
    })
}

#[test]
fn the_config_of_the_tokenizer_overrules_the_saved_normalizer() {
    assert_eq!(with(normalizer(true), &[]), LOWER, "both agree");
    assert_eq!(with(normalizer(false), &[("/do_lower_case", json!(false))]), CASED, "both agree");
    assert_eq!(with(normalizer(true), &[("/do_lower_case", json!(false))]), CASED);
    assert_eq!(with(normalizer(false), &[]), LOWER);
    let accents = [6, 192, 5, 202, 5, 174, 130, 51, 269, 369, 7];
    assert_eq!(with(normalizer(true), &[("/strip_accents", json!(false))]), accents);
    let chinese = [6, 192, 132, 34, 39, 38, 202, 5, 130, 51, 269, 369, 7];
    assert_eq!(with(normalizer(true), &[("/tokenize_chinese_chars", json!(false))]), chinese);
    // transformers 4.51 keeps a normalizer of another kind, and its lower case.
    let sequence = json!({"type": "Sequence", "normalizers": [{"type": "Lowercase"}, normalizer(false)]});
    assert_eq!(with(sequence, &[("/do_lower_case", json!(false))]), CASED);
}

#[test]
fn the_class_is_that_of_the_config_or_of_the_model() {
    let cased = |change: &dyn Fn(&std::path::Path)| {
        ids(|dir| {
            Set("tokenizer.json", "/normalizer", normalizer(false)).apply(dir);
            change(dir);
        })
    };
    let class = |name: &str| {
        let name = json!(name);
        cased(&|dir| Set("tokenizer_config.json", "/tokenizer_class", name.clone()).apply(dir))
    };
    for name in ["BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast", "MPNetTokenizer"] {
        assert_eq!(class(name), LOWER, "{name}");
    }
    for name in ["PreTrainedTokenizerFast", "PreTrainedTokenizer", "TokenizersBackend"] {
        assert_eq!(class(name), CASED, "{name}");
    }
    assert_eq!(cased(&|dir| Delete("tokenizer_config.json").apply(dir)), LOWER, "bert has BertTokenizer");
    assert_eq!(cased(&|dir| Remove("tokenizer_config.json", "tokenizer_class").apply(dir)), LOWER);
    let by_config = cased(&|dir| {
        write_json(&dir.join("tokenizer_config.json"), &json!({}));
        Set("config.json", "/tokenizer_class", json!("PreTrainedTokenizerFast")).apply(dir);
    });
    assert_eq!(by_config, CASED);
}

#[test]
fn other_tokenizers_are_as_they_are_saved() {
    for name in ["roberta-tiny", "xlm-roberta-tiny", "qwen3-tiny"] {
        let (dir, plain) = (copy_of(name), copy_of(name));
        Set("tokenizer_config.json", "/do_lower_case", json!(true)).apply(dir.path());
        let ids = |dir: &tempfile::TempDir| {
            let tokenizer = open(dir.path()).unwrap().tokenizer;
            tokenizer.encode(TEXT, true).unwrap().get_ids().to_vec()
        };
        assert_eq!(ids(&dir), ids(&plain), "{name}");
    }
}
