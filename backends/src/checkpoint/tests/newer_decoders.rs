//! Decoders of 2025 and 2026: bounds of scores, queries that grow, and masks that only a class lifts.

use super::configs::config_with;
use super::refusals::Change::Remove;
use super::refusals::{Change, check, config};
use super::{copy_of, fixture, open, write_json};
use crate::checkpoint::{HeadSource, VectorModule};
use crate::config::{MaskConfig, PositionsConfig, QueryGrowth, RotaryConfig};
use prefold_core::Pooling;
use serde_json::{Value, json};

#[test]
fn bounds_of_scores_and_logits() {
    let bounds = |name: &str, changes: &[(&str, Value)]| {
        let config = config_with(name, changes);
        (config.attention.softcap, config.logit_softcap)
    };
    let both = |value: Value| [("attn_logit_softcapping", value.clone()), ("final_logit_softcapping", value)];
    assert_eq!(bounds("gemma2-tiny", &[]), (Some(2.0), Some(30.0)));
    assert_eq!(bounds("gemma2-tiny", &both(json!(7))), (Some(7.0), Some(7.0)));
    assert_eq!(bounds("gemma3-causal-tiny", &[]), (None, None));
    check(vec![
        ("gemma2-tiny", config("/attn_logit_softcapping", json!(0)), &["`attn_logit_softcapping` must be from"]),
        ("gemma2-tiny", config("/final_logit_softcapping", json!(1e30)), &["`final_logit_softcapping` must be"]),
        ("gemma2-tiny", config("/use_bidirectional_attention", json!(true)), &["`use_bidirectional_attention` true"]),
    ]);
}

#[test]
fn a_class_has_bounds_that_the_file_leaves_out_and_none_that_are_null() {
    let bounds = |change: fn(&'static str) -> Change| {
        let dir = copy_of("gemma2-tiny");
        for field in ["attn_logit_softcapping", "final_logit_softcapping"] {
            change(field).apply(dir.path());
        }
        let config = open(dir.path()).unwrap().config;
        (config.attention.softcap, config.logit_softcap)
    };
    assert_eq!(bounds(|field| Remove("config.json", field)), (Some(50.0), Some(30.0)));
    let null = |field: &'static str| match field {
        "attn_logit_softcapping" => config("/attn_logit_softcapping", Value::Null),
        _ => config("/final_logit_softcapping", Value::Null),
    };
    assert_eq!(bounds(null), (None, None));
}

#[test]
fn windows_of_every_second_layer() {
    let windows = |changes: &[(&str, Value)]| config_with("gemma2-tiny", changes).sliding_windows;
    assert_eq!(windows(&[]), [Some(16), None, Some(16), None]);
    let types = json!(["full_attention", "full_attention", "sliding_attention", "full_attention"]);
    assert_eq!(windows(&[("layer_types", types)]), [None, None, Some(16), None]);
    assert_eq!(windows(&[("is_causal", json!(false))]), [Some(17), None, Some(17), None]);
}

#[test]
fn transformers_classifiers_pool_the_last_token_that_is_not_padding_without_a_mask_too() {
    let classifier = |name: &str, class: &str, changes: &[(&str, Value)]| {
        let class = [("architectures", json!([class])), ("pooling", json!("avg")), ("is_causal", json!(false))];
        let head = config_with(name, &[&class, changes].concat()).classifier;
        (head.pooling, head.padding)
    };
    let ministral3 = "Ministral3ForSequenceClassification";
    assert_eq!(classifier("ministral3-tiny", ministral3, &[]), (Pooling::LastToken, Some(421)));
    let code = json!({"AutoModelForSequenceClassification": "modeling.Ministral3ForSequenceClassification"});
    assert_eq!(classifier("ministral3-tiny", ministral3, &[("auto_map", code)]), (Pooling::Mean, None));
    let bidirec = "LlamaBidirectionalForSequenceClassification";
    assert_eq!(classifier("llama-bidirec-tiny", bidirec, &[]), (Pooling::Mean, None));
}

