//! bfloat16 against Hugging Face's float32: close enough to rank alike.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; clippy sees tests only in test functions")]

use crate::support::*;
use prefold_backends::{Dtype, LoadOptions};

fn cosine(a: &[f32], b: &[f32]) -> f32 {
    normalized(a).iter().zip(normalized(b)).map(|(a, b)| a * b).sum()
}

#[test]
fn fixtures_point_the_same_way() {
    for name in EMBEDDING_FIXTURES {
        let expected = expected(&fixture(name));
        let cases = cases(&expected, "cases");
        let sequences: Vec<_> = cases.iter().map(ids).collect();
        for pool in ["last", "mean", "cls"] {
            for attention in ATTENTION_MODES {
                let options = LoadOptions {
                    dtype: Some(Dtype::Bfloat16),
                    pooling: Some(pooling(pool)),
                    attention,
                    ..options(fixture(name))
                };
                let mut model = load(&options);
                let found = run(&mut model.backend, &sequences, Compaction::On { multiple: 1 });
                for (found, case) in found.iter().zip(cases) {
                    let cosine = cosine(found, &floats(&case[pool]));
                    assert!(cosine >= 0.999, "{name}, {}, {pool}, {attention:?}: cosine {cosine}", case["name"]);
                }
            }
        }
    }
}

#[test]
fn the_built_in_model_points_the_same_way() {
    let directory = repository().join("models/prefold-mini");
    let expected = expected(&directory);
    let mut model = load(&LoadOptions { dtype: Some(Dtype::Bfloat16), ..options(directory) });
    for case in cases(&expected, "texts") {
        let sequence = model.tokenizer.encode(case["text"].as_str().unwrap(), true).unwrap().get_ids().to_vec();
        let found = run(&mut model.backend, &[sequence], Compaction::Off);
        let cosine = cosine(&found[0][..32], &floats(&case["embedding_first32"]));
        assert!(cosine >= 0.999, "{}: cosine {cosine}", case["text"]);
    }
}
