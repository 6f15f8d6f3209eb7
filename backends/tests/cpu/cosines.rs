//! bfloat16 and int8 against Hugging Face's float32: close enough to rank alike.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};

/// Types, and the least cosine of an embedding with the one in float32. Rows of the fixtures have few values, of random models.
const TYPES: [(Dtype, f32); 2] = [(Dtype::Bfloat16, 0.999), (Dtype::Int8, 0.994)];

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    normalized(a).iter().zip(normalized(b)).map(|(a, b)| a * b).sum()
}

#[test]
fn fixtures_point_the_same_way() {
    for (name, (dtype, least)) in EMBEDDING_FIXTURES.iter().flat_map(|name| TYPES.map(|it| (*name, it))) {
        let expected = expected(&fixture(name));
        let cases = cases(&expected, "cases");
        let sequences: Vec<_> = cases.iter().map(ids).collect();
        for pool in ["last", "mean", "cls"] {
            for attention in ATTENTION_MODES {
                let options = LoadOptions {
                    dtype: Some(dtype),
                    pooling: Some(pooling(pool)),
                    attention,
                    ..options(fixture(name))
                };
                let mut model = load(&options);
                let found = run(&mut model.backend, &sequences, Compaction::On { multiple: 1 });
                for (found, case) in found.iter().zip(cases) {
                    let cosine = cosine(found, &floats(&case[pool]));
                    assert!(
                        cosine >= least,
                        "{name}, {dtype}, {}, {pool}, {attention:?}: cosine {cosine}",
                        case["name"]
                    );
                }
            }
        }
    }
}

#[test]
fn the_built_in_model_points_the_same_way() {
    let directory = repository().join("router/builtin");
    let expected = expected(&directory);
    for (dtype, least) in TYPES {
        let mut model = load(&LoadOptions { dtype: Some(dtype), ..options(directory.clone()) });
        for case in cases(&expected, "texts") {
            let sequence =
                model.tokenizers.first().encode(case["text"].as_str().unwrap(), true).unwrap().get_ids().to_vec();
            let found = run(&mut model.backend, &[sequence], Compaction::Off);
            let cosine = cosine(&found[0][..32], &floats(&case["embedding_first32"]));
            assert!(cosine >= least, "{dtype}, {}: cosine {cosine}", case["text"]);
        }
    }
}
