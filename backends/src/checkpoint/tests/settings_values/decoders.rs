//! Activations, biases, masks, bounds and convolutions of decoders, and of what was trained from them.

use super::encoders::{flag, pooling};
use super::*;
use crate::config::MaskConfig;

fn activation(config: &TransformerConfig) -> Value {
    json!(format!("{:?}", config.feed_forward.activation))
}

fn is_full(config: &TransformerConfig) -> Value {
    json!(config.attention.mask == MaskConfig::Full)
}

/// Decoders without a mask.
const FULL: &[&str] = &[
    "llama-bidirec-tiny",
    "qwen3-bidirectional-tiny",
    "pplx-tiny",
    "bidirlm-tiny",
    "gte-qwen2",
    "lfm2-bidirectional-tiny",
    "lfm2_bidirectional",
];

/// Families with a causal mask that a field lifts.
const CAUSAL: &[&str] = &[
    "llama-tiny",
    "qwen3-tiny",
    "jina-v5-small-tiny",
    "qwen2-tiny",
    "mistral-tiny",
    "ministral3-tiny",
    "gemma3-causal-tiny",
    "embeddinggemma-tiny",
];

pub(super) fn cases() -> Vec<Case> {
    [activation_cases(), bias_cases(), mask_cases(), gemma_cases(), lfm2_cases(), head_cases()]
        .into_iter()
        .flatten()
        .collect()
}

fn activation_cases() -> Vec<Case> {
    let silu = json!([
        ["silu", "Silu"],
        ["swish", "Silu"],
        [null, "Silu"],
        ["gelu", REFUSED],
        ["relu", REFUSED],
        ["gelu_new", REFUSED]
    ]);
    let tanh = json!([
        ["gelu_pytorch_tanh", "GeluTanh"],
        ["gelu_new", "GeluTanh"],
        [null, "GeluTanh"],
        ["gelu", REFUSED],
        ["silu", REFUSED],
        ["relu", REFUSED]
    ]);
    let any = json!([
        ["gelu", "Gelu"],
        ["gelu_new", "GeluTanh"],
        ["relu", "Relu"],
        ["silu", "Silu"],
        ["swish", "Silu"],
        [null, "Silu"]
    ]);
    let only: Vec<&str> =
        [QWEN3, QWEN2, MISTRAL, LLAMA, LFM2].concat().into_iter().filter(|it| *it != "bidirlm-tiny").collect();
    vec![
        gives(&[&only], "hidden_act", json!({}), silu, activation),
        gives(&[&["bidirlm-tiny"]], "hidden_act", json!({}), json!([["silu", "Silu"]]), activation),
        gives(&[EUROBERT], "hidden_act", json!({}), any, activation),
        gives(&[GEMMA3, GEMMA2], "hidden_activation", json!({}), tanh, activation),
    ]
}

fn bias_cases() -> Vec<Case> {
    let off = json!([[false, false], [null, false], [true, REFUSED]]);
    let with_bias: &[&[&str]] = &[LLAMA, EUROBERT, QWEN3, GEMMA3, GEMMA2];
    let qkv: fn(&TransformerConfig) -> Value = |it| json!(it.attention.qkv_bias);
    let up: fn(&TransformerConfig) -> Value = |it| json!(it.feed_forward.input_bias);
    vec![
        gives(with_bias, "attention_bias", json!({}), flag(), qkv),
        gives(with_bias, "attention_bias", json!({}), flag(), |it| json!(it.attention.output_bias)),
        gives(&[MISTRAL], "attention_bias", json!({}), off.clone(), qkv),
        gives(&[LLAMA, EUROBERT], "mlp_bias", json!({}), flag(), up),
        gives(&[LLAMA, EUROBERT], "mlp_bias", json!({}), flag(), |it| json!(it.feed_forward.output_bias)),
        gives(&[QWEN3, QWEN2, MISTRAL, GEMMA3, GEMMA2], "mlp_bias", json!({}), off, up),
        gives(&[LLAMA, EUROBERT, QWEN3, QWEN2, MISTRAL], "tie_word_embeddings", json!({}), flag(), |it| {
            json!(it.tie_word_embeddings)
        }),
        gives(
            &[GEMMA3, GEMMA2, LFM2],
            "tie_word_embeddings",
            json!({}),
            json!([[true, true], [false, false], [null, true]]),
            |it| json!(it.tie_word_embeddings),
        ),
    ]
}

fn mask_cases() -> Vec<Case> {
    let causal = json!({"is_causal": null, "use_bidirectional_attention": null});
    let kept: &[&[&str]] = &[GEMMA2, &["lfm2-tiny"]];
    let bidirectional = json!([[true, REFUSED], [false, false], [null, false]]);
    let is_causal = json!([[true, false], [false, true], [null, false]]);
    vec![
        gives(&[CAUSAL], "use_bidirectional_attention", causal.clone(), flag(), is_full),
        gives(kept, "use_bidirectional_attention", causal.clone(), bidirectional, is_full),
        gives(&[&CAUSAL[..6], GEMMA2], "is_causal", causal.clone(), is_causal, is_full),
        gives(
            &[&["lfm2-tiny"], GEMMA3],
            "is_causal",
            causal,
            json!([[true, false], [false, REFUSED], [null, false]]),
            is_full,
        ),
        gives(
            &[ENCODERS.as_slice(), &[EUROBERT, FULL]].concat(),
            "is_causal",
            json!({}),
            json!([[true, REFUSED], [false, true], [null, true]]),
            is_full,
        ),
    ]
}

