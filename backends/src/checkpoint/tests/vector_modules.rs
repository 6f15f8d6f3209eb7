//! Modules of sentence-transformers after pooling, and a Transformer in a folder.

use super::{Stored, copy_of, fixture, open, read_json, write_json, write_tensors};
use crate::checkpoint::{HeadSource, LayerNormModule, Residual, VectorModule};
use safetensors::Dtype;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const WIDTH: usize = 32;

fn tensor(shape: &[usize]) -> Stored {
    let count: usize = shape.iter().product();
    let bytes = (0..count).flat_map(|i| ((i % 7) as f32 / 7.0).to_le_bytes()).collect();
    Stored { dtype: Dtype::F32, shape: shape.to_vec(), bytes }
}

/// A module in a folder: its class, config and tensors.
type Module<'a> = (&'a str, Value, &'a [(&'a str, &'a [usize])]);

fn with(modules: &[Module<'_>]) -> TempDir {
    let dir = copy_of("bert-mean-tiny");
    let class = |name: &str| json!(format!("sentence_transformers.models.{name}"));
    let mut list = vec![
        json!({"idx": 0, "name": "0", "path": "", "type": class("Transformer")}),
        json!({"idx": 1, "name": "1", "path": "1_Pooling", "type": class("Pooling")}),
    ];
    for (index, (name, config, tensors)) in modules.iter().enumerate() {
        let path = format!("{}_{name}", index + 2);
        list.push(json!({"idx": index + 2, "name": (index + 2).to_string(), "path": path, "type": class(name)}));
        write_json(&dir.path().join(&path).join("config.json"), config);
        let tensors = tensors.iter().map(|(name, shape)| ((*name).to_owned(), tensor(shape))).collect();
        write_tensors(&dir.path().join(&path).join("model.safetensors"), &tensors);
    }
    write_json(&dir.path().join("modules.json"), &Value::Array(list));
    dir
}

fn modules(dir: &TempDir) -> Vec<VectorModule> {
    match open(dir.path()).unwrap().head {
        HeadSource::Dense { modules, .. } => modules,
        other => panic!("{other:?}"),
    }
}

fn dense(out_features: usize, more: Value) -> Value {
    let mut config = json!({"in_features": WIDTH, "out_features": out_features, "bias": false,
        "activation_function": "torch.nn.modules.linear.Identity"});
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    config
}

#[test]
fn layer_norm_and_dropout() {
    let norm: Module =
        ("LayerNorm", json!({"dimension": WIDTH}), &[("norm.weight", &[WIDTH]), ("norm.bias", &[WIDTH])]);
    let dropout: Module = ("Dropout", json!({"dropout": 0.3}), &[]);
    let normalize: Module = ("Normalize", json!({}), &[]);
    let found = modules(&with(&[norm.clone(), dropout.clone(), normalize.clone(), dropout.clone()]));
    let [VectorModule::LayerNorm(LayerNormModule { width: WIDTH, weight, bias })] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((weight.len(), bias[1]), (WIDTH, 1.0 / 7.0));
    let checkpoint = open(with(&[norm, normalize, dropout]).path()).unwrap();
    assert!(checkpoint.capabilities.embed.as_ref().unwrap().normalizes, "Dropout behind Normalize changes nothing");
    let narrow: Module = ("LayerNorm", json!({"dimension": 8}), &[]);
    assert!(open(with(&[narrow]).path()).unwrap_err().to_string().contains("`dimension` is 8"));
}

#[test]
fn dense_with_a_residual() {
    let same: Module = ("Dense", dense(WIDTH, json!({"use_residual": true})), &[("linear.weight", &[WIDTH, WIDTH])]);
    let [VectorModule::Dense(module)] = &modules(&with(&[same]))[..] else { panic!() };
    assert_eq!(module.residual, Residual::Input);
    let tensors: &[(&str, &[usize])] = &[("linear.weight", &[8, WIDTH]), ("residual.weight", &[8, WIDTH])];
    let narrow: Module = ("Dense", dense(8, json!({"use_residual": true})), tensors);
    let [VectorModule::Dense(module)] = &modules(&with(&[narrow]))[..] else { panic!() };
    assert!(matches!(&module.residual, Residual::Projected(weight) if weight.len() == 8 * WIDTH));
    let without: Module = ("Dense", dense(8, json!({"use_residual": true})), &[("linear.weight", &[8, WIDTH])]);
    assert!(open(with(&[without]).path()).unwrap_err().to_string().contains("`residual.weight` is missing"));
}

#[test]
fn settings_of_modules_that_are_not_followed_are_refused() {
    for (module, named) in [
        (("Normalize", json!({"module_input_name": "token_embeddings"}), &[][..]), "`module_input_name`"),
        (("Dense", dense(8, json!({"activation_function": "mine.Identity"})), &[][..]), "mine.Identity"),
        (("CNN", json!({}), &[][..]), "CNN"),
    ] {
        let refused = open(with(&[module]).path()).unwrap_err().to_string();
        assert!(refused.contains(named), "{named}: {refused}");
    }
}

/// Moves files into a folder.
fn move_into(dir: &Path, folder: &str, names: &[&str]) {
    fs::create_dir_all(dir.join(folder)).unwrap();
    for name in names.iter().filter(|name| dir.join(name).exists()) {
        fs::rename(dir.join(name), dir.join(folder).join(name)).unwrap();
    }
}

#[test]
fn a_transformer_may_be_in_a_folder() {
    let dir = with(&[]);
    let mut list = read_json(&dir.path().join("modules.json"));
    list[0]["path"] = json!("0_Transformer");
    write_json(&dir.path().join("modules.json"), &list);
    let files =
        ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "sentence_bert_config.json"];
    move_into(dir.path(), "0_Transformer", &files);
    let (found, expected) = (open(dir.path()).unwrap(), open(fixture("bert-mean-tiny")).unwrap());
    assert_eq!((&found.config, &found.head), (&expected.config, &expected.head));
    assert_eq!(found.capabilities.max_input_length, expected.capabilities.max_input_length);
}
