//! LoRA adapters of peft in a model's folder.

use super::{
    Stored, copy_of, edit_tensors, fixture, open, options, read_json, read_tensors, tensors_of, write_json,
    write_tensors,
};
use crate::checkpoint::Checkpoint;
use crate::options::ModelSource;
use safetensors::Dtype;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tempfile::TempDir;

pub(super) const QUERY: &str = "encoder.layer.0.attention.self.query";

/// Reproducible values.
fn values(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| ((i * 7 + seed * 5) % 13) as f32 / 10.0 - 0.6).collect()
}

fn stored(shape: &[usize], values: &[f32]) -> Stored {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Stored { dtype: Dtype::F32, shape: shape.to_vec(), bytes }
}

/// The parts of LoRA of a linear layer.
pub(super) fn lora(module: &str, [rows, columns]: [usize; 2], rank: usize) -> [(String, Stored); 2] {
    let name = |part: &str| format!("base_model.model.{module}.lora_{part}.weight");
    [
        (name("A"), stored(&[rank, columns], &values(rank * columns, 1))),
        (name("B"), stored(&[rows, rank], &values(rows * rank, 2))),
    ]
}

/// The change of a weight by [`lora`].
fn change([rows, columns]: [usize; 2], rank: usize, scale: f32) -> Vec<f32> {
    let (a, b) = (values(rank * columns, 1), values(rows * rank, 2));
    let value = |i: usize| (0..rank).map(|k| b[i / columns * rank + k] * a[k * columns + i % columns]).sum::<f32>();
    (0..rows * columns).map(|i| scale * value(i)).collect()
}

fn settings(more: Value) -> Value {
    let mut settings =
        json!({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["query"], "bias": "none"});
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    settings
}

/// A model with an adapter.
fn beside(model: &str, settings: &Value, tensors: impl IntoIterator<Item = (String, Stored)>) -> TempDir {
    let dir = copy_of(model);
    write_json(&dir.path().join("adapter_config.json"), settings);
    write_tensors(&dir.path().join("adapter_model.safetensors"), &tensors.into_iter().collect());
    dir
}

fn refused(dir: &TempDir) -> String {
    open(dir.path()).map(|_| ()).unwrap_err().to_string()
}

/// A weight with the adapter minus the model's own.
fn difference(checkpoint: &Checkpoint, model: &str, name: &str, shape: &[usize]) -> Vec<f32> {
    let adapted: Vec<f32> = checkpoint.weights.read(name, shape).unwrap();
    let own: Vec<f32> = tensors_of(&fixture(model)).read(name, shape).unwrap();
    adapted.iter().zip(&own).map(|(adapted, own)| adapted - own).collect()
}

fn assert_close(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let largest = found.iter().zip(expected).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
    assert!(largest < 1e-5, "{largest}");
}

#[test]
fn the_scale_follows_rank_and_alpha() {
    let shape = [32, 32];
    for (more, scale) in [
        (json!({}), 2.0),
        (json!({"lora_alpha": 1.0}), 0.25),
        (json!({"use_rslora": true}), 4.0),
        (json!({"r": 9, "rank_pattern": {"attention.self.query": 4}}), 2.0),
        (json!({"alpha_pattern": {"query": 2, "value.*": 100}}), 0.5),
        (json!({"alpha_pattern": {"uery": 100, r"^encoder\.layer\.0\..*": 6}}), 1.5),
        (json!({"target_modules": r".*\.layer\.\d+\.attention\.self\.(query|value)"}), 2.0),
        (json!({"fan_in_fan_out": true, "lora_dropout": 0.1, "inference_mode": true}), 2.0),
    ] {
        let dir = beside("bert-mean-tiny", &settings(more.clone()), lora(QUERY, shape, 4));
        let checkpoint = open(dir.path()).unwrap_or_else(|error| panic!("{more}: {error}"));
        let name = format!("bert.{QUERY}.weight");
        let expected = change(shape, 4, scale);
        assert_close(&difference(&checkpoint, "bert-mean-tiny", &name, &shape), &expected);
        let rows = checkpoint.weights.f32_rows(&name, shape, &[3, 1]).unwrap();
        let own = tensors_of(&fixture("bert-mean-tiny")).f32_rows(&name, shape, &[3, 1]).unwrap();
        let rows: Vec<f32> = rows.iter().zip(own).map(|(adapted, own)| adapted - own).collect();
        assert_close(&rows, &[&expected[96..128], &expected[32..64]].concat());
        let key = "bert.encoder.layer.0.attention.self.key.weight";
        assert_close(&difference(&checkpoint, "bert-mean-tiny", key, &shape), &[0.0; 1024]);
        assert!(checkpoint.capabilities.warnings.is_empty());
    }
}