#[test]
fn queries_that_grow_with_their_position() {
    let found = config_with("ministral3-tiny", &[]);
    let PositionsConfig::Rotary(rotary @ RotaryConfig { query_growth: Some(growth), .. }) = &found.positions else {
        panic!("{:?}", found.positions)
    };
    assert_eq!(*growth, QueryGrowth { beta: 0.5, every: 16 });
    assert_eq!([0, 15, 16, 31, 32].map(|position| growth.factor(position) > 1.0), [false, false, true, true, true]);
    assert!((growth.factor(40) - (1.0 + 0.5 * 3_f64.ln())).abs() < 1e-12);
    // A second cache, where a position needs it.
    assert_eq!((rotary.growth_within(16), rotary.growth_within(17)), (None, Some(*growth)));
    assert_eq!([16, 17].map(|positions| found.derived_values(positions)), [16 * 8, 2 * 17 * 8]);
    assert_eq!((found.attention.mask, found.sliding_windows[0]), (MaskConfig::Full, None));
    let windows = config_with("ministral3-tiny", &[("sliding_window", json!(9))]).sliding_windows;
    assert_eq!(windows, [Some(10); 3], "nine tokens on either side");
    let types = json!(["full_attention", "full_attention", "full_attention"]);
    let changes = [("sliding_window", json!(9)), ("layer_types", types)];
    assert_eq!(config_with("ministral3-tiny", &changes).sliding_windows, windows, "its class reads no types");
    let lacks = |field: &str| {
        let mut rope = json!({"rope_type": "default", "original_max_position_embeddings": 16,
            "llama_4_scaling_beta": 0.5, "rope_theta": 10000.0});
        rope.as_object_mut().unwrap().remove(field);
        config("/rope_parameters", rope)
    };
    check(vec![
        ("ministral3-tiny", lacks("llama_4_scaling_beta"), &["`rope_parameters.llama_4_scaling_beta` is missing"]),
        (
            "ministral3-tiny",
            lacks("original_max_position_embeddings"),
            &["original_max_position_embeddings", "missing"],
        ),
        ("ministral3-tiny", Remove("config.json", "rope_parameters"), &["`rope_theta` is missing"]),
        (
            "ministral3-tiny",
            config("/rope_parameters/llama_4_scaling_beta", json!(-1)),
            &["`rope_parameters.llama_4_scaling_beta` must be from 0"],
        ),
        ("ministral3-tiny", config("/attention_bias", json!(true)), &["attention_bias"]),
    ]);
}

#[test]
fn masks_that_a_class_lifts() {
    for name in ["pplx-tiny", "bidirlm-tiny"] {
        assert_eq!(config_with(name, &[]).attention.mask, MaskConfig::Full, "{name}");
    }
    check(vec![
        // BidirLM of Gemma 3, whose windows no public definition states.
        ("bidirlm-tiny", Remove("config.json", "hidden_act"), &["BidirLMModel", "bidirlm", "qwen3"]),
        ("bidirlm-tiny", config("/architectures", json!(["BidirLMForTokenClassification"])), &["BidirLMModel"]),
        ("pplx-tiny", config("/auto_map", json!({"AutoModel": "modeling.Other"})), &["auto_map", "modeling.Other"]),
    ]);
}

#[test]
fn the_quantizer_is_the_last_module() {
    let checkpoint = open(fixture("pplx-tiny")).unwrap();
    let HeadSource::Dense { modules, .. } = &checkpoint.head else { panic!("{:?}", checkpoint.head) };
    assert_eq!(*modules, [VectorModule::Int8 { width: 32 }]);
    assert!(!checkpoint.capabilities.embed.as_ref().unwrap().normalizes);
    let list = |types: &[&str]| {
        let folder = |name: &str| if name.ends_with("Pooling") { "1_Pooling" } else { "" };
        let module = |(idx, name): (usize, &&str)| json!({"idx": idx, "name": idx.to_string(), "path": folder(name), "type": name});
        types.iter().enumerate().map(module).collect::<Vec<_>>()
    };
    let [transformer, pooling, normalize] =
        ["Transformer", "Pooling", "Normalize"].map(|name| format!("sentence_transformers.models.{name}"));
    let quantizer = "st_quantize.FlexibleQuantizer";
    for (types, words) in [
        (vec![transformer.as_str(), &pooling, quantizer, &normalize], "after st_quantize.FlexibleQuantizer"),
        (vec![transformer.as_str(), quantizer, &pooling], "FlexibleQuantizer as module 1"),
        (vec![transformer.as_str(), &pooling, "st_quantize.Other"], "st_quantize.Other"),
    ] {
        let dir = copy_of("pplx-tiny");
        write_json(&dir.path().join("modules.json"), &Value::Array(list(&types)));
        let refused = open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(words), "{words}: {refused}");
    }
}
