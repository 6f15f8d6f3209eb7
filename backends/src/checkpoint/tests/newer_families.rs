//! Configs of ModernBERT, Nomic, GTE, Gemma and decoders without a mask: windows, rotations, masks, and what is refused.

use super::configs::config_with;
use super::refusals::Change::Remove;
use super::refusals::{check, config};
use super::{copy_of, edit_tensors, fixture, open, options, read_json, rope, write_json};
use crate::config::{MaskConfig, PositionsConfig, RopeScaling, RotaryConfig, TransformerConfig};
use crate::formats::config_json;
use crate::options::ModelSource;
use prefold_core::{Batch, Outputs, Pooling, RaggedBatch};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

fn thetas(config: &TransformerConfig) -> (f64, f64) {
    let PositionsConfig::Rotary(RotaryConfig { full, windowed, .. }) = &config.positions else { panic!("rotary") };
    (full.theta, windowed.theta)
}

#[test]
fn windows_of_local_layers() {
    let windows = |name: &str, changes: &[(&str, Value)]| config_with(name, changes).sliding_windows;
    // 16 tokens, 8 on either side.
    assert_eq!(windows("modernbert-tiny", &[]), [None, Some(9), Some(9), None]);
    let every = [("global_attn_every_n_layers", json!(2)), ("local_attention", json!(128))];
    assert_eq!(windows("modernbert-tiny", &every), [None, Some(65), None, Some(65)]);
    let layer_types = json!(["sliding_attention", "full_attention", "full_attention", "full_attention"]);
    assert_eq!(windows("modernbert-tiny", &[("layer_types", layer_types)]), [Some(9), None, None, None]);
    let missing = ("local_attention", json!(null));
    assert_eq!(windows("modernbert-tiny", &[missing])[1], Some(65), "the class has a default");

    assert_eq!(windows("embeddinggemma-tiny", &[]), [Some(9), Some(9), None, Some(9)]);
    let pattern = [("layer_types", json!(null)), ("sliding_window_pattern", json!(2))];
    assert_eq!(windows("embeddinggemma-tiny", &pattern), [Some(9), None, Some(9), None]);
    // With the mask the window is behind the token.
    let causal = [("use_bidirectional_attention", json!(false))];
    assert_eq!(windows("embeddinggemma-tiny", &causal), [Some(16), Some(16), None, Some(16)]);
}

#[test]
fn rotations_of_layers_with_and_without_windows() {
    assert_eq!(thetas(&config_with("modernbert-tiny", &[])), (160_000.0, 10_000.0));
    let mut older = read_json(&fixture("modernbert-tiny").join("config.json"));
    older["local_rope_theta"] = json!(null);
    assert_eq!(thetas(&config_json::read(&older).unwrap()), (160_000.0, 160_000.0));
    assert_eq!(thetas(&config_with("embeddinggemma-tiny", &[])), (1_000_000.0, 10_000.0));
    let set = |theta: f64| json!({"rope_type": "default", "rope_theta": theta});
    let newer = json!({"full_attention": set(5.0), "sliding_attention": set(7.0)});
    for name in ["modernbert-tiny", "embeddinggemma-tiny"] {
        assert_eq!(thetas(&config_with(name, &[("rope_parameters", newer.clone())])), (5.0, 7.0), "{name}");
    }
    let gte = config_with("gte-base-tiny", &[]);
    assert_eq!((rope(&gte).theta, &rope(&gte).scaling), (500_000.0, &RopeScaling::Ntk { factor: 2.0 }));
}

