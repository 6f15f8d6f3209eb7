//! Activations, biases and positions of encoders, and the heads of their classifiers.

use super::*;
use crate::config::{DistanceBias, PositionsConfig};

/// The activation as its name here.
fn activation(config: &TransformerConfig) -> Value {
    json!(format!("{:?}", config.feed_forward.activation))
}

/// The gate, and the activation.
fn gate(config: &TransformerConfig) -> Value {
    json!([config.feed_forward.ffn_glu, activation(config)])
}

/// All activations, with the defaults of most encoders.
fn activations() -> Value {
    json!([
        ["gelu", "Gelu"],
        ["gelu_new", "GeluTanh"],
        ["gelu_pytorch_tanh", "GeluTanh"],
        ["relu", "Relu"],
        ["silu", "Silu"],
        [null, "Gelu"],
        ["mish", REFUSED]
    ])
}

pub(super) fn cases() -> Vec<Case> {
    [activation_cases(), bias_cases(), position_cases(), deberta_cases(), head_cases(), jina_cases()]
        .into_iter()
        .flatten()
        .collect()
}

fn activation_cases() -> Vec<Case> {
    let unnamed = json!({"activation_function": null});
    let unsaved = json!({"dense_act_fn": null, "is_gated_act": null});
    vec![
        gives(&[ABSOLUTE, OTHERS], "hidden_act", json!({}), activations(), activation),
        gives(&[DISTILBERT], "activation", json!({}), activations(), activation),
        gives(&[MODERNBERT], "hidden_activation", json!({}), activations(), activation),
        gives(
            &[&["nomic-tiny"]],
            "activation_function",
            json!({}),
            json!([
                ["swiglu", [true, "Silu"]],
                ["silu", [true, "Silu"]],
                ["geglu", [true, "Gelu"]],
                ["gelu", [false, "Gelu"]],
                ["relu", REFUSED],
                [null, [true, "Silu"]]
            ]),
            gate,
        ),
        gives(
            &[NOMIC],
            "hidden_act",
            and(&unnamed, json!({"activation_function": null, "num_experts": null})),
            json!([
                ["swiglu", [true, "Silu"]],
                ["silu", [true, "Silu"]],
                ["geglu", [true, "Gelu"]],
                ["relu", REFUSED],
                [null, [true, "Silu"]]
            ]),
            gate,
        ),
        gives(
            &[&["nomic-moe-tiny"]],
            "activation_function",
            json!({"num_experts": null}),
            json!([
                ["gelu", [false, "Gelu"]],
                ["swiglu", [true, "Silu"]],
                ["silu", [true, "Silu"]],
                ["geglu", [true, "Gelu"]],
                ["relu", REFUSED]
            ]),
            gate,
        ),
        gives(
            &[T5],
            "feed_forward_proj",
            unsaved.clone(),
            json!([
                ["relu", [false, "Relu"]],
                ["gelu", [false, "Gelu"]],
                ["silu", [false, "Silu"]],
                ["gated-gelu", [true, "GeluTanh"]],
                ["gated-silu", [true, "Silu"]],
                ["gated-relu", [true, "Relu"]]
            ]),
            gate,
        ),
        gives(&[&["t5-tiny"]], "feed_forward_proj", unsaved.clone(), json!([[null, [false, "Relu"]]]), gate),
        gives(&[&["mt5", "umt5-tiny"]], "feed_forward_proj", unsaved, json!([[null, [true, "GeluTanh"]]]), gate),
        gives(
            &[T5],
            "dense_act_fn",
            json!({"is_gated_act": null, "feed_forward_proj": "gated-gelu"}),
            json!([
                ["relu", [true, "Relu"]],
                ["gelu", [true, "Gelu"]],
                ["gelu_new", [true, "GeluTanh"]],
                ["silu", [true, "Silu"]],
                [null, [true, "GeluTanh"]]
            ]),
            gate,
        ),
        gives(
            &[T5],
            "is_gated_act",
            json!({"dense_act_fn": null, "feed_forward_proj": "gated-gelu"}),
            json!([[true, [true, "GeluTanh"]], [false, [false, "GeluTanh"]], [null, [true, "GeluTanh"]]]),
            gate,
        ),
    ]
}

/// A flag whose default is off.
pub(super) fn flag() -> Value {
    json!([[true, true], [false, false], [null, false]])
}

