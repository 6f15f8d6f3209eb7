//! Configs and tokenizers with values of no real model. They are refused by name before memory is allocated for them.

use super::refusals::Change::{Delete, Remove, Set, Write};
use super::refusals::{Change, check, config};
use super::{copy_of, edit_tensors, open, options, read_json, write_json};
use crate::options::ModelSource;
use prefold_core::{Batch, Outputs, RaggedBatch};
use serde_json::{Value, json};

/// Loads a changed checkpoint as the server does, with all its tensors, and returns the refusal.
fn refusal(name: &str, changes: &[(&'static str, Value)]) -> String {
    let dir = copy_of(name);
    for (pointer, value) in changes {
        config(pointer, value.clone()).apply(dir.path());
    }
    match crate::load(&options(ModelSource::Path(dir.path().to_owned()))) {
        Ok(_) => panic!("{name} with {changes:?} is not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn sizes_that_no_file_can_hold() {
    let size = |field: &'static str, value: Value, words: &'static [&'static str]| (field, value, words);
    for (field, value, words) in [
        size("/num_hidden_layers", json!(1_000_000_000), &["`num_hidden_layers`", "4096", "1000000000"]),
        size("/num_hidden_layers", json!(-3), &["`num_hidden_layers` must be a whole number", "-3"]),
        size("/num_hidden_layers", json!(3.0), &["`num_hidden_layers` must be a whole number", "3.0"]),
        size("/num_hidden_layers", json!(1e308), &["`num_hidden_layers` must be a whole number", "1e+308"]),
        size("/hidden_size", json!(1u64 << 40), &["`hidden_size`", "262144"]),
        size("/hidden_size", json!(0), &["`hidden_size`"]),
        size("/hidden_size", json!(1.5), &["`hidden_size` must be a whole number", "1.5"]),
        size("/hidden_size", json!([64]), &["`hidden_size` must be a whole number", "[64]"]),
        size("/hidden_size", json!(null), &["`hidden_size` is missing"]),
        size("/vocab_size", json!(1u64 << 32), &["`vocab_size`", "16777216"]),
        size("/vocab_size", json!(0), &["`vocab_size`"]),
        size("/num_key_value_heads", json!(0), &["`num_key_value_heads`"]),
        size("/num_attention_heads", json!(u64::MAX), &["num_attention_heads"]),
        size("/head_dim", json!(1u64 << 50), &["`head_dim`"]),
        size("/max_position_embeddings", json!(0), &["`max_position_embeddings`"]),
        size("/max_position_embeddings", json!(1u64 << 40), &["`max_position_embeddings`", "1099511627776"]),
        size("/rms_norm_eps", json!(1e308), &["`rms_norm_eps`"]),
        size("/rms_norm_eps", json!(-1e-6), &["`rms_norm_eps`"]),
        size("/rms_norm_eps", json!("1e-6"), &["`rms_norm_eps` must be a number"]),
        size("/rope_theta", json!(-1), &["`rope_theta` must be above 0"]),
        size("/rope_theta", json!("NaN"), &["`rope_theta` must be a number"]),
        size("/rope_scaling/factor", json!(5e-324), &["RoPE scaling", "angles"]),
        size("/rope_scaling/factor", json!(0), &["rope_scaling.factor` must be above 0"]),
        size("/rope_scaling/original_max_position_embeddings", json!(0), &["original_max_position_embeddings"]),
    ] {
        let message = refusal("llama-tiny", &[(field, value.clone())]);
        assert!(message.starts_with("config.json: "), "{field} {value}: {message}");
        assert!(words.iter().all(|word| message.contains(word)), "{field} {value}: {message}");
    }
}

#[test]
fn sizes_that_a_config_may_have_and_the_file_does_not() {
    // Each would take gigabytes if memory were allocated before the tensor is checked.
    for (field, value, tensor) in [
        ("/vocab_size", 1 << 24, "model.embed_tokens.weight"),
        ("/hidden_size", 1 << 18, "model.embed_tokens.weight"),
        ("/num_attention_heads", 1 << 12, "model.layers.0.self_attn.q_proj.weight"),
        ("/intermediate_size", 1 << 20, "model.layers.0.mlp.gate_proj.weight"),
        ("/num_hidden_layers", 1 << 12, "model.layers.3.input_layernorm.weight"),
    ] {
        let message = refusal("llama-seqcls-tiny", &[(field, json!(value)), ("/head_dim", json!(16))]);
        assert!(message.starts_with("model.safetensors: tensor `"), "{field}: {message}");
        assert!(message.contains(tensor), "{field}: {message}");
    }
    let labels: serde_json::Map<String, Value> = (0..1 << 16).map(|i| (i.to_string(), json!("x"))).collect();
    let message = refusal("qwen3-seqcls-tiny", &[("/id2label", json!(labels))]);
    assert!(message.contains("`score.weight` has") && message.contains("names 65536 (`id2label`"), "{message}");
}

#[test]
fn there_are_as_many_positions_as_an_input_may_have_tokens() {
    let dir = copy_of("llama-tiny");
    config("/max_position_embeddings", json!(1u64 << 31)).apply(dir.path());
    let options = options(ModelSource::Path(dir.path().to_owned()));
    let mut model = crate::load(&options).unwrap();
    let longest = model.backend.info().capabilities.max_input_length;
    assert_eq!(longest, 512, "as sentence_bert_config.json says");
    for (length, fits) in [(longest, true), (longest + 1, false)] {
        let ragged = RaggedBatch::from_sequences(&[vec![5; length]]).unwrap();
        let batch = Batch { ragged, wanted: vec![Outputs::EMBEDDING] };
        assert_eq!(model.backend.forward(&batch, None).is_ok(), fits, "{length}");
    }
    Delete("sentence_bert_config.json").apply(dir.path());
    Remove("tokenizer_config.json", "model_max_length").apply(dir.path());
    let message = crate::load(&options).err().map(|error| error.to_string()).unwrap_or_default();
    for word in ["config.json: ", "2147483648 tokens", "`max_position_embeddings`", "`head_dim` (16)", "268435456"] {
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn fields_that_contradict_each_other() {
    for (changes, words) in [
        (&[("/num_attention_heads", json!(3)), ("/head_dim", json!(null))][..], &["hidden_size", "(64)", "(3)"][..]),
        (&[("/num_key_value_heads", json!(8))], &["num_attention_heads` (4)", "num_key_value_heads` (8)"]),
        (&[("/head_dim", json!(32))], &["q_proj.weight", "[64, 64]", "[128, 64]"]),
        (&[("/num_key_value_heads", json!(4))], &["k_proj.weight", "[32, 64]", "[64, 64]"]),
    ] {
        let message = refusal("llama-tiny", changes);
        assert!(words.iter().all(|word| message.contains(word)), "{changes:?}: {message}");
    }
}

#[test]
fn text_that_is_json_only_at_first_sight() {
    let nested = format!("{{\"a\": {}", "[".repeat(100_000)).leak();
    let number = format!("{{\"model_type\": \"llama\", \"hidden_size\": {}}}", "9".repeat(1000)).leak();
    let named = "must be a whole number";
    check(vec![
        ("llama-tiny", Write("config.json", ""), &["config.json", "is not JSON"]),
        ("llama-tiny", Write("config.json", "null"), &["config.json: must be a JSON object"]),
        ("llama-tiny", Write("config.json", "{} {}"), &["config.json", "is not JSON"]),
        ("llama-tiny", Write("config.json", "{\"hidden_size\": NaN}"), &["config.json", "is not JSON"]),
        ("llama-tiny", Write("config.json", "{\"hidden_size\": 1e400}"), &["config.json", "out of range"]),
        ("llama-tiny", Write("config.json", nested), &["config.json", "recursion"]),
        ("llama-tiny", Write("config.json", number), &["config.json", "out of range"]),
        ("llama-tiny", Write("tokenizer.json", nested), &["tokenizer.json"]),
        ("llama-tiny", Write("modules.json", nested), &["modules.json", "recursion"]),
        ("llama-tiny", config("/hidden_size", json!("x".repeat(1 << 20))), &[named, "xxx..."]),
    ]);
}

#[test]
fn modules_are_counted() {
    let dense = json!({"type": "sentence_transformers.models.Dense", "path": "2_Dense"});
    let mut modules = vec![
        json!({"type": "sentence_transformers.models.Transformer", "path": ""}),
        json!({"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}),
    ];
    modules.extend(vec![dense; 17]);
    let dir = copy_of("qwen3-tiny");
    write_json(&dir.path().join("modules.json"), &json!(modules));
    let refused = || open(dir.path()).unwrap_err().to_string();
    assert!(refused().contains("modules.json: more than 16 Dense and LayerNorm modules"), "{}", refused());
    let modules = vec![json!({"type": "a"}); 65];
    write_json(&dir.path().join("modules.json"), &json!(modules));
    assert!(refused().contains("modules.json: has 65 modules, the limit is 64"), "{}", refused());
}

fn tokenizer(pointer: &'static str, value: Value) -> Change {
    Set("tokenizer.json", pointer, value)
}

#[test]
fn tokenizers_that_know_more_tokens_than_the_model() {
    let around = json!({
        "type": "TemplateProcessing",
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "<end>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<end>": {"id": "<end>", "ids": [1024], "tokens": ["<end>"]}},
    });
    let mut between = around.clone();
    between["single"] = json!([{"Sequence": {"id": "A", "type_id": 0}}]);
    between["pair"].as_array_mut().unwrap().push(json!({"SpecialToken": {"id": "<end>", "type_id": 1}}));
    let roberta = json!({"type": "RobertaProcessing", "sep": ["</s>", 4_000_000_000u32], "cls": ["<s>", 0],
        "trim_offsets": true, "add_prefix_space": false});
    check(vec![
        ("qwen3-tiny", tokenizer("/post_processor", around), &["tokenizer.json", "token id 1024 to texts", "1024"]),
        ("qwen3-tiny", tokenizer("/post_processor", between), &["tokenizer.json", "token id 1024 to texts"]),
        ("qwen3-tiny", tokenizer("/post_processor", roberta), &["tokenizer.json", "token id 4000000000 to texts"]),
        ("qwen3-tiny", tokenizer("/model/vocab/zebra", json!(u32::MAX)), &["\"zebra\" has the id 4294967295"]),
        ("qwen3-tiny", tokenizer("/model/vocab/zebra", json!(-1)), &["tokenizer.json"]),
        ("qwen3-tiny", tokenizer("/model/vocab/zebra", json!(1u64 << 40)), &["tokenizer.json"]),
        ("qwen3-tiny", config("/vocab_size", json!(3)), &["tokenizer.json", "`vocab_size` is 3"]),
    ]);
}

#[test]
fn tokenizers_that_are_none() {
    let empty = json!({"type": "BPE", "vocab": {}, "merges": []});
    // The library panics on each of these; loading returns an ordinary error.
    let precompiled = json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAP8="});
    let no_content = json!({"type": "Precompiled"});
    let word_level = json!({"type": "WordLevel", "vocab": {"b": 0}, "unk_token": "<unk>"});
    check(vec![
        ("qwen3-tiny", Write("tokenizer.json", ""), &["tokenizer.json"]),
        ("qwen3-tiny", Write("tokenizer.json", "[]"), &["tokenizer.json"]),
        ("qwen3-tiny", tokenizer("/model", json!({"type": "Telepathy"})), &["tokenizer.json"]),
        ("qwen3-tiny", tokenizer("/model", json!(null)), &["tokenizer.json"]),
        ("qwen3-tiny", tokenizer("/model/merges", json!([["no", "such"]])), &["tokenizer.json"]),
        (
            "qwen3-tiny",
            tokenizer("/pre_tokenizer", json!({"type": "Split", "pattern": {"Regex": "("}})),
            &["tokenizer.json"],
        ),
        ("qwen3-tiny", tokenizer("/normalizer", precompiled), &["tokenizer.json: cannot be read: ", "Precompiled"]),
        ("qwen3-tiny", tokenizer("/normalizer", no_content), &["tokenizer.json: cannot be read: ", "Precompiled"]),
        // Every text has an unknown word, and there is no token for it.
        ("qwen3-tiny", tokenizer("/model", word_level), &["tokenizer.json"]),
    ]);
    let dir = copy_of("qwen3-tiny");
    let path = dir.path().join("tokenizer.json");
    let mut json = read_json(&path);
    (json["model"], json["added_tokens"], json["post_processor"]) = (empty, json!([]), json!(null));
    write_json(&path, &json);
    let message = open(dir.path()).unwrap_err().to_string();
    assert_eq!(message, "tokenizer.json: has no tokens");
}

#[test]
fn a_tensor_that_is_larger_than_the_config_says_is_refused_too() {
    let dir = copy_of("llama-tiny");
    edit_tensors(dir.path(), |tensors| {
        let tensor = tensors.get_mut("model.layers.1.mlp.down_proj.weight").unwrap();
        tensor.shape = vec![128, 128];
        tensor.bytes.resize(4 * 128 * 128, 0);
    });
    let error = crate::load(&options(ModelSource::Path(dir.path().to_owned()))).unwrap_err().to_string();
    assert!(error.contains("down_proj.weight` has shape [128, 128], the config requires [64, 128]"), "{error}");
}