#[test]
fn what_lifts_the_mask() {
    let mask = |name: &str, changes: &[(&str, Value)]| config_with(name, changes).attention.mask;
    let without = [("is_causal", json!(false))];
    for name in ["qwen2-tiny", "qwen3-tiny", "llama-tiny", "mistral-tiny"] {
        assert_eq!(mask(name, &[]), MaskConfig::Causal, "{name}");
        assert_eq!(mask(name, &without), MaskConfig::Full, "{name}");
        assert_eq!(mask(name, &[("use_bidirectional_attention", json!(true))]), MaskConfig::Full, "{name}");
    }
    assert_eq!(mask("llama-bidirec-tiny", &[]), MaskConfig::Full);
    let by_class = [("use_bidirectional_attention", json!(null))];
    assert_eq!(mask("qwen3-bidirectional-tiny", &by_class), MaskConfig::Full);
    assert_eq!(config_with("qwen3-bidirectional-tiny", &[]).output_size, 48);
    // As transformers saves it again.
    let names: serde_json::Map<String, Value> = (0..40).map(|i| (i.to_string(), json!(format!("LABEL_{i}")))).collect();
    let saved = [("num_labels", json!(null)), ("id2label", Value::Object(names))];
    assert_eq!(config_with("qwen3-bidirectional-tiny", &saved).output_size, 40);
    assert_eq!(config_with("qwen3-bidirectional-tiny", &saved[..1]).output_size, 2, "the default is not saved");
    // The code that lifts the mask is not run, and not needed. The code of gte-Qwen2 and stella always lifts it.
    let code = ("auto_map", json!({"AutoModel": "modeling_qwen.Qwen2Model"}));
    assert_eq!(mask("qwen2-tiny", &[without[0].clone(), code.clone()]), MaskConfig::Full);
    assert_eq!(mask("qwen2-tiny", &[code]), MaskConfig::Full);
}

#[test]
fn a_lifted_mask_that_transformers_keeps_is_named() {
    let warnings = |name: &str, fields: Value| {
        let dir = copy_of(name);
        let mut config = read_json(&dir.path().join("config.json"));
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        write_json(&dir.path().join("config.json"), &config);
        let warnings = open(dir.path()).unwrap().capabilities.warnings.clone();
        warnings.into_iter().filter(|it| it.contains("`use_bidirectional_attention`")).count()
    };
    let lifted = json!({"use_bidirectional_attention": true});
    assert_eq!(["qwen3-tiny", "llama-tiny", "mistral-tiny"].map(|name| warnings(name, lifted.clone())), [1; 3]);
    assert_eq!(["embeddinggemma-tiny", "qwen3-bidirectional-tiny"].map(|name| warnings(name, lifted.clone())), [0; 2]);
    assert_eq!(warnings("qwen3-tiny", json!({"use_bidirectional_attention": true, "is_causal": false})), 0);
    assert_eq!(warnings("qwen3-tiny", json!({"use_bidirectional_attention": false})), 0);
}

/// With a mask the field counts the token itself; without one it counts those on either side, as in transformers.
#[test]
fn windows_with_and_without_a_mask() {
    let windows = |name: &str, changes: &[(&str, Value)]| config_with(name, changes).sliding_windows;
    let without = ("is_causal", json!(false));
    let size = ("sliding_window", json!(16));
    let some = [size.clone(), ("use_sliding_window", json!(true)), ("max_window_layers", json!(1))];
    assert!(windows("mistral-tiny", std::slice::from_ref(&size)).iter().all(|window| *window == Some(16)));
    assert!(windows("mistral-tiny", &[size, without.clone()]).iter().all(|window| *window == Some(17)));
    for name in ["qwen2-tiny", "qwen3-tiny"] {
        assert_eq!(windows(name, &some)[..2], [None, Some(16)], "{name}");
        assert_eq!(
            windows(name, &[&some[..], std::slice::from_ref(&without)].concat())[..2],
            [None, Some(17)],
            "{name}"
        );
    }
}

#[test]
fn a_pooling_that_only_the_config_names() {
    let dir = copy_of("llama-bidirec-tiny");
    std::fs::remove_file(dir.path().join("modules.json")).unwrap();
    std::fs::remove_dir_all(dir.path().join("1_Pooling")).unwrap();
    let pooling = || open(dir.path()).map(|it| it.capabilities.embed.as_ref().unwrap().pooling.clone());
    assert_eq!(pooling().unwrap(), [Pooling::Mean]);
    let mut json = read_json(&dir.path().join("config.json"));
    json["pooling"] = json!("weighted");
    write_json(&dir.path().join("config.json"), &json);
    assert!(pooling().unwrap_err().to_string().contains("`pooling` \"weighted\""));
}

