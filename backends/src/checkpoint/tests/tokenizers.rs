//! Tokenizer files that do more with a text than tokenize it.

use super::refusals::Change::Set;
use super::refusals::check;
use super::{copy_of, fixture, open};
use serde_json::{Value, json};
use tokenizers::ModelWrapper;

fn tokenizer(pointer: &'static str, value: Value) -> super::refusals::Change {
    Set("tokenizer.json", pointer, value)
}

#[test]
fn steps_beyond_a_limit_are_refused_before_they_are_built() {
    let growing = json!({"type": "Replace", "pattern": {"String": "a"}, "content": "a".repeat(2000)});
    let pattern = json!({"type": "Split", "pattern": {"Regex": "a*b"}, "behavior": "Isolated", "invert": false});
    let named = ["tokenizer.json: `normalizer`", "1024 bytes of one"];
    check(vec![
        ("qwen3-tiny", tokenizer("/normalizer", growing.clone()), &named),
        ("qwen3-tiny", tokenizer("/pre_tokenizer", pattern), &["tokenizer.json: `pre_tokenizer`", "\"a*b\""]),
        ("qwen3-tiny", tokenizer("/decoder", growing), &["tokenizer.json: `decoder`", "64 bytes of one"]),
        (
            "qwen3-tiny",
            tokenizer("/added_tokens/0/content", json!("x".repeat(3000))),
            &["`added_tokens` item 0", "2048"],
        ),
    ]);
    let long = copy_of("qwen3-tiny");
    let mut file = super::read_json(&long.path().join("tokenizer.json"));
    file["model"]["vocab"]["x".repeat(3000)] = json!(1100);
    super::write_json(&long.path().join("tokenizer.json"), &file);
    let refused = open(long.path()).unwrap_err().to_string();
    assert!(refused.contains("`model` has a token with the id 1100 of 3000 bytes, the limit is 2048"), "{refused}");
}

#[test]
fn dropout_is_for_training() {
    let dir = copy_of("qwen3-tiny");
    tokenizer("/model/dropout", json!(0.9)).apply(dir.path());
    let loaded = open(dir.path()).unwrap().tokenizer;
    assert!(matches!(loaded.get_model(), ModelWrapper::BPE(bpe) if bpe.dropout.is_none()));
    let plain = open(fixture("qwen3-tiny")).unwrap().tokenizer;
    let ids = |tokenizer: &tokenizers::Tokenizer| tokenizer.encode("twice a day", true).unwrap().get_ids().to_vec();
    assert_eq!(ids(&loaded), ids(&plain), "the added tokens are still there, too");
}
