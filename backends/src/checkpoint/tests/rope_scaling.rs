//! Scaling of rotary positions in `config.json`.

use super::configs::config_with;
use super::refusals::config;
use super::{copy_of, open, rope};
use crate::config::{RopeScaling, TransformerConfig, Yarn};
use serde_json::{Value, json};

fn scaled(model: &str, scaling: Value) -> TransformerConfig {
    config_with(model, &[("rope_scaling", scaling)])
}

#[test]
fn yarn_has_the_defaults_of_transformers() {
    let yarn = |scaling: Value| match rope(&scaled("qwen3-tiny", scaling)).scaling {
        RopeScaling::Yarn(yarn) => yarn,
        ref other => panic!("{other:?}"),
    };
    let published = yarn(json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}));
    let expected = Yarn {
        factor: 4.0,
        attention_factor: 0.1 * 4_f64.ln() + 1.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_max_position_embeddings: 128,
        truncate: true,
    };
    assert_eq!(published, expected);
    let longest = config_with("qwen3-tiny", &[]).max_position_embeddings;
    let without = yarn(json!({"type": "yarn", "factor": 2.0, "beta_fast": 16, "truncate": false}));
    assert_eq!((without.original_max_position_embeddings, without.beta_fast, without.truncate), (longest, 16.0, false));
    let named = |more: Value| {
        let mut scaling = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128});
        scaling.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        yarn(scaling).attention_factor
    };
    assert_eq!(named(json!({"attention_factor": 1.5})), 1.5);
    let ratio = (0.1 * 0.7 * 4_f64.ln() + 1.0) / (0.1 * 0.5 * 4_f64.ln() + 1.0);
    assert_eq!(named(json!({"mscale": 0.7, "mscale_all_dim": 0.5})), ratio);
    assert_eq!(named(json!({"mscale": 0.7})), 0.1 * 4_f64.ln() + 1.0);
}

#[test]
fn a_scaling_without_a_base_has_the_default_of_transformers_own_class() {
    // The published code, whose default is 10,000, reads no such object.
    let unscaled = || ("rope_scaling", json!({"rope_type": "default"}));
    let theta = |model, fields: &[(&str, Value)]| rope(&config_with(model, fields)).theta;
    let without = ("rope_parameters", json!(null));
    for (model, own_default) in [("nomic-moe-tiny", 1e3), ("jina-v3-tiny", 2e4)] {
        let base = ("rotary_emb_base", json!(null));
        assert_eq!(theta(model, &[without.clone(), base.clone()]), 1e4, "{model}");
        assert_eq!(theta(model, &[without.clone(), base.clone(), unscaled()]), own_default, "{model}");
        assert_eq!(theta(model, &[without.clone(), ("rotary_emb_base", json!(5.0)), unscaled()]), 5.0, "{model}");
    }
}

#[test]
fn the_attention_factor_of_yarn_is_one_on_the_scores() {
    let yarn =
        json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "attention_factor": 1.5});
    let config = scaled("qwen3-tiny", yarn);
    let expected = 1.5 * 1.5 / (config.attention.head_dim as f32).sqrt();
    assert!((config.attention.scale.unwrap() - expected).abs() < 1e-6);
    assert_eq!(config_with("qwen3-tiny", &[]).attention.scale, None);
}

#[test]
fn dynamic_scaling_begins_behind_the_longest_input() {
    let config = scaled("qwen3-tiny", json!({"rope_type": "dynamic", "factor": 4.0}));
    assert_eq!(config, config_with("qwen3-tiny", &[]));
}

#[test]
fn an_older_scaling_does_not_borrow_the_base_of_the_newer_one() {
    let dir = copy_of("llama-tiny");
    let newer = json!({"rope_type": "linear", "factor": 4.0, "rope_theta": 5e5});
    for (field, value) in [("/rope_scaling", json!({"type": "linear", "factor": 4.0})), ("/rope_parameters", newer)] {
        config(field, value).apply(dir.path());
    }
    assert!(open(dir.path()).is_ok());
    config("/rope_theta", Value::Null).apply(dir.path());
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains("`rope_parameters` and `rope_scaling` contradict each other"), "{message}");
}