#[test]
fn longer_inputs_than_rotations_without_scaling_allow() {
    let longest = |changes: &[(&str, Value)]| config_with("nomic-tiny", changes).max_position_embeddings;
    assert_eq!(longest(&[]), 8192);
    assert_eq!(longest(&[("rotary_scaling_factor", json!(2))]), 2048);
}

#[test]
fn both_spellings_of_nomic() {
    let newer = [
        ("n_embd", json!(null)),
        ("hidden_size", json!(32)),
        ("n_layer", json!(null)),
        ("num_hidden_layers", json!(3)),
        ("activation_function", json!(null)),
        ("hidden_act", json!("silu")),
        ("layer_norm_epsilon", json!(null)),
        ("layer_norm_eps", json!(1e-12)),
        ("rotary_emb_base", json!(null)),
    ];
    assert_eq!(config_with("nomic-tiny", &newer), config_with("nomic-tiny", &[]));
}

/// A copy of the reranker of XLM-RoBERTa with the names of Jina's code, and without `model_type`.
fn as_jina_reranker() -> TempDir {
    let dir = copy_of("xlm-roberta-reranker-tiny");
    let names = [
        ("embeddings.LayerNorm", "emb_ln"),
        ("encoder.layer.", "encoder.layers."),
        ("attention.output.dense", "mixer.out_proj"),
        ("attention.output.LayerNorm", "norm1"),
        ("intermediate.dense", "mlp.fc1"),
        ("output.dense", "mlp.fc2"),
        ("output.LayerNorm", "norm2"),
    ];
    edit_tensors(dir.path(), |tensors| {
        for layer in 0..2 {
            for kind in ["weight", "bias"] {
                let part = |name: &str| format!("roberta.encoder.layer.{layer}.attention.self.{name}.{kind}");
                let mut fused = tensors.remove(&part("query")).unwrap();
                for name in ["key", "value"] {
                    fused.bytes.extend(tensors.remove(&part(name)).unwrap().bytes);
                }
                fused.shape[0] *= 3;
                tensors.insert(format!("roberta.encoder.layers.{layer}.mixer.Wqkv.{kind}"), fused);
            }
        }
        for (name, tensor) in std::mem::take(tensors) {
            tensors.insert(names.iter().fold(name, |name, (from, to)| name.replace(from, to)), tensor);
        }
    });
    let path = dir.path().join("config.json");
    let mut config = read_json(&path);
    config.as_object_mut().unwrap().remove("model_type");
    config["auto_map"] = json!({
        "AutoConfig": "configuration_xlm_roberta.XLMRobertaFlashConfig",
        "AutoModelForSequenceClassification": "modeling_xlm_roberta.XLMRobertaForSequenceClassification"
    });
    write_json(&path, &config);
    dir
}

