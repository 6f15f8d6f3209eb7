//! GGUF files whose folder or metadata say something else than the model needs: end token, pooling, activation.

use super::gguf::{Gguf, llama, qwen3};
use super::gguf_encoders::{answers, loaded};
use super::gguf_newer;
use super::{copy_of, fixture, open, options, write_json};
use crate::checkpoint::Checkpoint;
use crate::options::{LoadOptions, ModelSource};
use candle_core::quantized::gguf_file::Value;
use prefold_core::{LogitActivation, Pooling};
use serde_json::json;
use std::fs;
use tempfile::TempDir;

const ADD: &str = "tokenizer.ggml.add_eos_token";

fn string(text: &str) -> Value {
    Value::String(text.to_owned())
}

/// The last token of a text, and the warnings.
fn end_and_warnings(gguf: &Gguf, pooling: Option<Pooling>) -> (u32, Vec<String>) {
    let dir = TempDir::new().unwrap();
    gguf.write(&dir.path().join("model.gguf"));
    let options = LoadOptions { pooling, ..options(ModelSource::Path(dir.path().to_owned())) };
    let checkpoint = Checkpoint::open(&options).unwrap();
    let ids = checkpoint.tokenizer.encode("red fox", true).unwrap().get_ids().to_vec();
    (*ids.last().unwrap(), checkpoint.capabilities.warnings.clone())
}

fn set_pooling(gguf: &mut Gguf, number: u32) {
    gguf.set("qwen3.pooling_type", Value::U32(number));
}

#[test]
fn a_missing_end_token_is_supplied_with_a_warning() {
    let mut gguf = qwen3();
    let (end, warnings) = end_and_warnings(&gguf, None);
    assert_eq!((end, warnings), (1000, vec![]));
    gguf.metadata.remove(ADD);
    let (end, warnings) = end_and_warnings(&gguf, None);
    assert_eq!(end, 1000);
    assert!(
        warnings.len() == 1 && warnings[0].contains(ADD) && warnings[0].contains("end token (EOS)"),
        "{warnings:?}"
    );

    let dir = TempDir::new().unwrap();
    let path = dir.path().join("model.gguf");
    gguf.write(&path);
    let (mut found, mut original) = (loaded(&path), loaded(&fixture("qwen3-tiny")));
    assert_eq!(answers(&mut found), answers(&mut original));
}

#[test]
fn the_end_of_a_chat_message_does_not_end_texts() {
    let mut gguf = qwen3();
    gguf.metadata.remove(ADD);
    let Some(Value::Array(tokens)) = gguf.metadata.get("tokenizer.ggml.tokens") else { panic!() };
    let id = |name: &str| tokens.iter().position(|token| matches!(token, Value::String(it) if it == name)).unwrap();
    let (of_message, of_text) = (id("<|im_end|>") as u32, id("<|endoftext|>") as u32);
    gguf.set("tokenizer.ggml.eos_token_id", Value::U32(of_message));
    let (end, warnings) = end_and_warnings(&gguf, None);
    assert_eq!(end, of_text);
    assert!(warnings[0].contains("<|endoftext|>"), "{warnings:?}");
    gguf.set(ADD, Value::Bool(true));
    assert_eq!(end_and_warnings(&gguf, None), (of_message, vec![]));
}