#[test]
fn the_first_pattern_of_the_file_counts() {
    let dir = beside("bert-mean-tiny", &settings(json!({})), lora(QUERY, [32, 32], 4));
    let text = r#"{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["query"],
        "alpha_pattern": {"self.query": 2, ".*query": 100}}"#;
    std::fs::write(dir.path().join("adapter_config.json"), text).unwrap();
    let name = format!("bert.{QUERY}.weight");
    let found = difference(&open(dir.path()).unwrap(), "bert-mean-tiny", &name, &[32, 32]);
    assert_close(&found, &change([32, 32], 4, 0.5));
}

#[test]
fn modules_that_are_not_targets_stay_as_they_are_with_a_warning() {
    let tensors =
        || lora(QUERY, [32, 32], 4).into_iter().chain(lora("encoder.layer.1.attention.self.query", [32, 32], 4));
    let dir = beside("bert-mean-tiny", &settings(json!({"layers_to_transform": [0]})), tensors());
    let checkpoint = open(dir.path()).unwrap();
    let of_layer = |layer: usize| {
        let name = format!("bert.encoder.layer.{layer}.attention.self.query.weight");
        difference(&checkpoint, "bert-mean-tiny", &name, &[32, 32])
    };
    assert_close(&of_layer(0), &change([32, 32], 4, 2.0));
    assert_close(&of_layer(1), &[0.0; 1024]);
    let [warning] = &checkpoint.capabilities.warnings[..] else { panic!() };
    assert!(warning.contains("encoder.layer.1.attention.self.query"), "{warning}");
    let none = beside("bert-mean-tiny", &settings(json!({"target_modules": ["value"]})), tensors());
    assert!(refused(&none).contains("`target_modules`"));
}

#[test]
fn tensors_named_after_the_adapter_are_merged_with_a_warning() {
    let named = |(name, tensor): (String, Stored)| (name.replace(".weight", ".default.weight"), tensor);
    let dir = beside("bert-mean-tiny", &settings(json!({})), lora(QUERY, [32, 32], 4).map(named));
    let checkpoint = open(dir.path()).unwrap();
    let found = difference(&checkpoint, "bert-mean-tiny", &format!("bert.{QUERY}.weight"), &[32, 32]);
    assert_close(&found, &change([32, 32], 4, 2.0));
    let [warning] = &checkpoint.capabilities.warnings[..] else { panic!() };
    assert!(warning.contains("`default`") && warning.contains("peft ignores them"), "{warning}");
}