#[test]
fn jinas_reranker_is_xlm_roberta_with_other_names() {
    let dir = as_jina_reranker();
    let logits = |path: &Path| {
        let mut model = crate::load(&options(ModelSource::Path(path.to_owned()))).unwrap();
        let ragged = RaggedBatch::from_sequences(&[vec![0, 17, 90, 33, 2, 2, 41, 5, 2], vec![0, 8, 2]]).unwrap();
        model.backend.forward(&Batch { ragged, wanted: vec![Outputs::LOGITS; 2] }, None).unwrap()
    };
    assert_eq!(logits(dir.path()), logits(&fixture("xlm-roberta-reranker-tiny")));
    // With rotary positions it is jina-embeddings-v3, which may have adapters.
    let path = dir.path().join("config.json");
    let (rotary, tasks) = (json!("rotary"), json!(["retrieval.query"]));
    let adapters = json!({"position_embedding_type": rotary, "lora_adaptations": tasks, "lora_rank": 4});
    for (fields, problem) in [
        (json!({"lora_adaptations": tasks}), "`lora_adaptations`"),
        (json!({"position_embedding_type": rotary, "rotary_emb_interleaved": true}), "`rotary_emb_interleaved`"),
        (json!({"position_embedding_type": rotary, "lora_adaptations": tasks}), "`lora_rank` is missing"),
        (json!({"position_embedding_type": rotary, "lora_adaptations": ["a", "a"], "lora_rank": 4}), "`a` as task 1"),
        (adapters, "word_embeddings.parametrizations.weight.0.lora_A"),
    ] {
        let before = read_json(&path);
        let mut config = before.clone();
        fields.as_object().unwrap().iter().for_each(|(name, value)| config[name] = value.clone());
        write_json(&path, &config);
        let refused = open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains(problem), "{problem}: {refused}");
        write_json(&path, &before);
    }
    let mut config = read_json(&path);
    config.as_object_mut().unwrap().remove("auto_map");
    write_json(&path, &config);
    // The class is XLM-RoBERTa's, whose tensors have other names.
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("embeddings.LayerNorm.weight` is missing"), "{refused}");
}

