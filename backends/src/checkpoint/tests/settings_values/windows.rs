//! Sliding windows of layers.

use super::*;
use crate::config::MaskConfig;

/// The tokens before a token that it sees in the last layer.
fn before(config: &TransformerConfig) -> Value {
    json!(config.sliding_windows.last().copied().flatten().map(|window| window - 1))
}

/// As files count: with a mask the token itself too.
fn counted(config: &TransformerConfig) -> Value {
    let is_full = config.attention.mask == MaskConfig::Full;
    json!(config.sliding_windows.last().copied().flatten().map(|window| window - usize::from(is_full)))
}

/// The layers with a window.
fn windowed(config: &TransformerConfig) -> Value {
    json!((0..config.num_layers).filter(|layer| config.sliding_windows[*layer].is_some()).collect::<Vec<_>>())
}

/// Types of three layers, with those that have a window.
fn types_of_three() -> Value {
    let (sliding, full) = ("sliding_attention", "full_attention");
    json!([
        [[full, full, full], []],
        [[sliding, full, full], [0]],
        [[full, sliding, full], [1]],
        [[full, sliding, sliding], [1, 2]],
        [[sliding, sliding, sliding], [0, 1, 2]],
        [[full], REFUSED],
        [["chunked_attention", full, full], REFUSED]
    ])
}

const SIZES: [usize; 5] = [1, 8, 64, 512, 4096];

pub(super) fn cases() -> Vec<Case> {
    let qwen: &[&[&str]] = &[QWEN3, QWEN2];
    let some = json!({"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1, "layer_types": null,
        "num_hidden_layers": 3});
    let all = json!({"layer_types": null, "sliding_window": 8, "num_hidden_layers": 3, "use_sliding_window": true});
    let untyped = json!({"layer_types": null, "sliding_window": 8, "num_hidden_layers": 4, "global_attn_every_n_layers": 3,
        "local_attention": 16, "sliding_window_pattern": null});
    let halves = json!([[2, 1], [16, 8], [64, 32], [128, 64], [1000, 500], [0, REFUSED]]);
    let five = and(&untyped, json!({"layer_types": null, "num_hidden_layers": 5, "sliding_window_pattern": 6}));
    let two = json!({"num_hidden_layers": 2, "global_attn_every_n_layers": 3, "layer_types": null});
    let of_mistral: &[&[&str]] = &[&["mistral-tiny"]];
    vec![
        same(qwen, "sliding_window", some.clone(), json!(SIZES), counted),
        gives(qwen, "sliding_window", some.clone(), json!([[0, REFUSED], [null, REFUSED]]), counted),
        gives(
            qwen,
            "max_window_layers",
            some.clone(),
            json!([[0, [0, 1, 2]], [1, [1, 2]], [2, [2]], [3, []], [28, []], [null, REFUSED]]),
            windowed,
        ),
        gives(qwen, "use_sliding_window", some, json!([[true, [1, 2]], [false, []], [null, []]]), windowed),
        gives(&[QWEN3, QWEN2, of_mistral[0], GEMMA3, GEMMA2], "layer_types", all.clone(), types_of_three(), windowed),
        same(of_mistral, "sliding_window", all.clone(), json!(SIZES), counted),
        gives(
            of_mistral,
            "sliding_window",
            and(&all, json!({"sliding_window": null, "layer_types": null})),
            json!([[null, 4096]]),
            counted,
        ),
        same(&[&["ministral3-tiny"]], "sliding_window", json!({}), json!(SIZES), counted),
        gives(&[&["ministral3-tiny"]], "sliding_window", json!({}), json!([[null, null], [0, REFUSED]]), counted),
        same(&[&["gemma3-causal-tiny"]], "sliding_window", five.clone(), json!(SIZES), counted),
        gives(&[&["embeddinggemma-tiny"]], "sliding_window", five, halves.clone(), before),
        gives(
            &[MODERNBERT],
            "sliding_window",
            untyped.clone(),
            json!([[8, [1, 2]], [null, [1, 2]], [7, REFUSED], [16, REFUSED], [0, REFUSED]]),
            windowed,
        ),
        gives(
            &[GEMMA3],
            "sliding_window_pattern",
            untyped.clone(),
            json!([
                [1, []],
                [2, [0, 2]],
                [3, [0, 1, 3]],
                [4, [0, 1, 2]],
                [6, [0, 1, 2, 3]],
                [null, [0, 1, 2, 3]],
                [0, REFUSED]
            ]),
            windowed,
        ),
        same(&[GEMMA2], "sliding_window", json!({"num_hidden_layers": 3, "layer_types": null}), json!(SIZES), counted),
        gives(&[GEMMA2], "layer_types", untyped.clone(), json!([[null, [0, 2]]]), windowed),
        gives(&[MODERNBERT], "local_attention", two, halves, before),
        gives(
            &[MODERNBERT],
            "global_attn_every_n_layers",
            untyped,
            json!([[1, []], [2, [1, 3]], [3, [1, 2]], [4, [1, 2, 3]], [5, [1, 2, 3]], [null, [1, 2]], [0, REFUSED]]),
            windowed,
        ),
        gives(&[MODERNBERT], "layer_types", json!({"num_hidden_layers": 3}), types_of_three(), windowed),
    ]
}