#[test]
fn the_end_token_in_a_warning_is_cut_and_stays_on_its_line() {
    let mut gguf = qwen3();
    gguf.metadata.remove(ADD);
    let Some(Value::Array(tokens)) = gguf.metadata.get_mut("tokenizer.ggml.tokens") else { panic!() };
    tokens[1000] = string(&format!("end\n\u{1b}[31m\u{202e}{}", "x".repeat(1000)));
    let (end, warnings) = end_and_warnings(&gguf, None);
    assert_eq!(end, 1000);
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(warning.contains(r#""end\n\u001b[31m\u{202e}xx"#) && warning.len() < 300, "{warning}");
}

#[test]
fn a_file_that_refuses_the_end_token_is_followed_with_a_warning() {
    let mut gguf = qwen3();
    gguf.set(ADD, Value::Bool(false));
    let (end, warnings) = end_and_warnings(&gguf, None);
    assert_ne!(end, 1000);
    assert!(warnings[0].contains("is false") && warnings[0].contains("last word"), "{warnings:?}");
    // Without a pooling in the file nothing is supplied, and only last-token pooling is warned about.
    for key in [ADD, "qwen3.pooling_type"] {
        gguf.metadata.remove(key);
    }
    let (end, warnings) = end_and_warnings(&gguf, Some(Pooling::LastToken));
    assert_ne!(end, 1000);
    assert!(warnings.len() == 1 && warnings[0].contains("names no end token (EOS)"), "{warnings:?}");
    assert_eq!(end_and_warnings(&gguf, Some(Pooling::Mean)).1, Vec::<String>::new());
    gguf.metadata.remove("tokenizer.ggml.eos_token_id");
    set_pooling(&mut gguf, 3);
    assert!(end_and_warnings(&gguf, None).1[0].contains("names no end token"));
    gguf.set("tokenizer.ggml.eos_token_id", Value::U32(5000));
    assert!(gguf.open().unwrap_err().contains("eos_token_id"));

    // A tokenizer.json in the folder replaces the file's.
    let dir = copy_of("qwen3-tiny");
    let mut gguf = qwen3();
    gguf.set(ADD, Value::Bool(false));
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    gguf.write(&dir.path().join("model.gguf"));
    let checkpoint = open(dir.path().join("model.gguf")).unwrap();
    assert_eq!(checkpoint.tokenizer.encode("red fox", true).unwrap().get_ids().last(), Some(&1000));
    assert_eq!(checkpoint.capabilities.warnings, Vec::<String>::new());
}

#[test]
fn a_pooling_that_the_model_was_not_trained_with_is_followed_with_a_warning() {
    let warnings = |number: u32, name: &str| {
        let mut gguf = qwen3();
        set_pooling(&mut gguf, number);
        gguf.set("general.name", string(name));
        gguf.open().unwrap().capabilities.warnings.clone()
    };
    for (number, words) in [(1, "take the last token"), (2, "sees no other token")] {
        let found = warnings(number, "model");
        assert!(found.len() == 1 && found[0].contains("qwen3.pooling_type") && found[0].contains(words), "{found:?}");
    }
    let found = warnings(1, "Qwen3 Embedding 0.6B");
    assert!(found[0].contains("was trained with last-token pooling"), "{found:?}");
    assert_eq!(warnings(3, "Qwen3-Embedding-0.6B"), Vec::<String>::new());
    let found = warnings(3, "Multilingual E5 Small");
    assert!(found[0].contains("was trained with mean pooling; the file is followed, --pooling mean"), "{found:?}");
    // An option replaces it.
    let mut gguf = qwen3();
    set_pooling(&mut gguf, 1);
    assert_eq!(end_and_warnings(&gguf, Some(Pooling::LastToken)).1, Vec::<String>::new());
}

#[test]
fn a_file_without_a_task_says_why() {
    let reason = |number: Option<u32>| {
        let mut gguf = llama();
        match number {
            Some(number) => gguf.set("llama.pooling_type", Value::U32(number)),
            None => drop(gguf.metadata.remove("llama.pooling_type")),
        }
        gguf.open().unwrap_err()
    };
    assert!(reason(None).contains("does not state its task (`llama.pooling_type` is missing"), "{}", reason(None));
    assert!(reason(Some(0)).contains("(`llama.pooling_type` is 0, no pooling): give --pooling"), "{}", reason(Some(0)));
    assert!(reason(Some(4)).contains("is 4, a reranker's"), "{}", reason(Some(4)));
}

#[test]
fn another_pooling_of_the_modules_in_the_folder_is_named() {
    let read = |number: u32, pooling: &str, option: Option<Pooling>| {
        let dir = TempDir::new().unwrap();
        let mut gguf = qwen3();
        set_pooling(&mut gguf, number);
        gguf.set("general.name", string("a model"));
        gguf.write(&dir.path().join("model.gguf"));
        let module =
            |name: &str, path: &str| json!({"path": path, "type": format!("sentence_transformers.models.{name}")});
        let modules =
            json!([module("Transformer", ""), module("Pooling", "1_Pooling"), module("Normalize", "2_Normalize")]);
        write_json(&dir.path().join("modules.json"), &modules);
        let config = json!({"word_embedding_dimension": 64, "pooling_mode": pooling, "include_prompt": false});
        write_json(&dir.path().join("1_Pooling/config.json"), &config);
        write_json(&dir.path().join("config_sentence_transformers.json"), &json!({"similarity_fn_name": "dot"}));
        let options = LoadOptions { pooling: option, ..options(ModelSource::Path(dir.path().to_owned())) };
        let checkpoint = Checkpoint::open(&options).unwrap();
        let embed = checkpoint.capabilities.embed.clone().unwrap();
        let warnings =
            checkpoint.capabilities.warnings.iter().filter(|it| it.contains("modules in its folder")).cloned();
        let similarity =
            checkpoint.capabilities.warnings.iter().any(|it| it.contains("`similarity_fn_name`: \"dot\" is ignored"));
        assert!(similarity, "{:?}", checkpoint.capabilities.warnings);
        (embed.pooling, embed.prompts.excluded, warnings.collect::<Vec<_>>())
    };
    let (pooling, excluded, warnings) = read(1, "cls", None);
    assert_eq!((pooling, excluded), (vec![Pooling::Mean], true));
    let [warning] = warnings.as_slice() else { panic!("{warnings:?}") };
    assert!(warning.starts_with("`qwen3.pooling_type` of the GGUF file says mean pooling"), "{warning}");
    assert!(warning.ends_with("say cls; the GGUF file is followed, --pooling cls overrides it"), "{warning}");
    assert_eq!(read(3, "lasttoken", None).2, Vec::<String>::new());
    assert_eq!(read(1, "mean", None).2, Vec::<String>::new());
    assert_eq!(read(1, "cls", Some(Pooling::Max)), (vec![Pooling::Max], false, vec![]));
}

#[test]
fn a_module_too_wide_for_the_pooling_of_the_file_is_refused_with_both_poolings() {
    let dir = TempDir::new().unwrap();
    let mut gguf = qwen3();
    set_pooling(&mut gguf, 1);
    gguf.write(&dir.path().join("model.gguf"));
    let module = |name: &str, path: &str| json!({"path": path, "type": format!("sentence_transformers.models.{name}")});
    let modules = json!([module("Transformer", ""), module("Pooling", "1_Pooling"), module("Dense", "2_Dense")]);
    write_json(&dir.path().join("modules.json"), &modules);
    let pooling = json!({"pooling_mode_mean_tokens": true, "pooling_mode_lasttoken": true});
    write_json(&dir.path().join("1_Pooling/config.json"), &pooling);
    write_json(&dir.path().join("2_Dense/config.json"), &json!({"in_features": 128, "out_features": 64}));
    let refused = open(dir.path()).unwrap_err().to_string();
    let words = "`in_features` is 128, but its input is 64 wide (`qwen3.pooling_type` of the GGUF file says mean pooling, the modules in \
                 its folder say";
    assert!(refused.contains(words), "{refused}");
    // Another fault of the module has another reason.
    write_json(&dir.path().join("2_Dense/config.json"), &json!({"in_features": 64, "out_features": 0}));
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("`out_features` must be from 1") && !refused.contains("pooling_type"), "{refused}");
}

/// sentence-transformers' file in the folder of a GGUF file is read as it is with safetensors.
#[test]
fn the_activation_of_pairs_beside_a_gguf_file() {
    let gguf = gguf_newer::converted(&fixture("modernbert-reranker-tiny"), "modern-bert", "modern-bert");
    let dir = TempDir::new().unwrap();
    gguf.write(&dir.path().join("model.gguf"));
    let opened = |name: &str| {
        write_json(&dir.path().join("config_sentence_transformers.json"), &json!({ "activation_fn": name }));
        let capabilities = open(dir.path()).unwrap().capabilities;
        (capabilities.classify.as_ref().unwrap().pair_activation, capabilities.warnings.clone())
    };
    for (name, expected) in [("Identity", LogitActivation::Identity), ("Sigmoid", LogitActivation::Sigmoid)] {
        assert_eq!(opened(&format!("torch.nn.modules.{name}")).0, expected);
    }
    let (_, warnings) = opened("torch.nn.modules.activation.Tanh");
    assert!(
        warnings.iter().any(|warning| warning.contains("Tanh") && warning.contains("not supported")),
        "{warnings:?}"
    );
}