#[test]
fn features_that_are_not_computed() {
    let scaled = json!({"rope_type": "linear", "factor": 2});
    check(vec![
        ("nomic-tiny", config("/num_experts", json!(8)), &["`num_experts` 8", "0"]),
        ("nomic-moe-tiny", config("/moe_top_k", json!(9)), &["`moe_top_k` (9)", "`num_experts` (8)"]),
        ("nomic-moe-tiny", config("/moe_top_k", json!(0)), &["`moe_top_k` must be above 0"]),
        ("nomic-moe-tiny", config("/num_experts", json!(7)), &["mlp.router.layer.weight"]),
        ("nomic-moe-tiny", config("/num_experts", json!(1u64 << 40)), &["`num_experts` must be at most 1024"]),
        ("nomic-moe-tiny", config("/expert_choice_router", json!(true)), &["`expert_choice_router` true"]),
        ("nomic-moe-tiny", config("/moe_normalize_expert_weights", json!(true)), &["`moe_normalize_expert_weights`"]),
        ("modernbert-reranker-tiny", config("/classifier_bias", json!(true)), &["`head.dense.bias` is missing"]),
        (
            "modernbert-reranker-tiny",
            config("/classifier_bias", json!(1)),
            &["`classifier_bias` must be true or false"],
        ),
        (
            "modernbert-tiny",
            config("/classifier_activation", json!("mish")),
            &["`classifier_activation` \"mish\"", "gelu"],
        ),
        (
            "modernbert-tiny",
            config("/classifier_pooling", json!("max")),
            &["`classifier_pooling` \"max\"", "cls, mean"],
        ),
        ("modernbert-tiny", config("/local_attention", json!(0)), &["`local_attention` must be above 0"]),
        ("modernbert-tiny", config("/global_attn_every_n_layers", json!(0)), &["`global_attn_every_n_layers`"]),
        ("modernbert-tiny", config("/layer_types", json!(["full_attention"])), &["`layer_types` has 1 entries"]),
        ("modernbert-tiny", config("/rope_scaling", scaled.clone()), &["`rope_scaling.rope_type` \"linear\""]),
        (
            "gemma3-causal-tiny",
            config("/rope_scaling", json!({"rope_type": "linear", "factor": 8.0})),
            &["`rope_scaling` and `rope_parameters` with sets", "one of the two"],
        ),
        ("modernbert-tiny", config("/global_rope_theta", json!(0)), &["`global_rope_theta` must be above 0"]),
        (
            "deberta-v2-reranker-tiny",
            config("/pooler_hidden_size", json!(48)),
            &["`pooler_hidden_size` 48", "`hidden_size`, 32"],
        ),
        ("deberta-v2-tiny", config("/conv_kernel_size", json!(3)), &["`conv_kernel_size` 3", "0"]),
        ("deberta-v2-tiny", config("/position_biased_input", json!(true)), &["`position_biased_input` true"]),
        ("deberta-v2-tiny", config("/relative_attention", json!(false)), &["`relative_attention` false"]),
        (
            "deberta-v2-tiny",
            Remove("config.json", "position_biased_input"),
            &["`position_biased_input` is missing; its default is true, supported is false"],
        ),
        ("deberta-v2-tiny", Remove("config.json", "relative_attention"), &["`relative_attention` is missing"]),
        ("t5-tiny", Remove("config.json", "num_layers"), &["`num_hidden_layers` or `num_layers` is missing"]),
        ("deberta-v2-tiny", config("/attention_head_size", json!(8)), &["`attention_head_size` 8"]),
        ("deberta-v2-tiny", config("/pos_att_type", json!("c2p|p2p")), &["`pos_att_type` \"p2p\"", "c2p, p2c"]),
        ("deberta-v2-tiny", config("/norm_rel_ebd", json!("rms")), &["`norm_rel_ebd` \"rms\"", "layer_norm"]),
        ("deberta-v2-tiny", config("/max_relative_positions", json!(9)), &["`max_relative_positions` (9)", "(16)"]),
        ("deberta-v2-tiny", config("/position_buckets", json!(1)), &["`position_buckets` must be from 2"]),
        ("deberta-v2-tiny", config("/position_buckets", json!(16.5)), &["`position_buckets` must be a whole", "16.5"]),
        ("eurobert-late-tiny", config("/clf_pooling", json!("cls")), &["`clf_pooling` \"cls\"", "bos, mean, late"]),
        ("eurobert-mean-tiny", config("/classifier_pooling", json!("max")), &["`classifier_pooling` \"max\""]),
        (
            "eurobert-late-tiny",
            config("/classifier_pooling", json!("mean")),
            &["`classifier_pooling` and `clf_pooling` contradict"],
        ),
        ("eurobert-tiny", config("/auto_map", json!({"AutoModel": "x.Other"})), &["auto_map", "x.Other"]),
        ("jina-v3-tiny", config("/lora_alpha", json!(1e30)), &["`lora_alpha` must be from 0 to 65536, it is 1"]),
        ("deberta-v2-tiny", config("/position_buckets", json!(20)), &["encoder.rel_embeddings.weight"]),
        ("deberta-v2-tiny", config("/share_att_key", json!(false)), &["attention.self.pos_key_proj.weight"]),
        ("deberta-v2-reranker-tiny", config("/pooler_hidden_act", json!("tanh")), &["`pooler_hidden_act` \"tanh\""]),
        ("bert-ner-tiny", config("/id2label", json!({"0": "O"})), &["classifier.weight"]),
        ("nomic-tiny", config("/prenorm", json!(true)), &["`prenorm` true", "false"]),
        ("nomic-tiny", config("/rotary_emb_fraction", json!(0.5)), &["`rotary_emb_fraction` 0.5", "1"]),
        ("nomic-tiny", config("/rotary_emb_interleaved", json!(true)), &["`rotary_emb_interleaved`"]),
        ("nomic-tiny", config("/rotary_emb_scale_base", json!(512)), &["`rotary_emb_scale_base` 512"]),
        ("nomic-tiny", config("/activation_function", json!("mish")), &["`activation_function` \"mish\"", "swiglu"]),
        ("nomic-tiny", config("/auto_map", json!({"AutoModel": "x.Other"})), &["auto_map", "x.Other"]),
        (
            "jina-v2-tiny",
            config("/feed_forward_type", json!("original")),
            &["`feed_forward_type` \"original\"", "geglu"],
        ),
        ("jina-v2-tiny", config("/architectures", json!(["BertModel"])), &["BertModel", "JinaBertModel"]),
        ("bert-mean-tiny", config("/position_embedding_type", json!("alibi")), &["BertModel", "JinaBertModel"]),
        ("gte-base-tiny", config("/logn_attention_scale", json!(true)), &["`logn_attention_scale` true"]),
        ("gte-base-tiny", config("/layer_norm_type", json!("rms_norm")), &["`layer_norm_type` \"rms_norm\""]),
        ("gte-base-tiny", config("/position_embedding_type", json!("absolute")), &["\"absolute\"", "rope"]),
        ("gte-base-tiny", config("/rope_scaling/type", json!("yarn")), &["yarn", "default, ntk"]),
        ("gte-base-tiny", config("/rope_scaling/mixed_b", json!(0.75)), &["`rope_scaling.mixed_b` 0.75"]),
        ("embeddinggemma-tiny", config("/attn_logit_softcapping", json!(50.0)), &["`attn_logit_softcapping` 50"]),
        (
            "embeddinggemma-tiny",
            config("/hidden_activation", json!("silu")),
            &["`hidden_activation`", "gelu_pytorch_tanh"],
        ),
        (
            "embeddinggemma-tiny",
            config("/query_pre_attn_scalar", json!(0)),
            &["`query_pre_attn_scalar` must be above 0"],
        ),
        (
            "embeddinggemma-tiny",
            Remove("config.json", "query_pre_attn_scalar"),
            &["`query_pre_attn_scalar` is missing"],
        ),
        ("embeddinggemma-tiny", config("/rope_scaling", scaled), &["`rope_scaling.rope_type` \"linear\""]),
        ("qwen3-bidirectional-tiny", config("/num_labels", json!(0)), &["`num_labels` must be from 1"]),
        (
            "qwen3-bidirectional-tiny",
            Remove("config.json", "num_labels"),
            &[
                "is 48, but the model's class projects states with `linear.weight`",
                "`num_labels` components, by default 2: 2",
            ],
        ),
        ("llama-bidirec-tiny", config("/auto_map", json!({"AutoModel": "x.Mine"})), &["auto_map", "x.Mine"]),
        ("llama-tiny", config("/architectures", json!(["Qwen3BidirectionalModel"])), &["Qwen3BidirectionalModel"]),
    ]);
}