fn bias_cases() -> Vec<Case> {
    let experts = json!({"num_experts": 8, "moe_top_k": 1, "moe_every_n_layers": 2});
    vec![
        gives(&[NOMIC], "qkv_proj_bias", json!({}), flag(), |it| json!(it.attention.qkv_bias)),
        gives(&[NOMIC], "qkv_proj_bias", json!({}), flag(), |it| json!(it.attention.output_bias)),
        gives(&[NOMIC], "mlp_fc1_bias", json!({}), flag(), |it| json!(it.feed_forward.input_bias)),
        gives(&[NOMIC], "mlp_fc2_bias", json!({}), flag(), |it| json!(it.feed_forward.output_bias)),
        gives(&[MODERNBERT], "attention_bias", json!({}), flag(), |it| json!(it.attention.qkv_bias)),
        gives(&[MODERNBERT], "attention_bias", json!({}), flag(), |it| json!(it.attention.output_bias)),
        gives(&[MODERNBERT], "mlp_bias", json!({}), flag(), |it| json!(it.feed_forward.input_bias)),
        gives(&[MODERNBERT], "mlp_bias", json!({}), flag(), |it| json!(it.feed_forward.output_bias)),
        gives(&[MODERNBERT], "norm_bias", json!({}), flag(), |it| json!(format!("{:?}", it.norm.kind) == "LayerNorm")),
        same(&[&["nomic-moe-tiny"]], "num_experts", experts.clone(), json!([1, 2, 4, 8, 64]), |it| {
            json!(it.feed_forward.experts.map(|it| it.num_experts))
        }),
        gives(&[&["nomic-tiny"]], "num_experts", json!({}), json!([[0, null], [8, REFUSED], [null, null]]), |it| {
            json!(it.feed_forward.experts.map(|it| it.num_experts))
        }),
        gives(
            &[&["nomic-moe-tiny"]],
            "moe_top_k",
            experts.clone(),
            json!([[1, 1], [2, 2], [3, 3], [8, 8], [9, REFUSED]]),
            |it| json!(it.feed_forward.experts.map(|it| it.top_k)),
        ),
        gives(
            &[&["nomic-moe-tiny"]],
            "moe_every_n_layers",
            experts,
            json!([[2, [1, 3]], [3, [1]], [4, [1]], [5, [1]], [0, []], [null, []]]),
            |it| json!((0..it.num_layers).filter(|layer| it.experts(*layer).is_some()).collect::<Vec<_>>()),
        ),
    ]
}

fn position_cases() -> Vec<Case> {
    let types: fn(&TransformerConfig) -> Value = |it| json!(it.embeddings.token_types);
    let typed =
        ["bert-mean-tiny", "electra-tiny", "deberta-v2-tiny", "jina-v2-tiny", "jina-v2-code-tiny", "jina-v3-tiny"];
    let buckets: fn(&TransformerConfig) -> Value = |it| match it.attention.distance_bias {
        Some(DistanceBias::Buckets(it) | DistanceBias::LayerBuckets(it)) => {
            json!([it.rows, it.buckets, it.max_distance])
        }
        _ => json!(null),
    };
    vec![
        gives(
            &[ABSOLUTE, DISTILBERT],
            "position_embedding_type",
            json!({}),
            json!([
                ["absolute", true],
                [null, true],
                ["relative_key", REFUSED],
                ["relative_key_query", REFUSED],
                ["rope", REFUSED]
            ]),
            |it| json!(matches!(it.positions, PositionsConfig::Learned(_))),
        ),
        gives(
            &[NEW],
            "position_embedding_type",
            json!({}),
            json!([["rope", true], [null, true], ["absolute", REFUSED], ["relative_key", REFUSED], ["alibi", REFUSED]]),
            |it| json!(matches!(it.positions, PositionsConfig::Rotary(_))),
        ),
        same(&[&typed, AFTER_PADDING, NEW, NOMIC], "type_vocab_size", json!({}), json!([1, 2, 3, 16, 100]), types),
        gives(
            &[AFTER_PADDING],
            "pad_token_id",
            json!({"max_position_embeddings": 512}),
            json!([[0, [0, 511]], [1, [1, 510]], [2, [2, 509]], [5, [5, 506]], [100, [100, 411]], [null, [1, 510]]]),
            |it| match it.positions {
                PositionsConfig::Learned(positions) => json!([positions.padding_id, it.max_position_embeddings]),
                _ => json!(null),
            },
        ),
        gives(
            &[&["mpnet-tiny"]],
            "relative_attention_num_buckets",
            json!({}),
            json!([
                [32, [32, 32, 128]],
                [33, [33, 32, 128]],
                [64, [64, 32, 128]],
                [4096, [4096, 32, 128]],
                [16, REFUSED],
                [null, [32, 32, 128]]
            ]),
            buckets,
        ),
        gives(
            &[T5],
            "relative_attention_num_buckets",
            json!({"relative_attention_max_distance": 128}),
            json!([
                [4, [4, 4, 128]],
                [8, [8, 8, 128]],
                [12, [12, 12, 128]],
                [32, [32, 32, 128]],
                [256, [256, 256, 128]],
                [null, [32, 32, 128]]
            ]),
            buckets,
        ),
        gives(
            &[T5],
            "relative_attention_max_distance",
            json!({"relative_attention_num_buckets": 32}),
            json!([
                [9, [32, 32, 9]],
                [20, [32, 32, 20]],
                [64, [32, 32, 64]],
                [500, [32, 32, 500]],
                [30_000, [32, 32, 30_000]],
                [null, [32, 32, 128]]
            ]),
            buckets,
        ),
        gives(
            &[NOMIC],
            "rotary_scaling_factor",
            json!({"n_positions": 8192, "max_trained_positions": 512}),
            json!([[1.0, 512], [2.0, 512], [4.0, 512], [8.5, 512], [null, 8192]]),
            |it| json!(it.max_position_embeddings),
        ),
        gives(
            &[NOMIC],
            "max_trained_positions",
            json!({"n_positions": 8192, "rotary_scaling_factor": 2.0}),
            json!([[64, 64], [128, 128], [512, 512], [4096, 4096], [10_000, 8192], [null, 2048]]),
            |it| json!(it.max_position_embeddings),
        ),
    ]
}