fn gemma_cases() -> Vec<Case> {
    let off = json!([[null, null], [30.0, REFUSED], [50.0, REFUSED], [1.0, REFUSED], [0.5, REFUSED]]);
    let on = json!([[0.5, 0.5], [2.0, 2.0], [30.0, 30.0], [50.0, 50.0], [1000.0, 1000.0], [0.0, REFUSED]]);
    let scores: fn(&TransformerConfig) -> Value = |it| json!(it.attention.softcap);
    let logits: fn(&TransformerConfig) -> Value = |it| json!(it.logit_softcap);
    vec![
        gives(
            &[GEMMA3, GEMMA2],
            "query_pre_attn_scalar",
            json!({}),
            json!([[1, 1.0], [4, 0.5], [6.25, 0.4], [64, 0.125], [256, 0.0625], [0, REFUSED]]),
            |it| json!(it.attention.scale),
        ),
        gives(&[GEMMA3], "attn_logit_softcapping", json!({}), off.clone(), scores),
        gives(&[GEMMA3], "final_logit_softcapping", json!({}), off, logits),
        gives(&[GEMMA2], "attn_logit_softcapping", json!({}), on.clone(), scores),
        gives(&[GEMMA2], "final_logit_softcapping", json!({}), on, logits),
        gives(&[GEMMA2], "attn_logit_softcapping", json!({}), json!([[null, 50.0]]), scores),
        gives(&[GEMMA2], "final_logit_softcapping", json!({}), json!([[null, 30.0]]), logits),
    ]
}

fn lfm2_cases() -> Vec<Case> {
    let inner: fn(&TransformerConfig) -> Value = |it| json!(it.feed_forward.intermediate_size);
    let width = json!({"block_ff_dim": 90, "block_auto_adjust_ff_dim": true, "block_multiple_of": 8, "block_ffn_dim_multiplier": 1.0});
    let convolutions: fn(&TransformerConfig) -> Value = |it| json!(it.convolution_layers);
    let three = json!({"num_hidden_layers": 3, "layer_types": null});
    vec![
        same(&[LFM2], "conv_L_cache", json!({}), json!([1, 2, 3, 5, 8]), |it| {
            json!(it.convolutions.map(|it| it.kernel))
        }),
        gives(&[LFM2], "conv_L_cache", json!({}), json!([[null, 3], [0, REFUSED], [9, REFUSED]]), |it| {
            json!(it.convolutions.map(|it| it.kernel))
        }),
        gives(&[LFM2], "conv_bias", json!({}), flag(), |it| json!(it.convolutions.map(|it| it.bias))),
        gives(&[LFM2], "block_auto_adjust_ff_dim", width.clone(), json!([[true, 64], [false, 90], [null, 64]]), inner),
        gives(
            &[LFM2],
            "block_ffn_dim_multiplier",
            width.clone(),
            json!([[0.5, 32], [1.0, 64], [1.3, 80], [2.0, 120], [3.7, 224], [0.0, REFUSED]]),
            inner,
        ),
        gives(
            &[LFM2],
            "block_multiple_of",
            width.clone(),
            json!([[1, 60], [7, 63], [16, 64], [64, 64], [256, 256], [null, 256]]),
            inner,
        ),
        gives(&[LFM2], "block_ff_dim", width, json!([[30, 24], [48, 32], [90, 64], [100, 72], [300, 200]]), inner),
        gives(
            &[LFM2],
            "full_attn_idxs",
            three.clone(),
            json!([
                [[0], [false, true, true]],
                [[1], [true, false, true]],
                [[2], [true, true, false]],
                [[0, 2], [false, true, false]],
                [[], [true, true, true]],
                [null, [false, false, false]]
            ]),
            convolutions,
        ),
        gives(
            &[LFM2],
            "layer_types",
            and(&three, json!({"layer_types": null, "full_attn_idxs": null})),
            json!([
                [["conv", "conv", "conv"], [true, true, true]],
                [["full_attention", "conv", "conv"], [false, true, true]],
                [["conv", "full_attention", "conv"], [true, false, true]],
                [["conv", "conv", "full_attention"], [true, true, false]],
                [["conv"], REFUSED],
                [["sliding_attention", "conv", "conv"], REFUSED]
            ]),
            convolutions,
        ),
    ]
}

/// The heads of classifiers: the pooling where a field names it, and the padding that they skip.
fn head_cases() -> Vec<Case> {
    let named = json!([
        ["avg", ["Mean", false]],
        ["mean", ["Mean", false]],
        ["cls", ["Cls", false]],
        ["last", ["LastToken", false]],
        ["max", REFUSED],
        [null, ["LastToken", false]]
    ]);
    let lifted: &[&[&str]] = &[
        &["llama-bidirec-tiny", "qwen3-bidirectional-tiny", "pplx-tiny", "bidirlm-tiny", "gte-qwen2"],
        &["lfm2-bidirectional-tiny", "lfm2_bidirectional"],
    ];
    vec![
        gives(lifted, "pooling", json!({}), named, pooling),
        gives(
            &[CAUSAL, GEMMA2, &["lfm2-tiny"]],
            "pad_token_id",
            json!({"auto_map": null}),
            json!([[0, 0], [1, 1], [2, 2], [7, 7], [100, 100], [null, null], [-1, null]]),
            |it| json!(it.classifier.padding),
        ),
        same(
            &[&["qwen3-bidirectional-tiny"]],
            "num_labels",
            json!({"id2label": null}),
            json!([1, 2, 3, 16, 64]),
            |it| json!(it.output_size),
        ),
        gives(
            &[&["qwen3-bidirectional-tiny"]],
            "id2label",
            json!({"num_labels": null}),
            json!([[{"0": "a"}, 1], [{"0": "a", "1": "b", "2": "c"}, 3], [{"0": "a", "1": "b"}, 2],
                [{"0": "a", "1": "b", "2": "c", "3": "d"}, 4], [null, 2], [{}, REFUSED]]),
            |it| json!(it.output_size),
        ),
    ]
}
