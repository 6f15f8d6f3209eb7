//! Static embeddings: their facts, unknown tokens, tables whose rows tokens share. Their values are checked with the
//! encoders.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::encoders::*;
use crate::support::*;
use prefold_backends::{DeviceChoice, Dtype, LoadError, LoadOptions};
use prefold_core::{Pooling, Tokens};
use safetensors::{Dtype as Stored, SafeTensors, serialize, tensor::TensorView};
use std::path::Path;

#[test]
fn what_is_told_of_a_table_of_vectors() {
    let models = [("model2vec-tiny", "model2vec", 0, 512), ("static-embedding-tiny", "static_embedding", 1, 1 << 17)];
    for (name, family, prompts, longest) in models {
        let model = load(&options(fixture(name)));
        let info = model.backend.info();
        assert_eq!((info.model_type.as_str(), info.attention, info.dtype), (family, "none", "float32"), "{name}");
        let embed = info.capabilities.embed.as_ref().unwrap();
        assert_eq!((embed.dim, embed.pooling.as_slice()), (24, &[Pooling::Mean][..]));
        assert_eq!((embed.prompts.by_name.len(), info.capabilities.max_input_length), (prompts, longest));
    }
}

#[test]
fn unknown_tokens_are_left_out_as_model2vec_does_and_counted_as_sentence_transformers_does() {
    for name in ["model2vec-tiny", "static-embedding-tiny"] {
        let expected = expected(&fixture(name));
        let case = &expected["only_unknown"];
        let found = values(&mut load(&options(fixture(name))), &[tokens(case)]).remove(0);
        assert_close(name, &found, &floats(&case["mean"]), 1e-4);
        assert_eq!(found.iter().all(|&value| value == 0.0), name == "model2vec-tiny");
    }
}

#[test]
fn what_a_table_of_vectors_cannot_do_is_refused() {
    let refusal = |options: LoadOptions| match prefold_backends::load(&options) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it was loaded"),
    };
    let plain = || options(fixture("model2vec-tiny"));
    let cls = refusal(LoadOptions { pooling: Some(Pooling::Cls), ..plain() });
    assert!(cls.contains("--pooling cls") && cls.contains("mean"), "{cls}");
    let skip = LoadOptions { dtype: Some(Dtype::Int8), int8_skip: vec!["embedding".to_owned()], ..plain() };
    let skip = refusal(skip);
    assert!(skip.contains("--int8-skip embedding") && skip.contains("has none"), "{skip}");
    let gpu = prefold_backends::load(&LoadOptions { device: Some(DeviceChoice::Cuda(0)), ..plain() });
    assert!(matches!(gpu, Err(LoadError::Options(_))));
}

/// A copy of the fixture with other tensors.
fn with_tensors(directory: &Path, tensors: Vec<(&str, Stored, Vec<usize>, Vec<u8>)>) {
    for file in ["config.json", "modules.json", "tokenizer.json"] {
        std::fs::copy(fixture("model2vec-tiny").join(file), directory.join(file)).unwrap();
    }
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    std::fs::write(directory.join("model.safetensors"), serialize(views, None).unwrap()).unwrap();
}

#[test]
fn tokens_share_rows_with_a_factor_each() {
    let file = std::fs::read(fixture("model2vec-tiny").join("model.safetensors")).unwrap();
    let table = SafeTensors::deserialize(&file).unwrap();
    let table = table.tensor("embeddings").unwrap();
    let (rows, row_bytes) = (table.shape()[0], table.shape()[1] * 4);
    // The rows in reverse, each twice as long: exact in f32.
    let halved = |bytes: &[u8]| -> Vec<u8> {
        bytes.as_chunks().0.iter().flat_map(|&value| (2.0 * f32::from_le_bytes(value)).to_le_bytes()).collect()
    };
    let reversed: Vec<u8> = table.data().chunks(row_bytes).rev().flat_map(halved).collect();
    let factors: Vec<u8> = (0..rows).flat_map(|_| 0.5_f32.to_le_bytes()).collect();
    let sequences = [vec![5, 7, 9], vec![400], vec![8; 100]].map(Tokens::from);
    let plain = values(&mut load(&options(fixture("model2vec-tiny"))), &sequences);
    let mapping = |size: usize, last: i64| -> Vec<u8> {
        (0..rows as i64).flat_map(|row| (last - row).to_le_bytes()[..size].to_vec()).collect()
    };
    for (stored, size) in [(Stored::I64, 8), (Stored::I32, 4)] {
        let directory = tempfile::tempdir().unwrap();
        let tensors = |last: i64| {
            vec![
                ("embeddings", Stored::F32, vec![rows, row_bytes / 4], reversed.clone()),
                ("mapping", stored, vec![rows], mapping(size, last)),
                ("weights", Stored::F32, vec![rows], factors.clone()),
            ]
        };
        with_tensors(directory.path(), tensors(rows as i64 - 1));
        assert_eq!(values(&mut load(&options(directory.path().to_owned())), &sequences), plain, "{stored:?}");
        with_tensors(directory.path(), tensors(rows as i64));
        let error = prefold_backends::load(&options(directory.path().to_owned())).err().unwrap().to_string();
        assert!(error.contains("`mapping` must have values from 0 to"), "{error}");
    }
    let factors = |size: usize| -> Vec<u8> {
        let bytes = |factor: f64| {
            if size == 8 { factor.to_le_bytes().to_vec() } else { (factor as f32).to_le_bytes().to_vec() }
        };
        (0..rows).flat_map(|at| bytes((at % 8) as f64 / 8.0)).collect()
    };
    let table = ("embeddings", Stored::F32, vec![rows, row_bytes / 4], table.data().to_vec());
    let with_factors = |dtype: Stored, shape: Vec<usize>, bytes: Vec<u8>| {
        let directory = tempfile::tempdir().unwrap();
        with_tensors(directory.path(), vec![table.clone(), ("weights", dtype, shape, bytes)]);
        let checked = prefold_backends::check_model(&options(directory.path().to_owned())).verdict;
        let loaded = prefold_backends::load(&options(directory.path().to_owned()));
        assert_eq!(loaded.is_err(), matches!(checked, prefold_backends::Verdict::DoesNotRun(_)), "{checked:?}");
        loaded.map(|mut model| values(&mut model, &sequences)).map_err(|error| error.to_string())
    };
    let in_f32 = with_factors(Stored::F32, vec![rows], factors(4)).unwrap();
    assert_ne!(in_f32, plain);
    assert_eq!(with_factors(Stored::F64, vec![rows], factors(8)).unwrap(), in_f32, "factors in 64 bits count");
    for (dtype, shape, size, problem) in [
        (Stored::F64, vec![rows, 1], 8, "tensor `weights`"),
        (Stored::F32, vec![1, rows], 4, "tensor `weights`"),
        (Stored::I64, vec![rows], 8, "tensor `weights` of type I64"),
    ] {
        let refused = with_factors(dtype, shape, factors(size)).unwrap_err();
        assert!(refused.contains(problem), "{refused}");
    }
    let directory = tempfile::tempdir().unwrap();
    with_tensors(directory.path(), vec![("embeddings", Stored::I8, vec![4, 2], vec![0; 8])]);
    let error = prefold_backends::load(&options(directory.path().to_owned())).err().unwrap().to_string();
    assert!(error.contains("`embeddings` of type I8"), "{error}");
}