#[test]
fn the_first_class_of_several_counts() {
    // As gte-multilingual-base has them.
    let both = |first: &str, second: &str| {
        let dir = copy_of("gte-base-tiny");
        config("/architectures", json!([first, second])).apply(dir.path());
        open(dir.path())
    };
    let checkpoint = both("NewModel", "NewForTokenClassification").unwrap();
    assert!(checkpoint.capabilities.embed.is_some());
    let refused = both("NewForQuestionAnswering", "NewModel").unwrap_err().to_string();
    assert!(refused.contains("NewForQuestionAnswering"), "{refused}");
}

/// transformers 5 writes classifiers of GTE and Nomic with names of its own.
#[test]
fn names_of_transformers_5() {
    let dir = copy_of("gte-reranker-tiny");
    let path = dir.path().join("model.safetensors");
    let tensors = candle_core::safetensors::load(&path, &candle_core::Device::Cpu).unwrap();
    let renamed = tensors.iter().map(|(name, tensor)| (name.replacen("new.", "gte.", 1), tensor.clone()));
    let renamed: std::collections::HashMap<_, _> = renamed.collect();
    assert!(
        renamed.keys().any(|name| name.starts_with("gte.encoder")) && !renamed.contains_key("new.pooler.dense.weight")
    );
    candle_core::safetensors::save(&renamed, &path).unwrap();
    assert!(open(dir.path()).is_ok());
}

#[test]
fn the_older_name_of_eurobert_s_pooling_is_followed_with_a_warning() {
    for (pooling, has_code, warns) in
        [("mean", false, true), ("bos", false, true), ("late", false, false), ("mean", true, false)]
    {
        let dir = copy_of("eurobert-late-tiny");
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        config["clf_pooling"] = json!(pooling);
        if !has_code {
            config.as_object_mut().unwrap().remove("auto_map");
        }
        write_json(&path, &config);
        let warnings = open(dir.path()).unwrap().capabilities.warnings.join("\n");
        assert_eq!(warnings.contains("`clf_pooling`"), warns, "{pooling}: {warnings}");
    }
}