#[test]
fn embeddings_biases_and_replaced_modules() {
    let (rank, width) = (2, 32);
    let words = read_json(&fixture("bert-reranker-tiny").join("config.json"))["vocab_size"].as_u64().unwrap() as usize;
    let embeddings = "base_model.model.bert.embeddings.word_embeddings.lora_embedding";
    let (a, b) = (values(rank * words, 3), values(width * rank, 4));
    let tensors = [
        (format!("{embeddings}_A"), stored(&[rank, words], &a)),
        (format!("{embeddings}_B"), stored(&[width, rank], &b)),
        ("base_model.model.classifier.weight".to_owned(), stored(&[1, width], &values(width, 5))),
        ("base_model.model.classifier.bias".to_owned(), stored(&[1], &[0.5])),
        (format!("base_model.model.bert.{QUERY}.base_layer.bias"), stored(&[width], &values(width, 6))),
    ];
    let more =
        json!({"r": rank, "target_modules": ["word_embeddings"], "modules_to_save": ["classifier"], "bias": "all"});
    let checkpoint = open(beside("bert-reranker-tiny", &settings(more), tensors).path()).unwrap();
    let read = |name: &str, shape: &[usize]| checkpoint.weights.read::<f32>(name, shape).unwrap();
    assert_eq!(read("classifier.weight", &[1, width]), values(width, 5));
    assert_eq!(read("classifier.bias", &[1]), [0.5]);
    assert_eq!(read(&format!("bert.{QUERY}.bias"), &[width]), values(width, 6));
    let name = "bert.embeddings.word_embeddings.weight";
    let expected = (0..words * width).map(|i| {
        let (word, column) = (i / width, i % width);
        4.0 * (0..rank).map(|k| b[column * rank + k] * a[k * words + word]).sum::<f32>()
    });
    assert_close(
        &difference(&checkpoint, "bert-reranker-tiny", name, &[words, width]),
        &expected.collect::<Vec<f32>>(),
    );
}

#[test]
fn the_bias_of_a_layer_of_lora_is_added() {
    let bias = (format!("base_model.model.{QUERY}.lora_B.bias"), stored(&[32], &values(32, 7)));
    let tensors = || lora(QUERY, [32, 32], 4).into_iter().chain([bias.clone()]);
    let checkpoint = open(beside("bert-mean-tiny", &settings(json!({"lora_bias": true})), tensors()).path()).unwrap();
    let expected: Vec<f32> = values(32, 7).iter().map(|value| 2.0 * value).collect();
    assert_close(&difference(&checkpoint, "bert-mean-tiny", &format!("bert.{QUERY}.bias"), &[32]), &expected);
    assert!(refused(&beside("bert-mean-tiny", &settings(json!({})), tensors())).contains("`lora_bias`"));
    // A layer without a bias has no place for it.
    let query = "layers.0.self_attn.q_proj";
    let bias = (format!("base_model.model.{query}.lora_B.bias"), stored(&[64], &values(64, 7)));
    let tensors = lora(query, [64, 64], 4).into_iter().chain([bias]);
    let refused =
        refused(&beside("llama-tiny", &settings(json!({"lora_bias": true, "target_modules": ["q_proj"]})), tensors));
    assert!(refused.contains("a bias of the LoRA of `layers.0.self_attn.q_proj`"), "{refused}");
}

#[test]
fn an_adapter_of_a_decoder_may_have_the_names_of_another_class() {
    let shape = [64, 64];
    for prefix in ["", "model."] {
        let module = format!("{prefix}layers.1.self_attn.q_proj");
        let own = tensors_of(&fixture("qwen3-tiny"));
        let rows = [32, 64, 128]
            .into_iter()
            .find(|&n| own.check("model.layers.1.self_attn.q_proj.weight", &[n, shape[1]]).is_ok());
        let shape = [rows.unwrap_or(64), shape[1]];
        let dir = beside("qwen3-tiny", &settings(json!({"target_modules": ["q_proj"]})), lora(&module, shape, 4));
        let found =
            difference(&open(dir.path()).unwrap(), "qwen3-tiny", "model.layers.1.self_attn.q_proj.weight", &shape);
        assert_close(&found, &change(shape, 4, 2.0));
    }
}

