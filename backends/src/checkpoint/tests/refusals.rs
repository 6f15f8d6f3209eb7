//! Refusals and their messages. Each case is a copy of a checkpoint with one change.

use super::{copy_of, open, read_json, write_json};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// One change of a file.
pub(super) enum Change {
    /// Sets the value at a JSON pointer, whose parent exists.
    Set(&'static str, &'static str, Value),
    /// Removes a field at the top.
    Remove(&'static str, &'static str),
    /// Replaces the file.
    Write(&'static str, &'static str),
    /// Removes the file.
    Delete(&'static str),
}
use Change::{Delete, Remove, Set, Write};

impl Change {
    pub(super) fn apply(&self, dir: &Path) {
        match self {
            Set(file, pointer, value) => {
                let mut json = read_json(&dir.join(file));
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                match json.pointer_mut(parent).unwrap() {
                    Value::Array(list) => list[key.parse::<usize>().unwrap()] = value.clone(),
                    object => object[key] = value.clone(),
                }
                write_json(&dir.join(file), &json);
            }
            Remove(file, key) => {
                let mut json = read_json(&dir.join(file));
                json.as_object_mut().unwrap().remove(*key).unwrap();
                write_json(&dir.join(file), &json);
            }
            Write(file, text) => fs::write(dir.join(file), text).unwrap(),
            Delete(file) => fs::remove_file(dir.join(file)).unwrap(),
        }
    }
}

/// Applies each change alone and checks that the refusal has all the words.
pub(super) fn check(cases: Vec<(&str, Change, &[&str])>) {
    for (name, change, words) in cases {
        let dir = copy_of(name);
        change.apply(dir.path());
        let message = match open(dir.path()) {
            Ok(_) => panic!("{name} is not refused; expected {words:?}"),
            Err(error) => error.to_string(),
        };
        assert!(words.iter().all(|word| message.contains(word)), "{name}: {message}\nlacks some of {words:?}");
    }
}

pub(super) fn config(pointer: &'static str, value: Value) -> Change {
    Set("config.json", pointer, value)
}

#[test]
fn configs_that_ask_for_more() {
    let supported = "bidirectional_pplx_qwen3, qwen3, qwen2, llama, mistral, ministral3, llama_bidirec, gemma3_text, gemma2, \
                     lfm2_bidirectional, lfm2, eurobert, bert";
    check(vec![
        ("llama-tiny", config("/model_type", json!("gemma3")), &["LlamaForCausalLM", "gemma3", supported]),
        ("llama-tiny", config("/architectures", json!(["LlamaBidirectionalModel"])), &["LlamaBidirectionalModel"]),
        ("llama-tiny", config("/hidden_act", json!("gelu_pytorch_tanh")), &["hidden_act", "gelu_pytorch_tanh", "silu"]),
        ("llama-tiny", config("/quantization_config", json!({"quant_method": "awq"})), &["awq"]),
        ("llama-tiny", config("/auto_map", json!({"AutoModel": "modeling.X"})), &["auto_map", "modeling.X"]),
        ("mistral-tiny", config("/attention_bias", json!(true)), &["attention_bias"]),
        ("qwen3-tiny", config("/mlp_bias", json!(true)), &["mlp_bias"]),
        (
            "llama-tiny",
            config("/rope_scaling/rope_type", json!("longrope")),
            &["rope_scaling.rope_type", "longrope", "llama3"],
        ),
        ("llama-tiny", config("/rope_scaling", json!({"type": "dynamic"})), &["`rope_scaling.factor` is missing"]),
        ("llama-seqcls-tiny", config("/rope_parameters/rope_type", json!("longrope")), &["longrope"]),
        (
            "llama-seqcls-tiny",
            config("/rope_parameters", json!({"full_attention": {"rope_type": "default"}})),
            &["rope_parameters.full_attention", "per layer type"],
        ),
        ("mistral-tiny", config("/rope_parameters/partial_rotary_factor", json!(0.5)), &["partial_rotary_factor"]),
        (
            "qwen3-tiny",
            config("/layer_types", json!(["full_attention", "linear_attention", "full_attention"])),
            &["layer_types", "linear_attention"],
        ),
    ]);
}

#[test]
fn configs_with_missing_or_impossible_values() {
    let sliding = json!(["full_attention", "full_attention", "sliding_attention"]);
    check(vec![
        ("llama-tiny", Remove("config.json", "hidden_size"), &["config.json", "`hidden_size` is missing"]),
        ("llama-tiny", Remove("config.json", "vocab_size"), &["`vocab_size` is missing"]),
        ("qwen3-tiny", Remove("config.json", "rope_theta"), &["`rope_theta` is missing"]),
        ("qwen3-tiny", Remove("config.json", "num_key_value_heads"), &["`num_key_value_heads` is missing"]),
        ("llama-tiny", config("/rope_scaling", json!({"rope_type": "llama3"})), &["rope_scaling.", "is missing"]),
        ("llama-tiny", config("/rope_scaling", json!({"factor": 2})), &["`rope_scaling.rope_type` is missing"]),
        ("llama-tiny", config("/rope_scaling/low_freq_factor", json!(4)), &["low_freq_factor", "(4)"]),
        ("llama-tiny", config("/rope_parameters", json!({"rope_theta": 5e5})), &["contradict"]),
        ("llama-tiny", config("/rope_theta", json!(0)), &["`rope_theta` must be above 0"]),
        ("llama-tiny", config("/hidden_size", json!("64")), &["`hidden_size` must be a whole number", "\"64\""]),
        ("llama-tiny", config("/hidden_size", json!(-64)), &["`hidden_size` must be a whole number", "-64"]),
        ("llama-tiny", config("/architectures", json!("LlamaModel")), &["`architectures`", "\"LlamaModel\""]),
        ("llama-tiny", config("/num_hidden_layers", json!(0)), &["`num_hidden_layers` must be from 1"]),
        ("llama-tiny", config("/num_hidden_layers", json!(1u64 << 60)), &["`num_hidden_layers` must be from 1"]),
        ("llama-tiny", config("/intermediate_size", json!(u64::MAX)), &["`intermediate_size` must be from 1"]),
        ("llama-tiny", config("/num_attention_heads", json!(0)), &["num_attention_heads"]),
        ("llama-tiny", config("/num_key_value_heads", json!(3)), &["num_attention_heads` (4)", "(3)"]),
        ("llama-tiny", config("/num_attention_heads", json!(6)), &["hidden_size", "(64)", "(6)"]),
        ("qwen3-tiny", config("/head_dim", json!(31)), &["`head_dim` must be even, it is 31", "`hidden_size`"]),
        ("qwen3-tiny", config("/rms_norm_eps", json!(0)), &["rms_norm_eps"]),
        ("qwen2-tiny", config("/layer_types", json!(["full_attention"])), &["layer_types", "1 entries"]),
        (
            "qwen2-tiny",
            config("/layer_types", json!(["full_attention", "full_attention", "sliding_attention"])),
            &["layer_types", "use_sliding_window"],
        ),
        ("mistral-tiny", config("/sliding_window", json!(0)), &["`sliding_window` must be above 0"]),
        ("mistral-tiny", config("/layer_types", sliding), &["`sliding_window` is missing"]),
        ("llama-tiny", Write("config.json", "{\"model_type\": "), &["config.json: is not JSON"]),
        ("llama-tiny", Write("config.json", "[1, 2]"), &["config.json: must be a JSON object"]),
        ("llama-tiny", Delete("config.json"), &["has no config.json"]),
    ]);
}

#[test]
fn encoders_that_ask_for_more() {
    check(vec![
        ("bert-mean-tiny", config("/position_embedding_type", json!("relative_key")), &["relative_key", "absolute"]),
        ("bert-mean-tiny", config("/is_decoder", json!(true)), &["`is_decoder` true"]),
        ("bert-mean-tiny", config("/add_cross_attention", json!(true)), &["`add_cross_attention` true"]),
        ("bert-mean-tiny", config("/adapters", json!({"adapters": {}})), &["`adapters`", "merged"]),
        ("bert-mean-tiny", config("/hidden_act", json!("mish")), &["hidden_act", "mish", "gelu, gelu_new, relu, silu"]),
        (
            "bert-mean-tiny",
            config("/architectures", json!(["BertForQuestionAnswering"])),
            &["BertForQuestionAnswering"],
        ),
        (
            "bert-mean-tiny",
            config("/num_attention_heads", json!(5)),
            &["`hidden_size` (32)", "`num_attention_heads` (5)"],
        ),
        ("bert-mean-tiny", config("/layer_norm_eps", json!(0)), &["`layer_norm_eps` must be between 0 and 1"]),
        ("bert-mean-tiny", config("/type_vocab_size", json!(1 << 20)), &["`type_vocab_size`"]),
        ("roberta-tiny", config("/max_position_embeddings", json!(2)), &["is 2, which leaves no row for a token"]),
        ("roberta-tiny", config("/pad_token_id", json!(-1)), &["`pad_token_id` must be a whole number"]),
        ("mpnet-tiny", config("/relative_attention_num_buckets", json!(30)), &["must be from 32 to 4096"]),
        ("electra-tiny", config("/embedding_size", json!(64)), &["`embedding_size` 64", "up to `hidden_size`, 32"]),
        ("distilbert-tiny", config("/dim", json!(30)), &["`dim` (30)", "`n_heads` (4)"]),
    ]);
}

#[test]
fn classifiers_with_wrong_labels() {
    check(vec![
        ("qwen3-seqcls-tiny", config("/num_labels", json!(2)), &["id2label", "3 labels", "2"]),
        ("qwen3-seqcls-tiny", config("/id2label", json!({"0": "a", "2": "b"})), &["`id2label.1` is missing"]),
        ("qwen3-seqcls-tiny", config("/id2label/1", json!(5)), &["`id2label.1` must be a string"]),
    ]);
}

#[test]
fn tokenizers_that_do_not_fit() {
    check(vec![
        ("llama-tiny", config("/vocab_size", json!(1000)), &["tokenizer.json", "id 1003", "1000"]),
        ("llama-tiny", Write("tokenizer.json", "{}"), &["tokenizer.json"]),
        ("llama-tiny", Delete("tokenizer.json"), &["has no tokenizer.json"]),
        (
            "llama-tiny",
            Set("tokenizer_config.json", "/model_max_length", json!("long")),
            &["tokenizer_config.json", "model_max_length"],
        ),
        ("llama-tiny", Set("tokenizer_config.json", "/model_max_length", json!(0)), &["must be above 0"]),
    ]);
}

#[test]
fn sentence_transformers_files_that_ask_for_more() {
    let module = |kind: &str| json!({"path": "x", "type": format!("sentence_transformers.models.{kind}")});
    let pooling = |key, value| Set("1_Pooling/config.json", key, value);
    check(vec![
        (
            "qwen3-tiny",
            Set("modules.json", "/1/name", json!("0")),
            &["modules.json", "two modules with the `name` \"0\""],
        ),
        ("qwen3-tiny", Set("modules.json", "/2", module("WeightedLayerPooling")), &["WeightedLayerPooling"]),
        ("qwen3-tiny", Set("modules.json", "/2", module("Transformer")), &["Transformer as module 2"]),
        (
            "qwen3-tiny",
            Set("modules.json", "/1", module("WeightedLayerPooling")),
            &["WeightedLayerPooling as module 1"],
        ),
        ("qwen3-tiny", Set("modules.json", "/0", module("Router")), &["has no x/router_config.json"]),
        ("qwen3-tiny", Set("modules.json", "/0", module("Asym")), &["has no x/router_config.json"]),
        (
            "qwen3-tiny",
            Set("modules.json", "/0", module("StaticEmbedding")),
            &["Pooling as module 1", "StaticEmbedding instead of"],
        ),
        ("qwen3-tiny", Set("modules.json", "/1", module("Normalize")), &["Normalize as module 1"]),
        ("qwen3-tiny", Set("modules.json", "/1", module("Dense")), &["Dense as module 1"]),
        (
            "qwen3-tiny",
            Set("modules.json", "/0/type", json!("custom_st.Transformer")),
            &["custom_st.Transformer", "code"],
        ),
        ("qwen3-tiny", Set("modules.json", "/1/type", json!("Pooling")), &["the class Pooling"]),
        ("qwen3-tiny", Set("modules.json", "/0/path", json!("0_Transformer")), &["0_Transformer"]),
        ("qwen3-tiny", Set("modules.json", "/1/path", json!("../1_Pooling")), &["leaves the model's folder"]),
        ("qwen3-tiny", Set("modules.json", "/2", module("Dense")), &["has no x/config.json"]),
        ("qwen3-tiny", Write("modules.json", "[]"), &["no Pooling"]),
        ("qwen3-tiny", Delete("1_Pooling/config.json"), &["has no 1_Pooling/config.json"]),
        (
            "qwen3-tiny",
            pooling("/pooling_mode_median_tokens", json!(true)),
            &["pooling_mode_median_tokens", "lasttoken"],
        ),
        ("mistral-tiny", pooling("/pooling_mode", json!("splade")), &["splade", "weightedmean"]),
        ("mistral-tiny", pooling("/pooling_mode", json!(["cls", "median"])), &["median", "mean_sqrt_len"]),
        ("mistral-tiny", pooling("/pooling_mode", json!([])), &["no pooling mode"]),
        ("qwen3-tiny", pooling("/word_embedding_dimension", json!(32)), &["is 32", "64"]),
        (
            "qwen3-tiny",
            Set("config_sentence_transformers.json", "/default_prompt_name", json!("other")),
            &["default_prompt_name", "other"],
        ),
        (
            "qwen3-tiny",
            Set("config_sentence_transformers.json", "/prompts", json!([])),
            &["`prompts` must be an object"],
        ),
        (
            "llama-tiny",
            Set("sentence_bert_config.json", "/config_args", json!({"trust_remote_code": true, "is_causal": false})),
            &["sentence_bert_config.json", "`config_args` with `is_causal`"],
        ),
        (
            "llama-tiny",
            Set("sentence_bert_config.json", "/config_kwargs", json!({"a": 1})),
            &["`config_kwargs` with `a`"],
        ),
        ("llama-tiny", Set("sentence_bert_config.json", "/config_kwargs", json!([])), &["must be an object"]),
        ("llama-tiny", Set("sentence_bert_config.json", "/max_seq_length", json!(0)), &["max_seq_length"]),
    ]);
}

#[test]
fn checkpoints_without_purpose() {
    let dir = copy_of("llama-tiny");
    fs::remove_file(dir.path().join("modules.json")).unwrap();
    fs::remove_dir_all(dir.path().join("1_Pooling")).unwrap();
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("--task") && message.contains("--pooling"), "{message}");