#[test]
fn nomics_spellings_that_contradict_each_other_are_refused() {
    for (older, newer, same, other) in [
        ("n_embd", "hidden_size", json!(32), json!(64)),
        ("n_layer", "num_hidden_layers", json!(3.0), json!(2)),
        ("n_head", "num_attention_heads", json!(4), json!(8)),
        ("n_inner", "intermediate_size", json!(48), json!(40)),
    ] {
        let with = |value: Value| {
            let dir = copy_of("nomic-tiny");
            let path = dir.path().join("config.json");
            let mut config = read_json(&path);
            config[newer] = value;
            write_json(&path, &config);
            open(dir.path()).map_err(|error| error.to_string())
        };
        assert!(with(same).is_ok(), "{older}");
        let refused = with(other).unwrap_err();
        assert!(
            refused.contains(&format!("`{older}` and `")) && refused.contains("contradict each other"),
            "{refused}"
        );
    }
}

#[test]
fn the_activation_in_the_spelling_of_nomic_s_code_is_followed_with_a_warning() {
    for (older, newer, has_code, warns) in [
        ("geglu", json!("silu"), false, true),
        ("geglu", json!(null), false, true),
        ("geglu", json!("gelu"), false, false),
        ("swiglu", json!("silu"), false, false),
        ("swiglu", json!(null), false, false),
        ("geglu", json!("silu"), true, false),
    ] {
        let dir = copy_of("nomic-tiny");
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        (config["activation_function"], config["hidden_act"]) = (json!(older), newer.clone());
        if !has_code {
            config.as_object_mut().unwrap().remove("auto_map");
        }
        write_json(&path, &config);
        let warnings = open(dir.path()).unwrap().capabilities.warnings.join("\n");
        assert_eq!(warnings.contains("`activation_function` "), warns, "{older} {newer}: {warnings}");
    }
}

#[test]
fn a_number_in_the_spelling_of_nomic_s_code_is_followed_with_a_warning() {
    let (eps, length, base) = ("layer_norm_epsilon", "n_positions", "rotary_emb_base");
    let cases = [
        (eps, json!({"layer_norm_epsilon": 1e-5}), false, true),
        (eps, json!({"layer_norm_epsilon": 1e-12}), false, false),
        (eps, json!({"layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-5}), false, false),
        (eps, json!({"layer_norm_epsilon": 1e-5, "layer_norm_eps": 1e-7}), false, true),
        (eps, json!({"layer_norm_epsilon": 1e-5}), true, false),
        (length, json!({"n_positions": 8192}), false, true),
        (length, json!({"n_positions": 2048}), false, false),
        (length, json!({"n_positions": 512, "max_position_embeddings": 512}), false, false),
        (length, json!({"n_positions": 512, "max_position_embeddings": 2048}), false, true),
        (length, json!({"n_positions": 8192}), true, false),
        (base, json!({"rotary_emb_base": 70.0, "rope_parameters": null}), false, true),
        (base, json!({"rotary_emb_base": 1000, "rope_parameters": null}), false, false),
        (base, json!({"rotary_emb_base": 70, "rope_theta": 70.0, "rope_parameters": null}), false, false),
        (base, json!({"rotary_emb_base": 70.0, "rope_parameters": null}), true, false),
    ];
    for (field, fields, has_code, warns) in cases {
        let dir = copy_of("nomic-tiny");
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        if !has_code {
            config.as_object_mut().unwrap().remove("auto_map");
        }
        write_json(&path, &config);
        let checkpoint = open(dir.path()).unwrap();
        let TransformerConfig { norm, max_position_embeddings, .. } = &checkpoint.config;
        let followed = match field {
            "layer_norm_epsilon" => f64::from(norm.eps),
            "n_positions" => *max_position_embeddings as f64,
            _ => thetas(&checkpoint.config).0,
        };
        assert_eq!(followed as f32, fields[field].as_f64().unwrap() as f32);
        let warnings = checkpoint.capabilities.warnings.join("\n");
        assert_eq!(warnings.contains(&format!("`{field}` ")), warns, "{fields}: {warnings}");
    }
}
