//! Walk over the keys of GGUF metadata in the list of settings: five values of each followed or refused key, with the key's code and without.

use super::gguf::Gguf;
use super::{TEXTS, fixture, gguf_encoders, gguf_newer};
use crate::formats::gguf::METADATA;
use crate::json::hiding;
use crate::settings::{File, Mark, groups};
use candle_core::quantized::gguf_file::Value;
use std::collections::BTreeSet;

fn text(value: &str) -> Value {
    Value::String(value.to_owned())
}

fn numbers(values: [u32; 4]) -> Vec<Value> {
    values.into_iter().map(Value::U32).chain([text("x")]).collect()
}

fn floats(values: [f32; 4]) -> Vec<Value> {
    values.into_iter().map(Value::F32).chain([text("x")]).collect()
}

fn texts(values: [&str; 4]) -> Vec<Value> {
    values.into_iter().map(text).chain([Value::U32(1)]).collect()
}

/// The value that is not the default, and values of other types.
fn flag(value: bool) -> Vec<Value> {
    vec![Value::Bool(value), Value::U32(1), Value::F32(0.5), text("true"), Value::Array(vec![])]
}

fn list(values: &[Value]) -> Value {
    Value::Array(values.to_vec())
}

/// Lists of other types than the key's, and no list.
fn no_lists() -> Vec<Value> {
    vec![list(&[]), list(&[Value::Bool(true)]), list(&[Value::F64(0.5)]), text("x"), Value::U32(1)]
}

fn bert() -> Gguf {
    gguf_encoders::converted("bert-mean-tiny")
}

fn unigram() -> Gguf {
    gguf_encoders::converted("xlm-roberta-tiny")
}

fn roberta() -> Gguf {
    gguf_encoders::converted("roberta-tiny")
}

fn cross_encoder() -> Gguf {
    gguf_encoders::converted("xlm-roberta-reranker-tiny")
}

fn qwen() -> Gguf {
    let mut gguf = Gguf::from_fixture("qwen3-tiny", "qwen2");
    gguf.set("qwen3.pooling_type", Value::U32(3));
    gguf
}

fn modernbert() -> Gguf {
    gguf_newer::converted(&fixture("modernbert-tiny"), "modern-bert", "modern-bert")
}

fn modernbert_reranker() -> Gguf {
    gguf_newer::converted(&fixture("modernbert-reranker-tiny"), "modern-bert", "modern-bert")
}

fn experts() -> Gguf {
    let mut gguf = gguf_newer::converted(&fixture("nomic-moe-tiny"), "nomic-bert-moe", "default");
    gguf.set("nomic-bert-moe.expert_count", Value::U32(8));
    gguf.set("nomic-bert-moe.expert_used_count", Value::U32(2));
    gguf
}

