//! Tensors that nothing reads are named, except in heads and buffers that the task does not need.

use super::gguf::{quantized, qwen3};
use super::{
    Stored, copy_of, edit_tensors, fixture, open, options, read_json, read_tensors, write_json, write_tensors,
};
use crate::check::{Verdict, check_model};
use crate::checkpoint::Checkpoint;
use crate::formats::pytorch::testing::save;
use crate::options::ModelSource;
use candle_core::quantized::GgmlDType;
use safetensors::Dtype;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const WORDS: &str = "tensors that nothing reads";

/// The warnings about tensors that nothing reads, of all sub-models.
fn unread(dir: &Path) -> Vec<String> {
    let checkpoints = Checkpoint::open_all(&options(ModelSource::Path(dir.to_owned()))).unwrap();
    let warnings = checkpoints.iter().flat_map(|it| it.capabilities.warnings.clone());
    warnings.filter(|it| it.contains(WORDS)).collect()
}

fn small(dtype: Dtype) -> Stored {
    Stored { dtype, shape: vec![2], bytes: vec![0; dtype.bitsize() / 4] }
}

/// The names in the warning about a model with one more tensor.
fn unread_with(model: &str, name: &str) -> bool {
    let dir = copy_of(model);
    edit_tensors(dir.path(), |tensors| drop(tensors.insert(name.to_owned(), small(Dtype::F32))));
    let warnings = unread(dir.path());
    assert!(warnings.iter().all(|it| it.contains(&format!("\"{name}\""))), "{name}: {warnings:?}");
    !warnings.is_empty()
}

#[test]
fn every_tensor_of_every_fixture_is_read() {
    let mut models = 0;
    for entry in fs::read_dir(fixture("")).unwrap() {
        let path = entry.unwrap().path();
        let is_model = ["config.json", "model.gguf", "modules.json"].iter().any(|file| path.join(file).exists());
        if path.is_dir() && is_model {
            let found = unread(&path);
            assert!(found.is_empty(), "{}: {found:?}", path.display());
            models += 1;
        }
    }
    assert!(models > 55, "{models}");
}

#[test]
fn tensors_inside_and_outside_the_layers_are_named() {
    for (model, names) in [
        (
            "bert-mean-tiny",
            &[
                "encoder.layer.0.layer_norm_1.weight",
                "encoder.layer.1.attention.self.distance_embedding.weight",
                "bert.encoder.layer.1.attention.self.query.scale",
                "encoder.layer.9.output.dense.weight",
                "embeddings.position_embeddings.bias",
                "embeddings_project.weight",
                "linear.weight",
                "encoder.layer.0.classifier.weight",
            ][..],
        ),
        ("qwen3-tiny", &["model.layers.0.self_attn.q_proj.bias", "model.norm.bias", "embed_positions.weight"]),
        ("llama-tiny", &["model.layers.0.self_attn.q_norm.weight", "model.layers.1.self_attn.sinks"]),
        ("modernbert-tiny", &["layers.0.attn_norm.weight", "layers.0.attn.Wqkv.bias"]),
        // A head's tensors count where the task reads others of it.
        ("bert-reranker-tiny", &["classifier.norm.weight", "bert.pooler.norm.weight"]),
        ("llama-seqcls-tiny", &["score.bias"]),
        ("modernbert-reranker-tiny", &["head.dense.bias"]),
        ("deberta-v2-tiny", &["deberta.encoder.conv.conv.weight"]),
    ] {
        for name in names {
            assert!(unread_with(model, name), "{model}: {name}");
        }
    }
}

#[test]
fn buffers_and_heads_of_other_tasks_are_not_named() {
    for (model, names) in [
        (
            "bert-mean-tiny",
            &[
                "embeddings.position_ids",
                "bert.embeddings.token_type_ids",
                "bert.pooler.dense.bias",
                "pooler.dense.weight",
                "cls.predictions.transform.LayerNorm.gamma",
                "cls.seq_relationship.bias",
                "classifier.weight",
                "qa_outputs.weight",
                "encoder.layer.0.attention.bias",
                "encoder.layer.0.attention.masked_bias",
                "norm.num_batches_tracked",
            ][..],
        ),
        (
            "llama-tiny",
            &[
                "lm_head.weight",
                "model.layers.0.self_attn.rotary_emb.inv_freq",
                "score.weight",
                "rotary_emb.cos_cached",
            ],
        ),
        ("deberta-v2-tiny", &["deberta.embeddings.position_embeddings.weight", "lm_predictions.lm_head.bias"]),
        ("deberta-v2-reranker-tiny", &["mask_predictions.dense.weight"]),
        ("electra-tiny", &["discriminator_predictions.dense.weight"]),
        ("distilbert-tiny", &["vocab_transform.weight", "vocab_layer_norm.weight", "vocab_projector.bias"]),
        ("modernbert-tiny", &["head.dense.weight", "decoder.bias"]),
        ("xlm-roberta-tiny", &["lm_head.dense.weight", "roberta.embeddings.position_ids"]),
        ("bert-reranker-tiny", &["cls.predictions.bias"]),
    ] {
        for name in names {
            let dir = copy_of(model);
            edit_tensors(dir.path(), |tensors| {
                tensors.entry((*name).to_owned()).or_insert(small(Dtype::F32));
            });
            assert_eq!(unread(dir.path()), Vec::<String>::new(), "{model}: {name}");
        }
    }
}