/// Span, distance beyond which buckets grow, and the presence of both terms, own projections and a norm.
fn deberta_cases() -> Vec<Case> {
    let spans: fn(&TransformerConfig) -> Value = |it| match &it.positions {
        PositionsConfig::Disentangled(it) => json!([it.span, it.log_beyond]),
        _ => json!(null),
    };
    let terms: fn(&TransformerConfig) -> Value = |it| match &it.positions {
        PositionsConfig::Disentangled(it) => json!([it.c2p, it.p2c]),
        _ => json!(null),
    };
    let model: &[&[&str]] = &[&["deberta-v2-tiny"]];
    let lengths = json!({"max_position_embeddings": 512, "position_buckets": 16});
    vec![
        gives(
            model,
            "max_relative_positions",
            lengths.clone(),
            json!([
                [64, [16, 64]],
                [128, [16, 128]],
                [1000, [16, 1000]],
                [-1, [16, 512]],
                [0, [16, 512]],
                [null, [16, 512]]
            ]),
            spans,
        ),
        gives(
            model,
            "max_relative_positions",
            json!({"max_position_embeddings": 512, "position_buckets": -1}),
            json!([[2, [2, null]], [64, [64, null]], [1000, [1000, null]], [-1, [512, null]], [null, [512, null]]]),
            spans,
        ),
        gives(
            model,
            "position_buckets",
            json!({"max_position_embeddings": 512, "max_relative_positions": -1}),
            json!([
                [4, [4, 512]],
                [12, [12, 512]],
                [32, [32, 512]],
                [256, [256, 512]],
                [-1, [512, null]],
                [null, [512, null]]
            ]),
            spans,
        ),
        gives(
            model,
            "pos_att_type",
            json!({}),
            json!([
                ["c2p", [true, false]],
                ["p2c", [false, true]],
                ["c2p|p2c", [true, true]],
                [["p2c", "c2p"], [true, true]],
                [[], [false, false]],
                [null, [false, false]],
                ["p2p", REFUSED]
            ]),
            terms,
        ),
        gives(model, "share_att_key", json!({}), flag(), |it| match &it.positions {
            PositionsConfig::Disentangled(it) => json!(it.share_att_key),
            _ => json!(null),
        }),
        gives(
            model,
            "norm_rel_ebd",
            json!({}),
            json!([["layer_norm", true], ["none", false], [null, false], ["Layer_Norm", true], ["rms", REFUSED]]),
            |it| match &it.positions {
                PositionsConfig::Disentangled(it) => json!(it.norm_rel_ebd),
                _ => json!(null),
            },
        ),
    ]
}

/// The pooling of classifiers, and whether logits are pooled.
pub(super) fn pooling(config: &TransformerConfig) -> Value {
    json!([format!("{:?}", config.classifier.pooling), config.classifier.late])
}