#[test]
fn adapters_that_cannot_be_followed_are_refused_by_name() {
    for (more, named) in [
        (json!({"use_dora": true}), "`use_dora`"),
        (json!({"peft_type": "IA3"}), "`peft_type` \"IA3\""),
        (json!({"init_lora_weights": "pissa_niter_4"}), "`init_lora_weights`"),
        (json!({"layer_replication": [[0, 2], [1, 2]]}), "`layer_replication`"),
        (json!({"alora_invocation_tokens": [1]}), "`alora_invocation_tokens`"),
        (json!({"target_parameters": ["x"]}), "`target_parameters`"),
        (json!({"trainable_token_indices": [1]}), "`trainable_token_indices`"),
        (json!({"r": 0}), "`r` must be from 1"),
        (json!({"r": 3}), "has shape [4, 32]"),
        (json!({"bias": "some"}), "`bias`"),
    ] {
        let refused = refused(&beside("bert-mean-tiny", &settings(more), lora(QUERY, [32, 32], 4)));
        assert!(refused.contains(named), "{named}: {refused}");
    }
    let with = |name: &str, shape: &[usize]| {
        let part = (format!("base_model.model.{name}"), stored(shape, &values(shape.iter().product(), 1)));
        let settings = settings(json!({"target_modules": ["query", "fused"]}));
        refused(&beside("bert-mean-tiny", &settings, lora(QUERY, [32, 32], 4).into_iter().chain([part])))
    };
    assert!(with(&format!("{QUERY}.lora_magnitude_vector"), &[32]).contains("lora_magnitude_vector"));
    assert!(with("encoder.layer.0.attention.fused.lora_A.weight", &[4, 32]).contains("attention.fused"));
    assert!(with("encoder.layer.1.attention.self.query.lora_A.weight", &[4, 32]).contains("only one of"));
    let dir = copy_of("bert-mean-tiny");
    write_json(&dir.path().join("adapter_config.json"), &settings(json!({})));
    assert!(refused(&dir).contains("adapter_model.safetensors nor adapter_model.bin"));
}

#[test]
fn vectors_are_those_of_the_merged_model() {
    let adapted = beside("bert-mean-tiny", &settings(json!({})), lora(QUERY, [32, 32], 4));
    let merged = copy_of("bert-mean-tiny");
    edit_tensors(merged.path(), |tensors: &mut BTreeMap<String, Stored>| {
        let name = tensors.keys().find(|name| name.ends_with(&format!("{QUERY}.weight"))).unwrap().clone();
        let tensor = tensors.get_mut(&name).unwrap();
        let sum: Vec<f32> = tensor.values().iter().zip(change([32, 32], 4, 2.0)).map(|(x, y)| x + y).collect();
        *tensor = stored(&[32, 32], &sum);
    });
    let all = |dir: &TempDir| open(dir.path()).unwrap().weights;
    let names: Vec<String> = read_tensors(&merged.path().join("model.safetensors")).keys().cloned().collect();
    assert!(!names.is_empty());
    let shape = [32, 32];
    let name = format!("bert.{QUERY}.weight");
    let [found, expected] = [&adapted, &merged].map(|dir| all(dir).read::<half::bf16>(&name, &shape).unwrap());
    assert_eq!(found, expected);
}

#[test]
fn an_adapter_alone_takes_its_base_from_the_config() {
    let base = fixture("bert-mean-tiny").canonicalize().unwrap();
    let dir = TempDir::new().unwrap();
    let settings = json!({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["query"],
        "base_model_name_or_path": base.to_str().unwrap()});
    write_json(&dir.path().join("adapter_config.json"), &settings);
    let tensors = lora(QUERY, [32, 32], 1);
    write_tensors(&dir.path().join("adapter_model.safetensors"), &tensors.into_iter().collect());
    let checkpoint = open(dir.path()).unwrap();
    let weight = format!("bert.{QUERY}.weight");
    let read = |weights: &crate::formats::Weights| weights.read::<f32>(&weight, &[32, 32]).unwrap();
    assert_ne!(read(&checkpoint.weights), read(&tensors_of(&base)));
    let warnings = checkpoint.capabilities.warnings.join("\n");
    assert!(warnings.contains("has only a LoRA adapter") && warnings.contains("bert-mean-tiny"), "{warnings}");
    for other in ["/nonexistent/model", "org/model", ""] {
        let mut settings = settings.clone();
        settings["base_model_name_or_path"] = json!(other);
        write_json(&dir.path().join("adapter_config.json"), &settings);
        let refused = open(dir.path()).unwrap_err().to_string();
        assert!(refused.contains("base_model_name_or_path") && refused.contains("neither a folder"), "{refused}");
    }
    let mut settings = settings;
    settings["base_model_name_or_path"] = json!("x".repeat(4097));
    write_json(&dir.path().join("adapter_config.json"), &settings);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("`base_model_name_or_path` has 4097 bytes, the limit is 4096"), "{refused}");
}