    let message = open("/nonexistent/model").unwrap_err().to_string();
    assert!(message.contains("/nonexistent/model"), "{message}");
}

#[test]
fn names_and_texts_that_every_answer_would_repeat() {
    let prompts = |prompts: Value| Set("config_sentence_transformers.json", "/prompts", prompts);
    let long = "x".repeat(20_000);
    let labels = json!({"0": "a", "1": long.as_str(), "2": "c"});
    let many: serde_json::Map<String, Value> = (0..300).map(|i| (i.to_string(), json!(""))).collect();
    check(vec![
        ("qwen3-seqcls-tiny", config("/id2label", labels), &["`id2label.1`", "20000 bytes", "the limit is 256"]),
        ("qwen3-tiny", prompts(json!({"query": long.as_str()})), &["`prompts.query`", "20000 bytes", "16384"]),
        ("qwen3-tiny", prompts(json!({"x".repeat(200): ""})), &["`prompts.xxx", "a name of 200 bytes", "128"]),
        ("qwen3-tiny", prompts(json!(many)), &["`prompts` has 300 prompts, the limit is 256"]),
    ]);
}

#[test]
fn prompts_that_pooling_must_not_see() {
    // The prompt changes mean pooling, but not last-token pooling.
    for (name, excluded) in [("llama-tiny", true), ("qwen3-tiny", false)] {
        let dir = copy_of(name);
        Set("1_Pooling/config.json", "/include_prompt", json!(false)).apply(dir.path());
        let checkpoint = open(dir.path()).unwrap();
        assert_eq!(checkpoint.capabilities.embed.as_ref().unwrap().prompts.excluded, excluded, "{name}");
    }
    let dir = copy_of("llama-tiny");
    let weighted = json!({"pooling_mode": "weightedmean", "include_prompt": false});
    write_json(&dir.path().join("1_Pooling/config.json"), &weighted);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("include_prompt") && refused.contains("weightedmean"), "{refused}");
}

#[test]
fn a_prompt_that_may_fill_an_input_is_warned_of_where_the_libraries_pool_none() {
    let warns = |model: &str, mode: &str, include: bool| {
        let dir = copy_of(model);
        let config = json!({"pooling_mode": mode, "include_prompt": include});
        write_json(&dir.path().join("1_Pooling/config.json"), &config);
        open(dir.path()).unwrap().capabilities.warnings.join("\n").contains("`include_prompt`")
    };
    for (mode, expected) in [("mean", true), ("max", true), ("lasttoken", true), ("cls", false)] {
        assert_eq!(warns("llama-tiny", mode, false), expected, "{mode}");
    }
    assert!(!warns("llama-tiny", "mean", true));
    assert!(!warns("bert-mean-tiny", "mean", false), "the separator is pooled");
}