fn head_cases() -> Vec<Case> {
    let named: fn(&TransformerConfig) -> Value = |it| json!(it.classifier.activation.map(|it| format!("{it:?}")));
    let pooled = json!([["cls", ["Cls", false]], ["mean", ["Mean", false]], [null, ["Cls", false]], ["max", REFUSED]]);
    let of_eurobert = json!([
        ["bos", ["Cls", false]],
        ["mean", ["Mean", false]],
        ["late", ["Mean", true]],
        ["cls", REFUSED],
        [null, ["Mean", true]]
    ]);
    let unsaved = json!({"classifier_pooling": null, "clf_pooling": null});
    vec![
        gives(&[MODERNBERT], "classifier_pooling", json!({}), pooled, pooling),
        gives(&[MODERNBERT], "classifier_activation", json!({}), activations(), named),
        gives(&[MODERNBERT], "classifier_bias", json!({}), flag(), |it| json!(it.classifier.biased)),
        gives(&[EUROBERT], "classifier_pooling", unsaved.clone(), of_eurobert.clone(), pooling),
        gives(&[EUROBERT], "clf_pooling", unsaved, of_eurobert, pooling),
    ]
}

/// Adapters of tasks.
fn jina_cases() -> Vec<Case> {
    let names: fn(&TransformerConfig) -> Value = |it| json!(it.adapters.as_ref().map(|it| it.names.clone()));
    let rank: fn(&TransformerConfig) -> Value =
        |it| json!(it.adapters.as_ref().map(|it| [json!(it.rank), json!(it.scale)]));
    let stacked: &[&[&str]] = &[&["jina-v3-tiny"]];
    vec![
        // Either names the code, which normalises queries and keys.
        gives(
            &[&["jina-v2-code-tiny"]],
            "_name_or_path",
            json!({"auto_map": {"AutoConfig": "configuration_bert.JinaBertConfig"}}),
            json!([
                ["jinaai/jina-bert-v2-qk-post-norm", true],
                ["jinaai/jina-embeddings-v2-base-en", false],
                [null, false]
            ]),
            |it| json!(it.attention.qk_width_norm),
        ),
        gives(
            &[&["jina-v2-code-tiny"]],
            "auto_map",
            json!({"_name_or_path": "./copy"}),
            json!([[{"AutoConfig": "jinaai/jina-bert-v2-qk-post-norm--configuration_bert.JinaBertConfig"}, true],
                [{"AutoConfig": "jinaai/jina-bert-implementation--configuration_bert.JinaBertConfig"}, false],
                [{"AutoConfig": "configuration_bert.JinaBertConfig"}, false], [null, false]]),
            |it| json!(it.attention.qk_width_norm),
        ),
        gives(
            stacked,
            "lora_adaptations",
            json!({}),
            json!([
                [["one"], ["one"]],
                [["b", "a"], ["b", "a"]],
                [["a", "b", "c"], ["a", "b", "c"]],
                [[], null],
                [null, null]
            ]),
            names,
        ),
        gives(
            &[&["jina-v5-nano-tiny", "jina-v5-small-tiny", "jina-v5-eurobert"]],
            "task_names",
            json!({}),
            json!([
                [["retrieval"], ["retrieval"]],
                [["b", "retrieval"], ["b", "retrieval"]],
                [["one"], REFUSED],
                [[], REFUSED],
                [null, REFUSED]
            ]),
            names,
        ),
        gives(
            &[&["xlm-roberta-flash"]],
            "lora_adaptations",
            json!({}),
            json!([[["one"], REFUSED], [["a", "b"], REFUSED], [[], REFUSED], [null, null]]),
            names,
        ),
        gives(
            stacked,
            "lora_rank",
            json!({"lora_alpha": 6}),
            json!([[1, [1, 6.0]], [2, [2, 3.0]], [4, [4, 1.5]], [8, [8, 0.75]], [16, [16, 0.375]], [null, REFUSED]]),
            rank,
        ),
        gives(
            stacked,
            "lora_alpha",
            json!({"lora_rank": 4}),
            json!([
                [0, [4, 0.0]],
                [1, [4, 0.25]],
                [2.5, [4, 0.625]],
                [8, [4, 2.0]],
                [64, [4, 16.0]],
                [null, [4, 0.25]]
            ]),
            rank,
        ),
        gives(
            stacked,
            "task_instructions",
            json!({"lora_adaptations": ["a", "b"]}),
            json!([[{"a": "A: "}, ["A: ", ""]], [{"b": "B: "}, ["", "B: "]], [{"a": "1", "b": "2"}, ["1", "2"]], [{}, ["", ""]],
                [null, ["", ""]]]),
            |it| {
                let tasks = it.adapters.iter().flat_map(|it| &it.tasks);
                json!(
                    tasks
                        .map(|task| match &task.instruction {
                            crate::config::Instruction::Text(text) => text.clone(),
                            _ => "none".to_owned(),
                        })
                        .collect::<Vec<_>>()
                )
            },
        ),
    ]
}
