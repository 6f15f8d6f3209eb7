//! Configs and files of LFM2.

use super::configs::config_with;
use super::refusals::Change::Remove;
use super::refusals::{check, config};
use super::{copy_of, edit_tensors, fixture, open, read_json};
use crate::config::{ConvolutionConfig, MaskConfig};
use crate::formats::config_json;
use serde_json::{Value, json};

#[test]
fn layers_with_convolutions() {
    let layers = |changes: &[(&str, Value)]| config_with("lfm2-tiny", changes).convolution_layers;
    assert_eq!(layers(&[]), [true, false, true]);
    let older = ("layer_types", json!(null));
    assert_eq!(layers(&[older.clone(), ("full_attn_idxs", json!([0, 2]))]), [false, true, false]);
    assert_eq!(layers(std::slice::from_ref(&older)), [false; 3], "as in transformers");
    let config = config_with("lfm2-tiny", &[]);
    assert_eq!(config.convolutions, Some(ConvolutionConfig { kernel: 3, bias: false }));
    assert_eq!(config.typical_weight(), "model.layers.0.conv.in_proj.weight");
    assert_eq!(config_with("lfm2-tiny", &[older]).typical_weight(), "model.layers.0.self_attn.q_proj.weight");
    assert!(config_with("lfm2-bidirectional-tiny", &[]).convolutions.unwrap().bias);
}

#[test]
fn neighbours_follow_the_mask() {
    let neighbours = |name: &str| {
        let config = config_with(name, &[]);
        (config.attention.mask, config.convolutions.unwrap().offsets(config.attention.mask))
    };
    assert_eq!(neighbours("lfm2-tiny"), (MaskConfig::Causal, -2..1));
    assert_eq!(neighbours("lfm2-bidirectional-tiny"), (MaskConfig::Full, -1..2));
    // As later versions of transformers save the bidirectional model.
    let mut saved = read_json(&fixture("lfm2-bidirectional-tiny").join("config.json"));
    saved["model_type"] = json!("lfm2_bidirectional");
    saved.as_object_mut().unwrap().remove("auto_map");
    assert_eq!(config_json::read(&saved).unwrap().attention.mask, MaskConfig::Full);
    // With four neighbours, two are before the token.
    let four = config_with("lfm2-bidirectional-tiny", &[("conv_L_cache", json!(4))]);
    assert_eq!(four.convolutions.unwrap().offsets(MaskConfig::Full), -2..2);
}

#[test]
fn the_width_of_the_feed_forward_block_is_adjusted() {
    let width = |changes: &[(&str, Value)]| config_with("lfm2-tiny", changes).feed_forward.intermediate_size;
    // Two thirds of 90 are 60, rounded up to a multiple of 8.
    assert_eq!(width(&[]), 64);
    assert_eq!(width(&[("block_multiple_of", json!(256))]), 256);
    assert_eq!(width(&[("block_ffn_dim_multiplier", json!(1.25))]), 80);
    assert_eq!(width(&[("block_auto_adjust_ff_dim", json!(false))]), 90);
    assert_eq!(width(&[("block_ff_dim", json!(null)), ("intermediate_size", json!(48))]), 32);
    let mut unset = read_json(&fixture("lfm2-tiny").join("config.json"));
    unset["block_ffn_dim_multiplier"] = json!(null);
    assert_eq!(config_json::read(&unset).unwrap().feed_forward.intermediate_size, 60, "null does not round either");
}

#[test]
fn names_of_the_published_code_are_read() {
    let dir = copy_of("lfm2-bidirectional-tiny");
    edit_tensors(dir.path(), |tensors| {
        *tensors = std::mem::take(tensors).into_iter().map(|(name, it)| (format!("lfm2.{name}"), it)).collect();
    });
    open(dir.path()).unwrap();
}

#[test]
fn what_is_not_lfm2_is_refused() {
    let model = "lfm2-tiny";
    check(vec![
        (model, config("/layer_types", json!(["conv"])), &["layer_types", "num_hidden_layers"]),
        (model, config("/layer_types", json!(["conv", "sliding_attention", "conv"])), &["sliding_attention", "conv"]),
        (model, config("/conv_L_cache", json!(9)), &["conv_L_cache", "8"]),
        (model, config("/conv_L_cache", json!(0)), &["conv_L_cache", "8"]),
        (model, config("/conv_L_cache", json!(4)), &["conv.conv.weight"]),
        (model, config("/conv_bias", json!(true)), &["conv.in_proj.bias"]),
        (model, config("/block_multiple_of", json!(0)), &["block_multiple_of"]),
        (model, config("/block_ffn_dim_multiplier", json!(-1.0)), &["block_ffn_dim_multiplier"]),
        (model, config("/block_ffn_dim_multiplier", json!(2.0)), &["feed_forward.w1.weight"]),
        (model, config("/block_ff_dim", json!(1_u64 << 60)), &["intermediate_size"]),
        (model, config("/tie_embedding", json!(false)), &["tie_embedding"]),
        // Only the published code and its class lift the mask of the convolutions too.
        (model, config("/is_causal", json!(false)), &["is_causal"]),
        (model, config("/use_bidirectional_attention", json!(true)), &["use_bidirectional_attention"]),
        (model, config("/auto_map", json!({"AutoModel": "modeling.Other"})), &["auto_map", "modeling.Other"]),
        ("lfm2-bidirectional-tiny", Remove("config.json", "auto_map"), &["Lfm2BidirectionalModel"]),
    ]);
}
