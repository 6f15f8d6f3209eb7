//! Layers that stay in bfloat16 because int8 would be too inaccurate.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};
use safetensors::{SafeTensors, serialize, tensor::TensorView};
use std::path::Path;

fn int8(directory: &Path, skip: &[&str]) -> LoadOptions {
    let int8_skip = skip.iter().map(|&pattern| pattern.to_owned()).collect();
    LoadOptions { dtype: Some(Dtype::Int8), int8_skip, ..options(directory.to_owned()) }
}

/// A copy of a fixture in which one channel of the input of a layer's feed-forward block is a thousand times larger, and its weights
/// a thousand times smaller: the same function, in numbers that eight bits cannot hold.
fn with_outlier(name: &str, directory: &Path) {
    const FACTOR: f32 = 1000.0;
    std::fs::create_dir(directory.join("1_Pooling")).unwrap();
    for file in ["config.json", "modules.json", "1_Pooling/config.json", "tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(fixture(name).join(file), directory.join(file)).unwrap();
    }
    let file = std::fs::read(fixture(name).join("model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let changed = tensors.iter().map(|(name, tensor)| {
        let width = *tensor.shape().last().unwrap();
        let factor = match name.trim_start_matches("model.") {
            "layers.1.post_attention_layernorm.weight" => FACTOR,
            "layers.1.mlp.gate_proj.weight" | "layers.1.mlp.up_proj.weight" => 1.0 / FACTOR,
            _ => 1.0,
        };
        let values = tensor.data().as_chunks().0.iter().enumerate().flat_map(|(i, &value)| {
            let value = f32::from_le_bytes(value);
            (if i % width == 3 { value * factor } else { value }).to_le_bytes()
        });
        (name.to_owned(), tensor.shape().to_vec(), values.collect::<Vec<u8>>())
    });
    let changed: Vec<_> = changed.collect();
    let views = changed
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(safetensors::Dtype::F32, shape.clone(), bytes).unwrap()));
    std::fs::write(directory.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
}

/// The least cosine with the values of the fixture's own file.
fn least_cosine(options: &LoadOptions, name: &str) -> f32 {
    let expected = expected(&fixture(name));
    let mut model = load(options);
    let cosines = cases(&expected, "cases").iter().map(|case| {
        let found = run(&mut model.backend, &[ids(case)], Compaction::Off);
        let exact = normalized(&floats(&case["last"]));
        normalized(&found[0]).iter().zip(&exact).map(|(a, b)| a * b).sum()
    });
    cosines.fold(1.0, f32::min)
}

#[test]
fn a_layer_with_an_outlier_stays_in_bfloat16() {
    let directory = tempfile::tempdir().unwrap();
    with_outlier("qwen3-tiny", directory.path());
    let model = load(&int8(directory.path(), &[]));
    let report = model.backend.info().int8.clone().unwrap();
    assert_eq!(report.kept_in_bfloat16, ["model.layers.1.mlp.gate_proj"], "{report:?}");
    let (name, error) = &report.errors[0];
    assert!(name == "model.layers.1.mlp.gate_proj" && *error > report.max_error, "{report:?}");
    assert!(report.errors[1].1 < 0.1 && report.errors.len() > 7, "{report:?}");
    let cosine = least_cosine(&int8(directory.path(), &[]), "qwen3-tiny");
    assert!(cosine > 0.995, "{cosine}");
}

#[test]
fn layers_are_kept_by_name() {
    let directory = fixture("qwen3-tiny");
    let plain = load(&int8(&directory, &[])).backend.info().int8.clone().unwrap();
    assert!(plain.kept_in_bfloat16.is_empty() && plain.errors.iter().all(|(_, error)| *error < 0.1), "{plain:?}");
    let skipped = load(&int8(&directory, &["layers.0.*proj", "down_proj"])).backend.info().int8.clone().unwrap();
    let kept = |name: &str| name.contains("layers.0.") || name.contains("down_proj");
    assert!(
        skipped.kept_in_bfloat16.iter().all(|name| kept(name)) && skipped.kept_in_bfloat16.len() > 4,
        "{skipped:?}"
    );
    let names = |pattern: &str| match prefold_backends::load(&int8(&directory, &["down_proj", pattern])) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{pattern} was taken"),
    };
    let error = names("embed_tokens");
    assert!(error.contains("--int8-skip embed_tokens") && error.contains("model.layers.0.self_attn.q_proj"), "{error}");
    assert!(skipped.errors.iter().all(|(name, _)| !name.contains("layers.0.") && !name.contains("down_proj")));
    assert!(skipped.errors.len() < plain.errors.len());
    // All layers in bfloat16: closer to float32 than int8, and its table of embeddings is all that remains.
    let [some, all] = [&["down_proj"][..], &["*"]].map(|skip| least_cosine(&int8(&directory, skip), "qwen3-tiny"));
    assert!(all > 0.9995 && some > 0.995, "{some} {all}");
    assert!(load(&options(directory)).backend.info().int8.is_none());
}