#[test]
fn the_adapter_of_a_classifier_needs_its_head() {
    let of = |task_type: &str, model: &str, head: &[&str]| {
        let settings = settings(json!({"task_type": task_type, "modules_to_save": ["classifier"]}));
        let own = head.iter().map(|name| (format!("base_model.model.{name}"), stored(&[2, 32], &values(64, 1))));
        beside(model, &settings, lora(QUERY, [32, 32], 4).into_iter().chain(own))
    };
    let warnings = |dir: &TempDir| open(dir.path()).unwrap().capabilities.warnings.join("\n");
    for task_type in ["SEQ_CLS", "TOKEN_CLS"] {
        let found = warnings(&of(task_type, "bert-mean-tiny", &["classifier.weight"]));
        assert!(found.contains("`task_type`") && found.contains("--task classify"), "{found}");
    }
    assert_eq!(warnings(&of("FEATURE_EXTRACTION", "bert-mean-tiny", &[])), "");
    let whole = of("SEQ_CLS", "bert-nli-tiny", &[]);
    assert_eq!(warnings(&whole), "");
    edit_tensors(whole.path(), |tensors| tensors.retain(|name, _| !name.starts_with("classifier")));
    assert!(refused(&whole).contains("`classifier.weight` is missing"), "{}", refused(&whole));
}

#[test]
fn hostile_names_and_shapes_are_refused() {
    let shape = [32, 32];
    let dir = beside("bert-mean-tiny", &settings(json!({})), lora(QUERY, shape, 4));
    edit_tensors(dir.path(), |tensors: &mut BTreeMap<String, Stored>| {
        let [short, long] = ["", "bert."].map(|prefix| format!("{prefix}{QUERY}.weight"));
        tensors.insert(short, stored(&[16, 32], &values(512, 1)));
        tensors.insert(long, stored(&shape, &values(1024, 1)));
    });
    assert!(refused(&dir).contains("two spellings"));
    let twice = lora(QUERY, shape, 4).into_iter().chain(lora(&format!("bert.{QUERY}"), shape, 4));
    assert!(refused(&beside("bert-mean-tiny", &settings(json!({})), twice)).contains("two spellings"));
    let [(a, b), _] = lora(QUERY, shape, 4);
    let again = (a.replace(".weight", ".default.weight"), b);
    let message =
        refused(&beside("bert-mean-tiny", &settings(json!({})), lora(QUERY, shape, 4).into_iter().chain([again])));
    let words = format!("the same part of a module twice: `{}`, `{a}`", a.replace(".weight", ".default.weight"));
    assert!(message.contains(&words), "{message}");
    let long = lora(&"x".repeat(1024), shape, 4);
    assert!(refused(&beside("bert-mean-tiny", &settings(json!({})), long)).contains("the limit is 1024"));
    let large = beside("bert-mean-tiny", &settings(json!({"r": 129})), lora(QUERY, shape, 129));
    assert!(refused(&large).contains("of rank 129, the limit is 128"));
    let wide = settings(json!({"r": 129, "target_modules": ["intermediate.dense"]}));
    let wide = beside("bert-mean-tiny", &wide, lora("encoder.layer.0.intermediate.dense", [64, 32], 129));
    assert!(refused(&wide).contains("of rank 129, the limit is 128"), "of the smaller side");
    let norm = lora("encoder.layer.0.output.LayerNorm", shape, 4);
    let norm = beside("bert-mean-tiny", &settings(json!({"target_modules": ["LayerNorm"]})), norm);
    assert!(refused(&norm).contains("whose weight is no matrix"));
    let [a, (b, _)] = lora(QUERY, shape, 4);
    let short = beside("bert-mean-tiny", &settings(json!({})), [a, (b, stored(&[16, 4], &values(64, 1)))]);
    assert!(refused(&short).contains("has shape [16, 4]"));
    let many = (0..=1 << 16).flat_map(|i| lora(&i.to_string(), [1, 1], 1).into_iter().take(1));
    assert!(refused(&beside("bert-mean-tiny", &settings(json!({})), many)).contains("has 65537 modules"));
    let many = (0..1200).flat_map(|i| lora(&format!("{}.{i}", "x".repeat(900)), [1, 1], 1));
    let expressions: serde_json::Map<String, Value> = (0..3).map(|i| (format!("^x{i}"), json!(2))).collect();
    let slow = beside("bert-mean-tiny", &settings(json!({"alpha_pattern": expressions})), many);
    assert!(refused(&slow).contains("less for many or large patterns"), "{}", refused(&slow));
}

