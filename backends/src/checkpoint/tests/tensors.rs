//! Tensors by name, in every spelling and file layout.

use super::{
    Stored, copy_of, edit_tensors, fixture, open, read_json, read_tensors, tensors_of, write_json, write_tensors,
};
use crate::config::names;
use crate::formats::TensorFiles;
use half::{bf16, f16};
use safetensors::Dtype;
use serde_json::{Map, json};
use std::collections::BTreeMap;
use std::fs;

const NAME: &str = "model.layers.1.mlp.up_proj.weight";
const SHAPE: [usize; 2] = [128, 64];

/// The tensor as the fixture has it.
fn expected() -> Vec<f32> {
    read_tensors(&fixture("llama-tiny").join("model.safetensors"))[NAME].values()
}

#[test]
fn names_work_with_and_without_the_prefix() {
    let dir = copy_of("llama-tiny");
    assert_eq!(open(dir.path()).unwrap().weights.read::<f32>(NAME, &SHAPE).unwrap(), expected());
    edit_tensors(dir.path(), |tensors| {
        let renamed = std::mem::take(tensors).into_iter();
        *tensors = renamed.map(|(n, t)| (n.strip_prefix("model.").map_or(n.clone(), str::to_owned), t)).collect();
    });
    let weights = open(dir.path()).unwrap().weights;
    assert_eq!(weights.read::<f32>(NAME, &SHAPE).unwrap(), expected());
    assert!(weights.contains(NAME) && weights.contains("lm_head.weight"));
    assert!(!weights.contains("score.weight") && !weights.contains("model.layers.3.mlp.up_proj.weight"));
}

#[test]
fn stored_types_are_converted_and_bf16_is_kept() {
    let values = expected();
    type Encode = fn(f32) -> Vec<u8>;
    type Round = fn(f32) -> f32;
    let types: [(Dtype, &str, Encode, Round); 3] = [
        (Dtype::F32, "float32", |v| v.to_le_bytes().to_vec(), |v| v),
        (Dtype::F16, "float16", |v| f16::from_f32(v).to_le_bytes().to_vec(), |v| f16::from_f32(v).to_f32()),
        (Dtype::BF16, "bfloat16", |v| bf16::from_f32(v).to_le_bytes().to_vec(), |v| bf16::from_f32(v).to_f32()),
    ];
    for (dtype, name, encode, round) in types {
        let dir = copy_of("llama-tiny");
        edit_tensors(dir.path(), |tensors| {
            for tensor in tensors.values_mut() {
                let bytes = tensor.values().into_iter().flat_map(encode).collect();
                *tensor = Stored { dtype, shape: tensor.shape.clone(), bytes };
            }
        });
        let weights = open(dir.path()).unwrap().weights;
        assert_eq!(weights.stored_dtype(&names::DECODER.first_projection()), name);
        let stored: Vec<f32> = values.iter().map(|&v| round(v)).collect();
        assert_eq!(weights.read::<f32>(NAME, &SHAPE).unwrap(), stored);
        let rounded: Vec<bf16> = stored.iter().map(|&v| bf16::from_f32(v)).collect();
        assert_eq!(weights.read::<bf16>(NAME, &SHAPE).unwrap(), rounded);
    }
}

#[test]
fn sharded_weights_are_found_through_their_index() {
    let dir = copy_of("llama-tiny");
    let single = dir.path().join("model.safetensors");
    let tensors = read_tensors(&single);
    fs::remove_file(&single).unwrap();
    let (mut shards, mut weight_map) = ([BTreeMap::new(), BTreeMap::new()], Map::new());
    for (i, (name, tensor)) in tensors.into_iter().enumerate() {
        weight_map.insert(name.clone(), json!(format!("model-0000{}-of-00002.safetensors", i % 2 + 1)));
        shards[i % 2].insert(name, tensor);
    }
    for (i, shard) in shards.iter().enumerate() {
        write_tensors(&dir.path().join(format!("model-0000{}-of-00002.safetensors", i + 1)), shard);
    }
    let index = dir.path().join("model.safetensors.index.json");
    write_json(&index, &json!({"metadata": {}, "weight_map": weight_map}));
    assert_eq!(open(dir.path()).unwrap().weights.read::<f32>(NAME, &SHAPE).unwrap(), expected());

    let refused = |name: &str, file: &str| {
        let mut weight_map = weight_map.clone();
        weight_map.insert(name.to_owned(), json!(file));
        write_json(&index, &json!({"weight_map": weight_map}));
        open(dir.path()).unwrap_err().to_string()
    };
    for file in ["../model.safetensors", "/tmp/model.safetensors", "a/b.safetensors", "..\\a.safetensors", "x.bin"] {
        let message = refused(NAME, file);
        assert!(message.contains(NAME) && message.contains("in the index's folder"), "{message}");
    }
    assert!(refused(NAME, "model-00003-of-00002.safetensors").contains("has no model-00003-of-00002.safetensors"));
    let message = refused("model.layers.9.mlp.up_proj.weight", "model-00001-of-00002.safetensors");
    assert!(message.contains("`model.layers.9.mlp.up_proj.weight` is not in model-00001-of-00002"), "{message}");
}