#[test]
fn every_format_and_a_check_name_them() {
    let (name, named) = ("encoder.layer.0.layer_norm_1.weight", "\"encoder.layer.0.layer_norm_1.weight\"");
    let dir = copy_of("bert-mean-tiny");
    edit_tensors(dir.path(), |tensors| {
        // A type that weights do not have, too.
        tensors.insert("encoder.layer.0.scales".to_owned(), small(Dtype::U8));
        tensors.insert(name.to_owned(), small(Dtype::F32));
    });
    let single = dir.path().join("model.safetensors");
    let mut tensors = read_tensors(&single);
    let warnings = unread(dir.path());
    assert!(warnings.len() == 1 && warnings[0].contains(named) && warnings[0].contains("scales"), "{warnings:?}");
    let checked = check_model(&options(ModelSource::Path(dir.path().to_owned())));
    let Verdict::RunsBut(notes) = checked.verdict else { panic!("{checked:?}") };
    assert_eq!(notes, warnings);

    // A shard's tensor without a place in the index.
    let shard = "model-00001-of-00001.safetensors";
    fs::rename(&single, dir.path().join(shard)).unwrap();
    tensors.remove(name);
    let weight_map: Map<_, _> = tensors.keys().map(|name| (name.clone(), json!(shard))).collect();
    let index = dir.path().join("model.safetensors.index.json");
    write_json(&index, &json!({"weight_map": weight_map}));
    assert!(unread(dir.path())[0].contains(named));
    fs::remove_file(&index).unwrap();

    let mut floats: BTreeMap<String, (Vec<usize>, Vec<u8>)> = BTreeMap::new();
    tensors.insert(name.to_owned(), small(Dtype::F32));
    for (name, stored) in tensors.into_iter().filter(|(_, stored)| stored.dtype == Dtype::F32) {
        floats.insert(name, (stored.shape, stored.bytes));
    }
    fs::write(dir.path().join("pytorch_model.bin"), save(&floats)).unwrap();
    assert!(unread(dir.path())[0].contains(named));
}

#[test]
fn gguf_files_name_them() {
    let warnings = |names: &[&str]| -> Vec<String> {
        let mut gguf = qwen3();
        for name in names {
            gguf.tensors.insert((*name).to_owned(), quantized(&[1.0], &[1], GgmlDType::F32));
        }
        gguf.open().unwrap().capabilities.warnings.iter().filter(|it| it.contains(WORDS)).cloned().collect()
    };
    assert_eq!(warnings(&["output.bias"]), Vec::<String>::new(), "another task's head");
    let found = warnings(&["output_norm.bias", "blk.0.attn_q_norm.bias"]).join(" ");
    assert!(found.ends_with(": \"blk.0.attn_q_norm.bias\", \"output_norm.bias\""), "{found}");
}

#[test]
fn sub_models_name_them() {
    let router = copy_of("router-encoders-tiny");
    let file = router.path().join("document_0_Transformer/model.safetensors");
    let mut tensors = read_tensors(&file);
    tensors.insert("encoder.layer.0.extra.weight".to_owned(), small(Dtype::F32));
    write_tensors(&file, &tensors);
    assert!(unread(router.path())[0].contains("encoder.layer.0.extra.weight"));
    assert_eq!(unread(router.path()).len(), 1);
}

#[test]
fn a_long_list_is_cut() {
    let dir = copy_of("bert-mean-tiny");
    edit_tensors(dir.path(), |tensors| {
        for index in 10..40 {
            tensors.insert(format!("encoder.layer.{index}.\n{}", "x".repeat(5000)), small(Dtype::F32));
        }
    });
    let warning = unread(dir.path()).remove(0);
    assert!(warning.contains("layer.10") && warning.ends_with(" and 26 more"), "{warning}");
    assert!(warning.len() < 600 && !warning.contains('\n'), "{warning}");
}

#[test]
fn a_module_with_more_tensors_than_its_config_asks_for_is_refused() {
    let dir = copy_of("embeddinggemma-tiny");
    let config = dir.path().join("2_Dense/config.json");
    let file = dir.path().join("2_Dense/model.safetensors");
    let mut tensors = read_tensors(&file);
    let rows = tensors["linear.weight"].shape[0];
    tensors.insert("linear.bias".to_owned(), Stored { dtype: Dtype::F32, shape: vec![rows], bytes: vec![0; 4 * rows] });
    write_tensors(&file, &tensors);
    let refused = open(dir.path()).unwrap_err().to_string();
    assert!(
        refused.starts_with("2_Dense/model.safetensors: has tensors") && refused.contains("linear.bias"),
        "{refused}"
    );
    let mut json = read_json(&config);
    json["bias"] = json!(true);
    write_json(&config, &json);
    open(dir.path()).unwrap();
}

#[test]
fn a_classifier_without_a_class_is_named() {
    let told = |model: &str, class: serde_json::Value| {
        let dir = copy_of(model);
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        config["architectures"] = class;
        write_json(&path, &config);
        let mut options = options(ModelSource::Path(dir.path().to_owned()));
        options.pooling = Some(prefold_core::Pooling::Mean);
        let warnings = Checkpoint::open_all(&options).unwrap()[0].capabilities.warnings.clone();
        warnings.into_iter().find(|it| it.contains("names no class in `architectures`"))
    };
    for (model, tensor) in [("bert-reranker-tiny", "classifier.bias"), ("qwen3-seqcls-tiny", "score.weight")] {
        let warning = told(model, json!(null)).unwrap();
        assert!(warning.contains(tensor), "{warning}");
    }
    assert_eq!(told("bert-mean-tiny", json!(null)), None);
    assert_eq!(told("bert-reranker-tiny", json!(["BertModel"])), None);
}