#[test]
fn own_tensors_that_nothing_reads_are_named() {
    let own = ("base_model.model.encoder.unknown\u{1b}.weight".to_owned(), stored(&[1], &[1.0]));
    let dir = beside("bert-mean-tiny", &settings(json!({})), lora(QUERY, [32, 32], 4).into_iter().chain([own]));
    let warnings = open(dir.path()).unwrap().capabilities.warnings.join(" ");
    assert!(warnings.contains("encoder.unknown") && !warnings.contains('\u{1b}'), "{warnings}");
}

#[test]
fn the_output_layer_of_a_reranker_with_tied_embeddings_stays_as_it_is() {
    let width = read_json(&fixture("qwen3-tiny").join("config.json"))["hidden_size"].as_u64().unwrap() as usize;
    let words = read_json(&fixture("qwen3-tiny").join("config.json"))["vocab_size"].as_u64().unwrap() as usize;
    let settings = settings(json!({"target_modules": ["lm_head", "q_proj"]}));
    let own = |name: &str| {
        let name = format!("base_model.model.{name}.weight");
        vec![(name, stored(&[words, width], &values(words * width, 1)))]
    };
    let lora = Vec::from(lora("lm_head", [words, width], 4));
    for tensors in [lora, own("lm_head"), own("model.embed_tokens")] {
        let norm = ("base_model.model.model.norm.weight".to_owned(), stored(&[width], &values(width, 1)));
        let dir = beside("qwen3-tiny", &settings, tensors.into_iter().chain([norm]));
        let mut config = read_json(&dir.path().join("config.json"));
        config["tie_word_embeddings"] = json!(true);
        write_json(&dir.path().join("config.json"), &config);
        let mut options = options(ModelSource::Path(dir.path().to_owned()));
        options.task = Some(prefold_core::Task::Rerank);
        let refused = Checkpoint::open(&options).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("whose head the embeddings are"), "{refused}");
    }
}

#[test]
fn an_adapter_beside_a_gguf_file_is_refused() {
    let dir = TempDir::new().unwrap();
    write_json(&dir.path().join("adapter_config.json"), &settings(json!({"base_model_name_or_path": "a/b"})));
    std::fs::write(dir.path().join("model.gguf"), b"GGUF").unwrap();
    let refused = refused(&dir);
    assert!(refused.contains("adapter_config.json") && refused.contains("model.gguf"), "{refused}");
}
