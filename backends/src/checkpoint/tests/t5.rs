//! Configs and files of T5's encoders.

use super::configs::config_with;
use super::refusals::Change::{Remove, Set};
use super::refusals::{check, config};
use super::{copy_of, edit_tensors, fixture, open, read_json, write_json};
use crate::config::{DistanceBias, PositionsConfig, RelativeBuckets};
use crate::formats::config_json;
use prefold_kernels::Activation;
use serde_json::{Value, json};

#[test]
fn gates_and_activations_follow_the_name_and_the_saved_fields() {
    let of = |changes: &[(&str, Value)]| {
        let unsaved = [("dense_act_fn", json!(null)), ("is_gated_act", json!(null))];
        let feed_forward = config_with("t5-gated-tiny", &[&unsaved[..], changes].concat()).feed_forward;
        (feed_forward.ffn_glu, feed_forward.activation)
    };
    let named = |name: &str| of(&[("feed_forward_proj", json!(name))]);
    assert_eq!(named("relu"), (false, Activation::Relu));
    assert_eq!(named("gated-gelu"), (true, Activation::GeluTanh));
    assert_eq!(named("gelu"), (false, Activation::Gelu));
    assert_eq!(named("gated-silu"), (true, Activation::Silu));
    assert_eq!(of(&[("feed_forward_proj", json!(null))]), (false, Activation::Relu));
    // The class derives these two fields and saves them, and they override what it derives again.
    assert_eq!(of(&[("dense_act_fn", json!("silu"))]), (true, Activation::Silu));
    assert_eq!(of(&[("is_gated_act", json!(false))]), (false, Activation::GeluTanh));
    // MT5's default.
    let mut mt5 = read_json(&fixture("t5-tiny").join("config.json"));
    (mt5["model_type"], mt5["architectures"]) = (json!("mt5"), json!(["MT5EncoderModel"]));
    mt5.as_object_mut().unwrap().remove("feed_forward_proj");
    let mt5 = config_json::read(&mt5).unwrap();
    assert_eq!((mt5.feed_forward.ffn_glu, mt5.feed_forward.activation), (true, Activation::GeluTanh));
}

#[test]
fn biases_and_the_factor_of_the_scores() {
    let attention = config_with("t5-gated-tiny", &[]).attention;
    assert_eq!((attention.scale, attention.head_dim), (Some(1.0), 8));
    let buckets = RelativeBuckets { rows: 12, buckets: 12, max_distance: 20 };
    assert_eq!(attention.distance_bias, Some(DistanceBias::Buckets(buckets)));
    // Published configs of 2020 have no distance.
    let t5 = config_with("t5-tiny", &[]);
    let buckets = RelativeBuckets::DEFAULT;
    assert_eq!(t5.attention.distance_bias, Some(DistanceBias::Buckets(buckets)));
    assert_eq!((t5.attention.q_width(), t5.hidden_size, &t5.positions), (64, 32, &PositionsConfig::Biases));
    let umt5 = config_with("umt5-tiny", &[]);
    assert_eq!(umt5.attention.distance_bias, Some(DistanceBias::LayerBuckets(buckets)));
    assert_eq!(
        umt5.derived_values(10),
        t5.derived_values(10) / 4 * 6 * 2,
        "six heads instead of four, two layers apart"
    );
}

/// `n_positions` is the length of the training; no table ends there.
#[test]
fn inputs_are_as_long_as_the_files_say() {
    let longest = |length: Option<u32>| {
        let dir = copy_of("t5-tiny");
        let change = match length {
            Some(length) => Set("sentence_bert_config.json", "/max_seq_length", json!(length)),
            None => Remove("sentence_bert_config.json", "max_seq_length"),
        };
        change.apply(dir.path());
        open(dir.path()).unwrap().capabilities.max_input_length
    };
    assert_eq!([longest(Some(368)), longest(Some(2048)), longest(None)], [368, 2048, 512]);
}