/// A file, one of its keys without the architecture, and five values.
type Case = (fn() -> Gguf, &'static str, Vec<Value>);

fn model_cases() -> Vec<Case> {
    vec![
        (bert, "general.architecture", texts(["roberta", "llama", "nomic-bert", "x"])),
        (bert, "context_length", numbers([8, 16, 24, 0])),
        (bert, "embedding_length", numbers([16, 31, 64, 0])),
        (bert, "block_count", numbers([1, 3, 0, 99])),
        (bert, "feed_forward_length", numbers([16, 31, 0, 99])),
        (modernbert, "hidden_act", texts(["silu", "relu", "gelu_pytorch_tanh", "x"])),
        (modernbert, "hidden_activation", texts(["silu", "relu", "gelu_pytorch_tanh", "x"])),
        (bert, "pooling_type", numbers([2, 1, 3, 9])),
        (
            cross_encoder,
            "classifier.output_labels",
            vec![
                list(&[text("a")]),
                list(&[text("b")]),
                list(&[text("a"), text("b")]),
                list(&[Value::U32(1)]),
                text("x"),
            ],
        ),
        (modernbert_reranker, "classifier.pooling_type", numbers([1, 2, 3, 0])),
        (experts, "expert_count", numbers([4, 16, 7, 0])),
        (experts, "expert_used_count", numbers([1, 3, 8, 9])),
        (experts, "moe_every_n_layers", numbers([1, 3, 0, 4])),
        (qwen, "attention.causal", flag(false)),
        (bert, "attention.head_count", numbers([1, 8, 5, 0])),
        (qwen, "attention.head_count_kv", numbers([1, 8, 3, 0])),
        (qwen, "attention.key_length", numbers([8, 32, 5, 0])),
        (qwen, "attention.value_length", numbers([8, 16, 5, 0])),
        (bert, "attention.layer_norm_epsilon", floats([1e-6, 1e-3, 0.5, f32::NAN])),
        (qwen, "attention.layer_norm_rms_epsilon", floats([1e-3, 1e-2, 0.5, f32::NAN])),
        (gguf_newer::gemma, "attention.scale", floats([0.5, 0.1, 2.0, -1.0])),
        (modernbert, "attention.sliding_window", numbers([4, 6, 12, 20])),
        (modernbert, "attention.sliding_window_pattern", numbers([1, 2, 5, 0])),
        (qwen, "rope.freq_base", floats([5.0, 77.0, 1e4, -1.0])),
        (modernbert, "rope.freq_base_swa", floats([5.0, 77.0, 1e6, -1.0])),
        (qwen, "rope.scale_linear", floats([2.0, 4.0, 0.5, -1.0])),
        (qwen, "rope.scaling.factor", floats([2.0, 4.0, 0.5, -1.0])),
        (qwen, "rope.scaling.type", texts(["yarn", "longrope", "dynamic", "x"])),
        (qwen, "rope.scaling.attn_factor", floats([2.0, 0.5, 0.0, -1.0])),
        (qwen, "rope.dimension_count", numbers([8, 4, 16, 0])),
        (bert, "general.type", texts(["adapter", "mmproj", "imatrix", "x"])),
        (bert, "split.count", numbers([2, 3, 99, 1000])),
    ]
}

fn tokenizer_cases() -> Vec<Case> {
    let halves = |from: &str, to: &str| list(&[text(&format!("{from} {to}"))]);
    vec![
        (qwen, "tokenizer.ggml.add_bos_token", flag(true)),
        (qwen, "tokenizer.ggml.add_eos_token", flag(false)),
        (cross_encoder, "tokenizer.ggml.add_sep_token", flag(false)),
        (spaced, "tokenizer.ggml.add_space_prefix", flag(false)),
        (unigram, "tokenizer.ggml.bos_token_id", numbers([1, 2, 3, 9999])),
        (cls, "tokenizer.ggml.cls_token_id", numbers([1, 3, 4, 9999])),
        (unigram, "tokenizer.ggml.eos_token_id", numbers([0, 1, 3, 9999])),
        (roberta, "tokenizer.ggml.mask_token_id", numbers([0, 1, 2, 9999])),
        (
            qwen,
            "tokenizer.ggml.merges",
            vec![list(&[]), halves("r", "e"), list(&[text("re")]), list(&[Value::U32(1)]), text("x")],
        ),
        (bert, "tokenizer.ggml.model", texts(["gpt2", "llama", "t5", "x"])),
        (bert, "tokenizer.ggml.normalizer.lowercase", flag(false)),
        (bert, "tokenizer.ggml.normalizer.strip_accents", flag(false)),
        (qwen, "tokenizer.ggml.normalizer.lowercase", flag(true)),
        (qwen, "tokenizer.ggml.normalizer.strip_accents", flag(true)),
        (unigram, "tokenizer.ggml.normalizer.lowercase", flag(true)),
        (unigram, "tokenizer.ggml.normalizer.strip_accents", flag(true)),
        (gguf_newer::gemma, "tokenizer.ggml.normalizer.lowercase", flag(true)),
        (gguf_newer::gemma, "tokenizer.ggml.normalizer.strip_accents", flag(true)),
        (qwen, "tokenizer.ggml.pre", texts(["gpt-2", "llama-bpe", "smollm", "modern-bert"])),
        (
            unigram,
            "tokenizer.ggml.precompiled_charsmap",
            vec![
                list(&[Value::U8(255), Value::U8(255), Value::U8(255), Value::U8(255)]),
                list(&[Value::U32(1)]),
                Value::U32(1),
                text("x"),
                Value::Bool(true),
            ],
        ),
        (unigram, "tokenizer.ggml.remove_extra_whitespaces", flag(false)),
        (unigram, "tokenizer.ggml.scores", no_lists()),
        (cls, "tokenizer.ggml.seperator_token_id", numbers([1, 2, 4, 9999])),
        (bert, "tokenizer.ggml.token_type", no_lists()),
        (bert, "tokenizer.ggml.tokens", no_lists()),
        (bert, "tokenizer.ggml.unknown_token_id", numbers([0, 2, 3, 9999])),
    ]
}

/// WordPiece without ids that stand in for those of `[CLS]` and `[SEP]`.
fn cls() -> Gguf {
    let mut gguf = bert();
    for key in ["bos", "eos"] {
        gguf.metadata.remove(&format!("tokenizer.ggml.{key}_token_id"));
    }
    gguf
}

/// EmbeddingGemma with a space before texts, the default.
fn spaced() -> Gguf {
    let mut gguf = gguf_newer::gemma();
    gguf.metadata.remove("tokenizer.ggml.add_space_prefix");
    gguf
}

/// The whole key.
fn whole(gguf: &Gguf, name: &str) -> String {
    let Value::String(architecture) = &gguf.metadata["general.architecture"] else { panic!("no architecture") };
    match name.split('.').next() {
        Some("general" | "split" | "tokenizer") => name.to_owned(),
        _ => format!("{architecture}.{name}"),
    }
}

/// The result of loading a file: the description of its model and the tokens of texts, or the refusal.
fn outcome(gguf: &Gguf) -> String {
    let checkpoint = match gguf.open() {
        Ok(checkpoint) => checkpoint,
        Err(refusal) => return refusal,
    };
    let odd = ["CamelCase \u{c9}t\u{e9}", "a <s> b <pad> c </s> d <unk> e <mask> f", "\u{1f30a} \u{4e2d}"];
    let tokens: Vec<Vec<u32>> = TEXTS
        .into_iter()
        .chain(odd)
        .map(|text| checkpoint.tokenizer.encode(text, true).unwrap().get_ids().to_vec())
        .collect();
    let pair = checkpoint.tokenizer.encode(("red", "fox"), true).unwrap().get_ids().to_vec();
    format!("{:?} {:?} {tokens:?} {pair:?}", checkpoint.config, checkpoint.capabilities)
}

#[test]
fn every_key_has_an_effect_at_five_values_and_none_without_its_code() {
    let mut wrong = Vec::new();
    for (base, name, values) in model_cases().into_iter().chain(tokenizer_cases()) {
        assert_eq!(values.len(), 5, "{name}");
        for value in values {
            let mut gguf = base();
            let key = whole(&gguf, name);
            gguf.set(key.clone(), value.clone());
            let (found, unread) = (outcome(&gguf), hiding(METADATA, &key, || outcome(&gguf)));
            if found == unread {
                wrong.push(format!("{key}: {value:?} has no effect: {}", &found[..found.len().min(200)]));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_followed_or_refused_key_is_walked() {
    let cases: BTreeSet<&str> = model_cases().iter().chain(&tokenizer_cases()).map(|(_, name, _)| *name).collect();
    let of_file = groups().filter(|group| group.file == File::Gguf);
    let listed = of_file.filter(|group| matches!(group.mark, Mark::Followed | Mark::Refused));
    // The alignment is read with the header: `gguf_headers`.
    let listed =
        listed.flat_map(|group| group.fields).map(|(name, _)| *name).filter(|name| *name != "general.alignment");
    assert_eq!(cases, listed.collect());
}

#[test]
fn other_keys_of_a_model_or_tokenizer_are_named_unless_they_have_no_effect() {
    let warnings = |key: &str, value: Value| {
        let mut gguf = qwen();
        gguf.set(key, value);
        let warnings = gguf.open().unwrap().capabilities.warnings.clone();
        warnings.into_iter().filter(|it| it.contains("ignored")).collect::<Vec<_>>()
    };
    for (key, value, shown) in [
        ("qwen3.new_setting", Value::U32(3), "`qwen3.new_setting`: 3 is ignored"),
        ("qwen3.logit_scale", Value::F32(0.5), "`qwen3.logit_scale`: 0.5 is ignored"),
        ("qwen3.embedding_length_out", Value::U32(8), "`qwen3.embedding_length_out`: 8 is ignored"),
        ("qwen3.layers", list(&[Value::U32(1), Value::U32(2)]), "`qwen3.layers`: \"2 values\" is ignored"),
        ("tokenizer.ggml.new_setting", text("yes"), "`tokenizer.ggml.new_setting`: \"yes\" is ignored"),
    ] {
        assert_eq!(warnings(key, value), [format!("model.gguf: {shown}")], "{key}");
    }
    for (key, value) in [
        ("qwen3.logit_scale", Value::F32(1.0)),
        ("qwen3.new_setting", Value::Bool(false)),
        ("qwen3.vocab_size", Value::U32(1024)),
        ("general.new_setting", Value::U32(3)),
        ("quantize.imatrix.chunks_count", Value::U32(3)),
        ("llama.new_setting", Value::U32(3)),
        ("tokenizer.ggml.padding_token_id", Value::U32(1)),
        ("tokenizer.chat_template", text("x")),
    ] {
        assert_eq!(warnings(key, value), Vec::<String>::new(), "{key}");
    }
}

#[test]
fn the_epsilon_of_modernbert_has_either_key() {
    const USED: &str = "modern-bert.attention.layer_norm_epsilon";
    const OTHER: &str = "modern-bert.attention.layer_norm_rms_epsilon";
    let mut gguf = modernbert();
    let read = |gguf: &Gguf| {
        let checkpoint = gguf.open().unwrap();
        (checkpoint.config.norm.eps, checkpoint.capabilities.warnings.clone())
    };
    gguf.set(USED, Value::F32(1e-5));
    gguf.set(OTHER, Value::F32(1e-5));
    assert_eq!(read(&gguf), (1e-5, vec![]));
    gguf.set(OTHER, Value::F32(1e-3));
    let (eps, warnings) = read(&gguf);
    assert_eq!(eps, 1e-5, "as in llama.cpp");
    let words = [OTHER, "0.001 is ignored", "the original model's", "0.00001"];
    assert!(warnings.len() == 1 && words.iter().all(|it| warnings[0].contains(it)), "{warnings:?}");
    gguf.metadata.remove(USED);
    assert_eq!(read(&gguf), (1e-3, vec![]), "as the converter writes a config with `norm_eps` alone");
    gguf.metadata.remove(OTHER);
    assert!(gguf.open().unwrap_err().contains(&format!("`{USED}` is missing")));
}
