//! Tokenizers of GGUF files, and the files of a tokenizer in the same folder.

use super::gguf::Gguf;
use super::gguf_encoders::{converted, list};
use super::{copy_of, fixture, open, read_json, write_json};
use candle_core::quantized::gguf_file::Value;
use serde_json::json;
use std::fs;
use tempfile::TempDir;
use tokenizers::{ModelWrapper, NormalizerWrapper, Tokenizer};

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

#[test]
fn names_of_one_pattern_split_texts_alike() {
    let of = |pre: &str| {
        let mut gguf = Gguf::from_fixture("qwen3-tiny", "qwen2");
        gguf.set("tokenizer.ggml.pre", string(pre));
        gguf.set("qwen3.pooling_type", Value::U32(1));
        let tokenizer = gguf.open().unwrap_or_else(|error| panic!("{pre}: {error}")).tokenizer;
        let ModelWrapper::BPE(model) = tokenizer.get_model() else { panic!("{pre}") };
        let ids = |text: &str| tokenizer.encode(text, true).unwrap().get_ids().to_vec();
        let (texts, adds_bos) = (["It's 12345", "  a\n\n b"].map(ids), ids("a").len() > 1);
        let texts = texts.map(|ids| ids.into_iter().filter(|&id| id != 1000).collect::<Vec<_>>());
        let split = serde_json::to_value(tokenizer.get_pre_tokenizer().unwrap()).unwrap();
        (split, texts, model.ignore_merges, adds_bos, tokenizer.get_normalizer().is_some())
    };
    let (llama, qwen, digits, gpt2) = (of("llama-bpe"), of("qwen2"), of("smollm"), of("gpt-2"));
    assert!(llama.0 != qwen.0 && qwen.0 != gpt2.0 && digits.0 != gpt2.0);
    assert_eq!((llama.2, llama.3, llama.4), (true, true, false));
    assert_eq!((qwen.2, qwen.3, qwen.4), (false, false, true));
    for name in ["llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"] {
        assert_eq!(of(name), llama, "{name}");
    }
    for name in ["glm4", "glm5", "dbrx", "smaug-bpe", "chatglm-bpe"] {
        let found = of(name);
        assert_eq!((&found.0, &found.1), (&llama.0, &llama.1), "{name}");
        assert_eq!((found.2, found.3, found.4), (name.starts_with("glm"), false, false), "{name}");
    }
    assert_eq!(of("deepseek-r1-qwen"), qwen);
    for name in ["kormo", "megrez", "stablelm2", "hunyuan", "solar-open", "grok-2"] {
        let found = of(name);
        assert_eq!((found.0, found.1, found.4), (qwen.0.clone(), qwen.1.clone(), false), "{name}");
    }
    for name in ["starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"] {
        assert_eq!(of(name), digits, "{name}");
    }
    for name in
        ["phi-2", "gigachat", "a.x-4.0", "mellum", "exaone4", "mpt", "olmo", "jais", "trillion", "granite-docling"]
    {
        assert_eq!(of(name), gpt2, "{name}");
    }
    for name in ["jina-v1-en", "jina-v2-code", "jina-v2-de", "jina-v2-es", "jina-de", "jina-es"] {
        assert_eq!(of(name), of("roberta-bpe"), "{name}");
        assert!(of(name).0 == gpt2.0 && of(name).3);
    }
}