#[test]
fn word_embeddings_are_the_encoder_s_own_where_a_file_has_both_names() {
    const OWN: &str = "encoder.embed_tokens.weight";
    let shape = [448, 32];
    let read = |dir: &std::path::Path| open(dir).unwrap().weights.read::<f32>(OWN, &shape).unwrap();
    let shared = read(&fixture("t5-tiny"));
    for keeps_shared in [false, true] {
        let dir = copy_of("t5-tiny");
        edit_tensors(dir.path(), |tensors| {
            let words = tensors["shared.weight"].clone();
            tensors.insert(OWN.to_owned(), words);
            if keeps_shared {
                tensors.get_mut("shared.weight").unwrap().bytes.fill(0);
            } else {
                tensors.remove("shared.weight");
            }
        });
        assert_eq!(read(dir.path()), shared, "{keeps_shared}");
    }
}

#[test]
fn what_is_not_an_encoder_of_t5_is_refused() {
    let class = |name: &str| config("/architectures", json!([name]));
    check(vec![
        ("t5-tiny", class("T5ForSequenceClassification"), &["T5ForSequenceClassification", "T5EncoderModel"]),
        ("t5-tiny", class("T5ForTokenClassification"), &["T5ForTokenClassification", "T5EncoderModel"]),
        ("t5-gated-tiny", config("/is_decoder", json!(true)), &["is_decoder"]),
        ("t5-gated-tiny", config("/dense_act_fn", json!("tanh")), &["dense_act_fn", "tanh"]),
        ("t5-tiny", config("/feed_forward_proj", json!("gated-tanh")), &["feed_forward_proj", "tanh"]),
        ("t5-tiny", config("/feed_forward_proj", json!("gated-gelu")), &["wi_0.weight"]),
        ("t5-tiny", config("/relative_attention_num_buckets", json!(7)), &["relative_attention_num_buckets"]),
        ("t5-gated-tiny", config("/relative_attention_max_distance", json!(3)), &["relative_attention_max_distance"]),
        (
            "t5-gated-tiny",
            config("/relative_attention_max_distance", json!(1_u64 << 40)),
            &["relative_attention_max_distance"],
        ),
        ("umt5-tiny", config("/relative_attention_num_buckets", json!(16)), &["relative_attention_bias.weight"]),
        ("t5-tiny", Remove("config.json", "d_ff"), &["d_ff", "missing"]),
        ("t5-tiny", config("/model_type", json!("t5gemma2")), &["t5gemma2", "cross-attention"]),
    ]);
}

#[test]
fn the_longest_input_is_the_first_length_that_the_files_have() {
    let length = |of_config: Value, of_tokenizer: Value, of_texts: Value| {
        let dir = copy_of("t5-tiny");
        let files = ["config.json", "tokenizer_config.json", "sentence_bert_config.json"];
        let fields = ["max_position_embeddings", "model_max_length", "max_seq_length"];
        for ((file, field), value) in files.into_iter().zip(fields).zip([of_config, of_tokenizer, of_texts]) {
            let path = dir.path().join(file);
            let mut json = read_json(&path);
            json[field] = value;
            write_json(&path, &json);
        }
        open(dir.path()).map(|it| it.capabilities.max_input_length).map_err(|error| error.to_string())
    };
    let null = || json!(null);
    for (of_config, of_tokenizer, of_texts, expected) in [
        (null(), null(), null(), 32768),
        (json!(-1), null(), null(), 32768),
        (json!(20), null(), null(), 20),
        (json!(20), json!(1e30), null(), 20),
        (json!(20), json!(30), null(), 20),
        (json!(30), json!(20), null(), 20),
        (json!(20), json!(10), json!(30), 30),
    ] {
        let what = format!("{of_config} {of_tokenizer} {of_texts}");
        assert_eq!(length(of_config, of_tokenizer, of_texts), Ok(expected), "{what}");
    }
    let refused = length(json!(0), null(), null()).unwrap_err();
    assert!(refused.contains("`max_position_embeddings` must be above 0, or -1 for no limit, it is 0"), "{refused}");
}