#[test]
fn missing_and_misshaped_tensors_are_named() {
    let dir = copy_of("llama-tiny");
    edit_tensors(dir.path(), |tensors| tensors.get_mut(NAME).unwrap().shape = vec![64, 128]);
    let misshaped = open(dir.path()).unwrap_err().to_string();
    assert_eq!(tensors_of(dir.path()).read::<bf16>(NAME, &SHAPE).unwrap_err().to_string(), misshaped);
    edit_tensors(dir.path(), |tensors| drop(tensors.remove("model.norm.weight")));
    let missing = open(dir.path()).unwrap_err().to_string();
    assert_eq!(missing, "model.safetensors: tensor `model.norm.weight` is missing");
    assert!(
        misshaped.contains(NAME) && misshaped.contains("[64, 128]") && misshaped.contains("[128, 64]"),
        "{misshaped}"
    );
}

#[test]
fn labels_that_the_head_has_not_are_named_by_their_field() {
    for (name, labels, rows) in [("bert-nli-tiny", 2, 3), ("bert-nli-tiny", 4, 3), ("bert-ner-tiny", 4, 5)] {
        let dir = copy_of(name);
        let path = dir.path().join("config.json");
        let mut config = read_json(&path);
        config["id2label"] =
            (0..labels).map(|i| (i.to_string(), json!(format!("label {i}")))).collect::<Map<_, _>>().into();
        config.as_object_mut().unwrap().remove("num_labels");
        write_json(&path, &config);
        let message = open(dir.path()).unwrap_err().to_string();
        let words =
            format!("tensor `classifier.weight` has {rows} rows, one for each label, but config.json names {labels}");
        assert!(message.contains(&words) && message.contains("`id2label`"), "{message}");
    }
}

#[test]
fn of_tensors_of_unknown_types_the_first_in_the_file_is_named() {
    let dir = copy_of("llama-tiny");
    edit_tensors(dir.path(), |tensors| {
        for i in 0..8 {
            let stored = Stored { dtype: Dtype::F8_E4M3, shape: vec![2], bytes: vec![0; 2] };
            tensors.insert(format!("{i}.weight"), stored);
        }
    });
    for _ in 0..8 {
        let message = open(dir.path()).unwrap_err().to_string();
        assert!(message.contains("`0.weight` of type F8_E4M3"), "{message}");
    }
}

#[test]
fn broken_safetensors_files_are_refused() {
    let dir = copy_of("llama-tiny");
    let path = dir.path().join("model.safetensors");
    let whole = fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        open(dir.path()).unwrap_err().to_string()
    };
    let huge_header = [&u64::MAX.to_le_bytes(), &whole[8..]].concat();
    let no_json = [&8u64.to_le_bytes()[..], b"not json"].concat();
    for bytes in [&whole[..whole.len() - 1], &whole[..100], &whole[..4], &[], &huge_header, &no_json] {
        let message = refused(bytes);
        assert!(message.starts_with("model.safetensors: not a whole safetensors file"), "{message}");
    }
    fs::write(&path, &whole).unwrap();
    edit_tensors(dir.path(), |tensors| {
        let shape = vec![2];
        tensors.insert(NAME.to_owned(), Stored { dtype: Dtype::F8_E4M3, shape, bytes: vec![0; 2] });
    });
    let message = open(dir.path()).unwrap_err().to_string();
    assert!(message.contains(NAME) && message.contains("F8_E4M3"), "{message}");
}

#[test]
fn values_that_are_not_there_are_not_read() {
    let name = "model.embed_tokens.weight";
    let weights = open(fixture("llama-tiny")).unwrap().weights;
    let [rows, width] = *read_tensors(&fixture("llama-tiny").join("model.safetensors"))[name].shape.as_slice() else {
        panic!()
    };
    assert_eq!(weights.f32_rows(name, [rows, width], &[rows as u32 - 1]).unwrap().len(), width);
    let message = weights.f32_rows(name, [rows, width], &[0, rows as u32]).unwrap_err().to_string();
    assert!(message.contains(&format!("token {rows} is beyond the {rows} rows of `{name}`")), "{message}");
    let file = fs::read(fixture("llama-tiny").join("model.safetensors")).unwrap();
    let end = 8 + u64::from_le_bytes(*file.first_chunk().unwrap()) as usize;
    let headers = TensorFiles::headers(&[("x".to_owned(), file[..end].to_vec())]).unwrap();
    headers.check(name, &[rows, width]).unwrap();
    let message = headers.read::<f32>(name, &[rows, width]).unwrap_err().to_string();
    assert!(message.contains("has only been read up to the end of its header"), "{message}");
}

#[test]
fn a_prefix_of_all_names_is_named() {
    let refused = |fixture: &str, rename: &dyn Fn(&str) -> String| {
        let dir = copy_of(fixture);
        edit_tensors(dir.path(), |tensors| {
            *tensors = std::mem::take(tensors).into_iter().map(|(name, tensor)| (rename(&name), tensor)).collect();
        });
        open(dir.path()).unwrap_err().to_string()
    };
    for prefix in ["module.", "_orig_mod.", "0.auto_model.", "model.model."] {
        let refused = refused("bert-mean-tiny", &|name| format!("{prefix}{name}"));
        assert!(
            refused.starts_with("model.safetensors: tensor `bert.embeddings.word_embeddings.weight` is missing"),
            "{refused}"
        );
        let words = format!("but there is `{prefix}embeddings.word_embeddings.weight`: ");
        assert!(
            refused.contains(&words) && refused.contains(&format!(" tensors begin with `{prefix}`; save")),
            "{refused}"
        );
    }
    let twice = refused("llama-tiny", &|name| format!("model.{name}"));
    assert!(twice.contains("begin with `model.`"), "{twice}");
    let other = refused("bert-mean-tiny", &|name| format!("x{name}"));
    assert!(other.ends_with("tensor `bert.embeddings.word_embeddings.weight` is missing"), "{other}");
}
